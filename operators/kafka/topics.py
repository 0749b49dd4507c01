"""What a task asks of topics, beside sending to them, by one client."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from engine.errors import StorageError
from operators.kafka.errors import LastError, storage_error
from operators.kafka.producer import PATIENCE_SECONDS
from operators.kafka.settings import import_kafka


class Topics:
    """The topics of a cluster: how many partitions they have, their ends, their settings.

    Several threads may ask.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._kafka = import_kafka("KafkaSink")
        from confluent_kafka import admin

        self._admin: Any = admin
        self._settings = settings
        self._servers = str(settings["bootstrap.servers"])
        self._last = LastError()
        self._counts: dict[str, tuple[float, int]] = {}
        """When partitions were counted, and how many there were."""
        self._client = self._connected()

    def _connected(self) -> Any:
        try:
            return self._admin.AdminClient(
                {"log_level": 2, **self._settings, "error_cb": self._last}
            )
        except self._kafka.KafkaException as error:
            raise storage_error("KafkaSink could not start", error.args[0], self._servers) from None

    def partitions(self, topic: str) -> int:
        """The number of partitions now or a short while ago. StorageError for a missing topic."""
        at, count = self._counts.get(topic, (-_FRESH_SECONDS, 0))
        if (now := time.monotonic()) - at < _FRESH_SECONDS:
            return count
        names = self._kafka.TopicCollection([topic])
        found, error = self._ask("describe_topics", names)  # metadata would make it
        if error is not None:
            raise self.error(f"find topic {topic!r}", error)
        count = len(found.partitions)
        self._counts[topic] = now, count
        return count

    def make(self, topic: str, partitions: int, settings: Mapping[str, str] = {}) -> None:
        """Make a topic, replicated as the broker's default says, unless it is there."""
        if self._exists(topic):
            return
        new = self._admin.NewTopic(topic, partitions, -1, config=dict(settings))
        _, error = self._ask("create_topics", [new])
        if error is not None and error.name() != "TOPIC_ALREADY_EXISTS":  # another task was faster
            raise self.error(f"make topic {topic!r}", error)
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._exists(topic) and time.monotonic() < until:  # brokers hear of it later
            time.sleep(_PAUSE_SECONDS)

    def _exists(self, topic: str) -> bool:
        try:
            return self.partitions(topic) > 0
        except StorageError as error:
            if error.code not in _HIDDEN:
                raise
            return False

    def settings(self, topic: str) -> dict[str, str]:
        """The topic's settings; none if this user may not see them."""
        resource = self._admin.ConfigResource(self._admin.ResourceType.TOPIC, topic)
        found, error = self._ask("describe_configs", [resource])
        if error is None:
            return {name: entry.value for name, entry in found.items()}
        if error.name() in _HIDDEN:
            return {}
        raise self.error(f"read the settings of topic {topic!r}", error)

    def end(self, topic: str) -> int:
        """The offset behind all messages of the topic's first partition, committed or not."""
        found, error = self._ask(
            "list_offsets",
            {self._kafka.TopicPartition(topic, 0): self._admin.OffsetSpec.latest()},
            isolation_level=self._kafka.IsolationLevel.READ_UNCOMMITTED,
        )
        if error is None:
            return int(found.offset)
        try:
            raise self.error(f"read {topic}", error)
        finally:
            self._client = self._connected()  # a client keeps the leaders that it knew

    def _ask(self, question: str, *about: Any, **how: Any) -> tuple[Any, Any]:
        """The answer of a broker, or the KafkaError in its place.

        Nothing is raised here: an exception would keep this frame, and with it the client. It is
        held meanwhile, since another thread may take a new one, and without it no answer comes.
        """
        client = self._client
        asked = getattr(client, question)(*about, request_timeout=PATIENCE_SECONDS, **how)
        (answer,) = asked.values()
        error = answer.exception()
        if isinstance(error, self._kafka.KafkaException):
            return None, error.args[0]
        return answer.result(), None

    def close(self) -> None:
        """Disconnect. It is the last call: a client ends with the last reference to it."""
        self._client = None

    def error(self, what: str, error: Any) -> Exception:
        """The engine's error for a request that failed with a KafkaError."""
        self._client.poll(0)  # which tells why
        return storage_error(f"KafkaSink could not {what}", error, self._servers, self._last)


_FRESH_SECONDS = 30.0
_PAUSE_SECONDS = 0.02
_HIDDEN = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART")
