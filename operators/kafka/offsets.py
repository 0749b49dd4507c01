"""Where partitions begin and end: the offsets that a start, such as a time, means."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from operators.kafka.settings import import_kafka


class Offsets:
    """Asks the broker for offsets of many partitions at once."""

    def __init__(self, client: Any, start: Any) -> None:
        self._client = client
        self.start = start
        """Where partitions begin that have no position."""
        self._at = import_kafka("KafkaSource").TopicPartition

    def starts(self, of: list[tuple[str, int]]) -> list[Any]:
        """The offset of each partition's first message to read; or the error."""
        start = self.start
        if isinstance(start, datetime):
            found = self._asked(of, round(start.timestamp() * 1000))
            later = [(each.topic, each.partition) for each in found if each.offset == _END]
            ends = iter(self.ends(later)) if later else iter(())
            return [next(ends) if each.offset == _END else each for each in found]
        if isinstance(start, dict):
            found = self._asked(of, _EARLIEST)
            for each in found:
                each.offset = start.get(f"{each.topic}/{each.partition}", each.offset)
            return found
        return self._asked(of, _EARLIEST if start == "earliest" else _LATEST)

    def ends(self, of: list[tuple[str, int]]) -> list[Any]:
        """The offset behind each partition's last message; or the error."""
        return self._asked(of, _LATEST)

    def _asked(self, of: list[tuple[str, int]], time: int) -> list[Any]:
        asked = [self._at(topic, number, time) for topic, number in of]
        found: list[Any] = self._client.offsets_for_times(asked, timeout=ANSWER_SECONDS)
        return found


_LATEST, _EARLIEST = -1, -2
"""What the broker takes in place of a time."""
_END = -1
ANSWER_SECONDS = 3.0
"""The longest that a broker takes to answer one question."""
