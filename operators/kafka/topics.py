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

    Several threads may ask. Who waits for an answer holds the client: without it none comes.
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
        client = self._client
        asked = client.describe_topics(  # which does not make it, as metadata would
            self._kafka.TopicCollection([topic]), request_timeout=PATIENCE_SECONDS
        )
        try:
            count = len(asked[topic].result().partitions)
        except self._kafka.KafkaException as error:
            raise self.error(f"find topic {topic!r}", error) from None
        self._counts[topic] = now, count
        return count

    def make(self, topic: str, partitions: int, settings: Mapping[str, str] = {}) -> None:
        """Make a topic, replicated as the broker's default says, unless it is there."""
        if self._exists(topic):
            return
        client = self._client
        new = self._admin.NewTopic(topic, partitions, -1, config=dict(settings))
        (made,) = client.create_topics([new], request_timeout=PATIENCE_SECONDS).values()
        try:
            made.result()
        except self._kafka.KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # another task was faster
                raise self.error(f"make topic {topic!r}", error) from None
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
        client = self._client
        resource = self._admin.ConfigResource(self._admin.ResourceType.TOPIC, topic)
        try:
            (asked,) = client.describe_configs(
                [resource], request_timeout=PATIENCE_SECONDS
            ).values()
            return {name: entry.value for name, entry in asked.result().items()}
        except self._kafka.KafkaException as error:
            if error.args[0].name() in _HIDDEN:
                return {}
            raise self.error(f"read the settings of topic {topic!r}", error) from None

    def end(self, topic: str) -> int:
        """The offset behind all messages of the topic's first partition, committed or not."""
        client = self._client
        (asked,) = client.list_offsets(
            {self._kafka.TopicPartition(topic, 0): self._admin.OffsetSpec.latest()},
            isolation_level=self._kafka.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=PATIENCE_SECONDS,
        ).values()
        try:
            return int(asked.result().offset)
        except self._kafka.KafkaException as error:
            told = self.error(f"read {topic}", error)
            self._client = self._connected()  # a client keeps the leaders that it knew
            raise told from None

    def close(self) -> None:
        """Disconnect. It is the last call: a client ends with the last reference to it."""
        self._client = None

    def error(self, what: str, error: Any) -> Exception:
        """The engine's error for a request that failed with a KafkaException."""
        self._client.poll(0)  # which tells why
        told = f"KafkaSink could not {what}"
        return storage_error(told, error.args[0], self._servers, self._last)


_FRESH_SECONDS = 30.0
_PAUSE_SECONDS = 0.02
_HIDDEN = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART")
