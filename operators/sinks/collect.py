"""A sink that brings all records to the driver."""

from itertools import chain
from typing import Any

from engine.columns import is_columns, packed, unpacked
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from engine.network import Batch
from operators.sinks.gathered import encoded, gathered, newest, restored


class Collect(SinkOperator[Any]):
    """A list of all records as the job's output, with those of each task in order.

    For a stream of columns it is a list of record batches, from which `pyarrow.Table.from_batches`
    makes a table. It holds everything in memory: it is for results, not for streams without end.
    Records travel to the driver as they do through channels, so it takes the same types.
    """

    properties = Properties(accepts_columns=True, driver=True, meaning={"kind": "collect"})

    def open(self, context: TaskContext) -> SinkWriter:
        """An empty list."""
        return _CollectWriter(context)

    def commit(self, _epoch: int, committed: list[list[Any]]) -> list[Any]:
        """The lists of the tasks, one after the other."""
        merged: list[Any] = []
        for batch in chain.from_iterable(committed):
            if isinstance(batch, Batch):
                merged += batch.to_list()
            else:
                merged.append(unpacked(batch))
        return merged


class _CollectWriter(SinkWriter):
    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._batches: list[Any] = []
        self._encoded: list[tuple[int, bytes]] = []
        """The batches so far, as checkpoints keep them."""

    def write(self, records: Any) -> None:
        if is_columns(records):
            self._batches.append(records)
        elif records:
            self._batches.append(Batch.from_list(records, self._context.pickle))

    def prepare(self, _epoch: int) -> Any:
        if not self._context.checkpoints:
            return None
        self._encoded += map(encoded, self._batches[len(self._encoded) :])
        return gathered(self._context, list(self._encoded))

    def commit(self, _epoch: int, _prepared: Any) -> list[Any]:
        return [packed(each) if is_columns(each) else each for each in self._batches]

    def restore(self, _epoch: int, prepared: list[tuple[int, Any]]) -> None:
        self._encoded = list(chain.from_iterable(newest(prepared)))
        self._batches = list(map(restored, self._encoded))
