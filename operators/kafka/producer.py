"""One producer of Kafka: messages in order, errors as the engine's."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engine.errors import StorageError
from operators.kafka.errors import LastError, storage_error
from operators.kafka.messages import Message
from operators.kafka.settings import import_kafka


class _Deliveries:
    """The `on_delivery` of a client: why the first message that has not arrived did not.

    It is apart from the producer, for a client ends with the last reference to its producer.
    """

    def __init__(self, servers: str, last: LastError) -> None:
        self._servers, self._last = servers, last
        self.failed: StorageError | None = None

    def __call__(self, error: Any, message: Any) -> None:
        if self.failed is None and error is not None and error.name() not in _DROPPED:
            topic, partition = message.topic(), message.partition()
            where = f"topic {topic!r}" + ("" if partition < 0 else f", partition {partition}")
            what = f"KafkaSink could not deliver a message to {where}"
            self.failed = storage_error(what, error, self._servers, self._last)


class Producer:
    """A producer, idempotent, whose messages keep their order. One thread at a time.

    Its first error is final: whoever uses it makes another. With a `transactional_id`, `begin` and
    `commit` divide the messages into transactions, and every earlier producer of this id is fenced.
    """

    def __init__(self, settings: Mapping[str, Any], transactional_id: str | None = None) -> None:
        """Connect; a transactional one is ready when this returns. Raises StorageError."""
        kafka = import_kafka("KafkaSink")
        self.servers = str(settings["bootstrap.servers"])
        self._exception = kafka.KafkaException
        self._timed_out = kafka.KafkaError(kafka.KafkaError._TIMED_OUT)
        self._last = LastError()
        self._deliveries = _Deliveries(self.servers, self._last)
        own = {"transactional.id": transactional_id} if transactional_id else {}
        self._most = int(settings.get("queue.buffering.max.messages", _QUEUED_MESSAGES))
        self._most_bytes = 512 * int(settings.get("queue.buffering.max.kbytes", _QUEUED_KBYTES))
        self._unflushed = 0
        """The bytes sent since the last `flush`: at most half of what the queue takes."""
        self._client: Any = None
        self._client = self._call(
            "start",
            kafka.Producer,
            {
                "partitioner": "murmur2_random",  # as Java's
                "log_level": _CRITICAL,  # the errors come by `error_cb`, too
                **settings,
                **own,
                "enable.idempotence": True,
                "delivery.report.only.error": True,
                "queue.buffering.max.messages": self._most,
                "error_cb": self._last,
                "on_delivery": self._deliveries,
            },
        )
        if transactional_id:
            what = f"begin transactions of {transactional_id!r}"
            for _ in range(2):  # of the address that was given, and of the broker that it names
                self._call(what, self._client.list_topics, "", PATIENCE_SECONDS)
            # where it has no connection yet, it would look for one 0.5 s later
            self._call(what, self._client.init_transactions, PATIENCE_SECONDS)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call("begin a transaction", self._client.begin_transaction)

    def send(self, topic: str | None, messages: list[Message], size: int) -> None:
        """Send messages of `size` bytes in all: plain ones to the topic, or others.

        Waits while too many are on their way. Raises StorageError for one of these, or of earlier
        ones.
        """
        while len(messages) > 1 and (
            size > self._most_bytes // 2 or len(messages) > self._most // 2
        ):
            half, size = len(messages) // 2, size // 2
            self.send(topic, messages[:half], size)
            messages = messages[half:]
        if self._unflushed + size > self._most_bytes:
            self.flush()
        self._unflushed += size
        while len(self._client) + len(messages) > self._most:
            self._client.poll(_POLL_SECONDS)
            self._check()
        if topic is None:
            self._send_each(messages)
        else:
            self._send_plain(topic, messages)
        self._client.poll(0)
        self._check()

    def _send_plain(self, topic: str, messages: list[Message]) -> None:
        if self._client.produce_batch(topic, messages) == len(messages):
            return
        error = next(each["_error"] for each in messages if "_error" in each)
        raise storage_error(f"KafkaSink could not send to topic {topic!r}", error, self.servers)

    def _send_each(self, messages: list[Message]) -> None:
        produce = self._client.produce
        for key, value, topic, partition, timestamp, headers in messages:
            try:
                produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
            except self._exception as error:
                what = f"send to topic {topic!r}"
                if error.args[0].name() != "_UNKNOWN_PARTITION":
                    told = f"KafkaSink could not {what}"
                    raise storage_error(told, error.args[0], self.servers) from None
                self._call(what, self._client.list_topics, topic, PATIENCE_SECONDS)  # it has grown
                again = partial(produce, timestamp=timestamp, headers=headers)
                self._call(what, again, topic, value, key, partition)

    def flush(self, seconds: float = math.inf) -> None:
        """Wait until all messages have arrived; StorageError if one cannot, or not in time."""
        until = time.monotonic() + seconds
        while left := self._client.flush(_POLL_SECONDS):
            self._check()
            if time.monotonic() >= until:
                raise storage_error(
                    f"KafkaSink could not deliver {left} messages yet",
                    self._timed_out,
                    self.servers,
                    self._last,
                )
        self._check()
        self._unflushed = 0

    def commit(self) -> None:
        """Commit the transaction, with all its messages. Raises StorageError: nobody knows."""
        self._call("commit a transaction", self._client.commit_transaction, PATIENCE_SECONDS)
        self._check()
        self._unflushed = 0

    def close(self) -> None:
        """Drop whatever has not arrived, and disconnect. It is the last call."""
        self._client.purge()
        self._client.poll(0)
        self._client = None

    def _call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._exception as error:
            if self._client is not None and error.args[0].name() in _UNTOLD:
                self._client.poll(0)  # which tells why
            self._check()
            told = f"KafkaSink could not {what}"
            raise storage_error(told, error.args[0], self.servers, self._last) from None

    def _check(self) -> None:
        if self._deliveries.failed is not None:
            raise self._deliveries.failed


PATIENCE_SECONDS = 10.0
"""The longest that one request waits for a broker."""
_POLL_SECONDS = 0.1
_QUEUED_MESSAGES = 100_000
_QUEUED_KBYTES = 1 << 20
"""librdkafka's own limits."""
_CRITICAL = 2
_UNTOLD = ("_TRANSPORT", "_TIMED_OUT")
_DROPPED = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")
"""What befalls the messages of a transaction that has failed; another error says why."""
