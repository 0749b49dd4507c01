"""A source of a given collection of records."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from engine.columns import (
    as_columns,
    is_columns,
    lacks_columns,
    packed,
    slices,
    unpacked,
)
from engine.errors import CheckpointError, GraphError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator
from operators.sources.batches import Blocks
from operators.sources.rate import check_rate

T = TypeVar("T")


class Collection(SourceOperator[T]):
    """The records of a list or another finite iterable, of which it makes a copy.

    Task i of n emits the i-th of n parts, each in order. The rows of a `pyarrow.RecordBatch` are
    records, but a batch is in one part as a whole. A `pyarrow.Table` or a DataFrame of pandas or
    Polars counts as batches of its rows. A job goes on from a checkpoint only with the same number
    of records. `rate` is records per second over all tasks.

    >>> context = TaskContext("collection[1]", 1, 2, 2, "job")
    >>> list(Collection(["a", "b", "c", "d", "e", "f"]).open(context))
    [['d', 'e'], ['f']]
    """

    def __init__(self, records: Iterable[T], rate: float | None = None) -> None:
        batches = _batches(records)
        if batches is None and not isinstance(records, Iterable):
            raise GraphError(
                f"Collection got {type(records).__name__} {records!r:.80}, expected an iterable",
                hint="a single record is Collection([record])",
            )
        check_rate(rate)
        self.records: list[Any] = list(records) if batches is None else batches
        self.columnar = any(is_columns(record) for record in self.records)
        if self.columnar and not all(is_columns(record) for record in self.records):
            raise GraphError(
                "Collection got record batches among other records, expected one kind",
                hint="make columns of the others: pyarrow.RecordBatch.from_pylist",
            )
        if self.columnar and any(lacks_columns(batch) for batch in self.records):
            raise GraphError("Collection got rows without a column, expected a column at least")
        self.rate = rate

    def __getstate__(self) -> dict[str, Any]:
        records = list(map(packed, self.records)) if self.columnar else self.records
        return {**vars(self), "records": records}

    def __setstate__(self, state: dict[str, Any]) -> None:
        records: list[Any] = state["records"]
        vars(self).update(state)
        self.records = list(map(unpacked, records)) if self.columnar else records

    @property
    def properties(self) -> Properties:
        """Its rate, whether records are columns, and that it never waits."""
        return Properties(
            rate=self.rate,
            emits_columns=self.columnar,
            never_waits=True,
            meaning={"kind": "collection"},
        )

    def open(self, context: TaskContext) -> Blocks:
        """The part of this task, in batches."""
        size = context.batch_size
        end = len(self.records) * (context.index + 1) // context.parallelism
        begin = len(self.records) * context.index // context.parallelism
        if self.columnar:

            def whole(start: int) -> Iterator[tuple[int, T]]:
                return enumerate(self.records[start:end], start)

            return _Part(whole, begin, size, len(self.records))
        most = size * max(1, _BLOCK_RECORDS // size)

        def blocks(start: int) -> Iterator[tuple[int, list[T]]]:
            for at in range(start, end, most):
                yield at, self.records[at : min(at + most, end)]

        return _Part(blocks, begin, size, len(self.records))


class _Part(Blocks):
    """One part. A position has the number of all records, too, since the parts depend on it."""

    def __init__(
        self,
        blocks: Callable[[Any], Iterable[tuple[Any, Any]]],
        start: int,
        size: int,
        records: int,
    ) -> None:
        super().__init__(blocks, start, size)
        self._records = records

    @property
    def position(self) -> tuple[Any, ...]:
        return (*super().position, self._records)

    def restore(self, position: tuple[Any, ...]) -> None:
        """Begin in the middle of a block; CheckpointError for a position of another collection."""
        start, skipped, *records = position
        if records not in ([], [self._records]):
            raise CheckpointError(
                f"the Collection has {self._records:,} records, expected {records[0]:,} as in the "
                "checkpoint: tasks would go on elsewhere",
                "give it the same records again, or start the job anew",
            )
        super().restore((start, skipped))


def _batches(records: Any) -> list[Any] | None:
    """The rows of a table or a frame as batches that tasks can share; None for other values."""
    columns = as_columns(records)
    return None if columns is None else slices(columns, _BATCH_ROWS)


_BATCH_ROWS = 4096
_BLOCK_RECORDS = 256
