"""A sink that only counts."""

from typing import Any

from engine.graph.operator import Properties, SinkOperator, SinkWriter, TaskContext


class Discard(SinkOperator[Any]):
    """Drops the records; each task's result is how many there were."""

    properties = Properties(accepts_columns=True)

    def open(self, context: TaskContext) -> SinkWriter:
        """A counter."""
        return _DiscardWriter()

    def commit(self, _epoch: int, committed: list[int]) -> int:
        """How many records all tasks dropped."""
        return sum(committed)


class _DiscardWriter(SinkWriter):
    def __init__(self) -> None:
        self._count = 0

    def write(self, records: Any) -> None:
        self._count += len(records)

    def prepare(self, _epoch: int) -> int:
        return self._count
