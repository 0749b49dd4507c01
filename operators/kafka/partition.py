"""One partition of a topic at work in a task."""

from __future__ import annotations

from typing import Any, Protocol

from engine.errors import EngineError
from engine.graph.partitions import Partition


class SharedClient(Protocol):
    """What partitions ask of the client that those of a task share."""

    def begin(self) -> None:
        """Find the offsets of new partitions."""

    def fetch(self, limit: int) -> None:
        """Hand out the next messages of all partitions."""

    def given(self, count: int) -> None:
        """A partition has given so many."""

    def lag(self, partition: KafkaPartition, offset: int) -> int | None:
        """The messages behind the offset."""

    def committed(self, partition: KafkaPartition, offset: int) -> None:
        """The offset is final."""

    def forget(self, partition: KafkaPartition) -> None:
        """Read no more of a partition."""


class KafkaPartition(Partition):
    """A partition, whose messages the client hands it.

    Its position is the offset of the next message, that of its end if it has one, and the topic's
    id.
    """

    def __init__(
        self, client: SharedClient, topic: str, number: int, position: Any, values: bool
    ) -> None:
        """`values` says that records are the messages' bytes, not the messages."""
        self._client = client
        self.topic, self.number = topic, number
        self.of, self.name = (topic, number), f"{topic}/{number}"
        self.offset: int | None = None
        """The offset of the next message, once it is known."""
        self.end: int | None = None
        """The first offset that is not read, if there is one."""
        self.topic_id: str | None = None
        """That of the topic in which these offsets are; None is unknown."""
        if position is not None:
            self.offset, self.end, self.topic_id = position
        self.waiting: list[Any] = []
        """The messages that it has not given."""
        self.reached = 0
        """The offset behind all messages, as the broker said last; some offsets have no message."""
        self.is_assigned = False
        """Whether the client reads it."""
        self._values = values
        self._error: EngineError | None = None
        self._is_over = False

    def poll(self, limit: int) -> list[Any] | None:
        """The next messages; raises CheckpointError where they are lost."""
        if not self.waiting:
            if self.offset is None:
                self._client.begin()
            if self._is_over or self._is_at_end():
                return None
            if self._error is not None:
                raise self._error
            self._client.fetch(limit)
            if not self.waiting:
                return []
        given = self.waiting
        if len(given) > limit:
            self.waiting = given[limit:]
            given = given[:limit]
        else:
            self.waiting = []
        self._client.given(len(given))
        self.offset = given[-1].offset() + 1
        if self.end is not None and self.offset > self.end:
            given = [message for message in given if message.offset() < self.end]
        return [message.value() for message in given] if self._values else given

    def _is_at_end(self) -> bool:
        return self.end is not None and self.position[0] >= self.end

    @property
    def position(self) -> Any:
        """Where the next message is."""
        if self.offset is None:
            self._client.begin()
        assert self.offset is not None
        if self.reached > self.offset and not self.waiting:
            self.offset = self.reached
        return self.offset, self.end, self.topic_id

    @property
    def lag(self) -> int | None:
        """The messages in the log behind the position."""
        return self._client.lag(self, self.offset or 0) if self.offset is not None else None

    def committed(self, position: Any) -> None:
        """Have the group's offset committed, for tools."""
        self._client.committed(self, position[0])

    @property
    def is_there(self) -> bool:
        """Whether it can be read."""
        return self._error is None and not self._is_over

    def fail(self, error: EngineError | None) -> None:
        """Raise the error behind the messages that came before it; with None, end there."""
        self._error, self._is_over = error, error is None

    def close(self) -> None:
        """Read no more of it."""
        self._client.forget(self)
