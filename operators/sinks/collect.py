"""A sink that brings all records to the driver."""

from itertools import chain
from typing import Any, ClassVar

from engine.columns import is_columns
from engine.graph.operator import SinkOperator, SinkWriter, TaskContext


class Collect(SinkOperator[Any]):
    """The list of all records, those of each task in order, as the job's output.

    Of a stream of columns it is the list of the record batches, of which
    `pyarrow.Table.from_batches` makes a table. It holds everything in memory: for results, not for
    streams without end.
    """

    driver: ClassVar[bool] = True
    accepts_columns = True

    def open(self, context: TaskContext) -> SinkWriter:
        """An empty list."""
        return _CollectWriter()

    def merge(self, results: list[list[Any]]) -> list[Any]:
        """The lists of the tasks, one behind the other."""
        return list(chain.from_iterable(results))


class _CollectWriter(SinkWriter):
    def __init__(self) -> None:
        self._records: list[Any] = []

    def write(self, records: Any) -> None:
        if is_columns(records):
            self._records.append(records)
        else:
            self._records += records

    def close(self) -> list[Any]:
        return self._records
