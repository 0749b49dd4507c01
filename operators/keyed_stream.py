"""Keyed streams: what can be done where all records of one key are in one task."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from engine.graph.declaration import Input
from operators.elementwise import MapBatches
from operators.keyed import Aggregation, Item, NativeAggregate, Reduce, check_item
from operators.stream import Stream, then

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")


class KeyedStream(Generic[K, T]):
    """Records of type T, all those of one key of type K in one task, in order of arrival.

    `reduce` is Python per record. `count`, `sum`, `min`, `max` and `first` run in Rust on the
    encoded records: they emit, once per batch of input, a pair (key, value) for every key that the
    batch had, with the latest value. On a stream of columns those are the two columns of a
    `pyarrow.RecordBatch`: the key's, which keeps its name and has a dictionary if it is a string or
    binary (batches share it), and one that is named "count", "sum" and so on. Null values are left
    out there, and a sum must fit into 64 bits.
    """

    def __init__(self, inputs: tuple[Input, ...], key: Item | None, paired: bool) -> None:
        self._inputs = inputs
        self._key = key
        self._paired = paired

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The edges that the next operator will have."""
        return self._inputs

    def reduce(self, function: Callable[[T, T], T]) -> Stream[T]:
        """Combine the records of each key: `.reduce(lambda a, b: (a[0], a[1] + b[1]))`.

        For every record it emits what its key has come to: the first record of a key as it is, then
        `function(so far, record)`.
        """
        return then(self._inputs, Reduce(function, self._key, self._paired), "reduce")

    def count(self) -> Stream[tuple[K, int]]:
        """How many records each key has had."""
        return self._aggregate("count", None)

    def sum(self, item: int | str | None = None) -> Stream[tuple[K, Any]]:
        """The sum of an item of the records, or of the records themselves; integers exactly."""
        return self._aggregate("sum", item)

    def min(self, item: int | str | None = None) -> Stream[tuple[K, Any]]:
        """The least of an item of the records, or of the records themselves."""
        return self._aggregate("min", item)

    def max(self, item: int | str | None = None) -> Stream[tuple[K, Any]]:
        """The greatest of an item of the records, or of the records themselves."""
        return self._aggregate("max", item)

    def first(self, item: int | str | None = None) -> Stream[tuple[K, Any]]:
        """The first that each key had of an item of the records, or of the records themselves."""
        return self._aggregate("first", item)

    @overload
    def map_batches(
        self, function: Callable[[list[T]], list[R]], max_records: int | None = None
    ) -> Stream[R]: ...
    @overload
    def map_batches(
        self, function: Callable[["pa.RecordBatch"], Any], max_records: int | None = None
    ) -> Stream[Any]: ...
    def map_batches(
        self, function: Callable[[Any], Any], max_records: int | None = None
    ) -> Stream[Any]:
        """As `Stream.map_batches`, in the task that has all records of the batch's keys.

        State of the function's own, such as a dict by key, is per task: make it in a callable
        object's `__call__` or a closure that is unpickled in each task.
        """
        operator = MapBatches(function, max_records, self._paired)
        return then(self._inputs, operator, "map_batches")

    def _aggregate(self, kind: Aggregation, item: int | str | None) -> Stream[Any]:
        if item is not None:
            check_item(kind, item)
        operator = NativeAggregate.of(kind, self._key, item, self._paired)
        return then(self._inputs, operator, kind)
