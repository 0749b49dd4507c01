"""What a task asks of topics, beside sending to them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from engine.errors import StorageError
from operators.kafka.errors import LastError, storage_error
from operators.kafka.producer import PATIENCE_SECONDS
from operators.kafka.settings import import_kafka


class Topics:
    """The topics of a cluster: how many partitions they have, and their settings."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        kafka = import_kafka("KafkaSink")
        from confluent_kafka import admin

        self.admin: Any = admin
        self._kafka = kafka
        self._servers = str(settings["bootstrap.servers"])
        self._last = LastError()
        self._counts: dict[str, tuple[float, int]] = {}
        """When partitions were counted, and how many there were."""
        try:
            self.client = self.admin.AdminClient(
                {"log_level": 2, **settings, "error_cb": self._last}
            )
        except kafka.KafkaException as error:
            raise storage_error("KafkaSink could not start", error.args[0], self._servers) from None

    def partitions(self, topic: str) -> int:
        """The number of partitions now or a short while ago. StorageError for a missing topic."""
        at, count = self._counts.get(topic, (-_FRESH_SECONDS, 0))
        if (now := time.monotonic()) - at < _FRESH_SECONDS:
            return count
        asked = self.client.describe_topics(  # which does not make it, as metadata would
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
        new = self.admin.NewTopic(topic, partitions, -1, config=dict(settings))
        (made,) = self.client.create_topics([new], request_timeout=PATIENCE_SECONDS).values()
        try:
            made.result()
        except self._kafka.KafkaException as error:
            name = error.args[0].name()
            if name != "TOPIC_ALREADY_EXISTS" and not (name in _HIDDEN and self._exists(topic)):
                raise self.error(f"make topic {topic!r}", error) from None
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._exists(topic) and time.monotonic() < until:  # brokers hear of it later
            time.sleep(_PAUSE_SECONDS)

    def _exists(self, topic: str) -> bool:
        try:
            return self.partitions(topic) > 0
        except StorageError as error:
            if error.is_away:
                raise
            return False

    def settings(self, topic: str) -> dict[str, str]:
        """The topic's settings; none if this user may not see them."""
        resource = self.admin.ConfigResource(self.admin.ResourceType.TOPIC, topic)
        try:
            (asked,) = self.client.describe_configs(
                [resource], request_timeout=PATIENCE_SECONDS
            ).values()
            return {name: entry.value for name, entry in asked.result().items()}
        except self._kafka.KafkaException as error:
            if error.args[0].name() in _HIDDEN:
                return {}
            raise self.error(f"read the settings of topic {topic!r}", error) from None

    def error(self, what: str, error: Any) -> Exception:
        """The engine's error for a request that failed with a KafkaException."""
        self.client.poll(0)  # which tells why
        told = f"KafkaSink could not {what}"
        return storage_error(told, error.args[0], self._servers, self._last)


_FRESH_SECONDS = 30.0
_PAUSE_SECONDS = 0.02
_HIDDEN = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART")
