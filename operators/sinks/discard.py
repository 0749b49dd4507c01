"""A sink that only counts."""

from typing import Any

from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from operators.sinks.gathered import Gathered, gathered, newest


class Discard(SinkOperator[Any]):
    """Drops the records; each task's result is their number."""

    properties = Properties(
        accepts_batches=True, accepts_columns=True, accepts_rows=True, meaning={"kind": "discard"}
    )

    def open(self, context: TaskContext) -> SinkWriter:
        """A counter."""
        return _DiscardWriter(context)

    def commit(self, _epoch: int, committed: list[int]) -> int:
        """The number of records that all tasks dropped."""
        return sum(committed)


class _DiscardWriter(SinkWriter):
    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._count = 0

    def write(self, records: Any) -> None:
        self._count += len(records)

    def prepare(self, _epoch: int) -> Gathered:
        return gathered(self._context, self._count)

    def commit(self, _epoch: int, prepared: Gathered) -> int:
        count: int = prepared[2]
        return count

    def restore(self, _epoch: int, prepared: list[tuple[int, Gathered]]) -> None:
        self._count = sum(newest(prepared))
