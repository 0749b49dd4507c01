"""Operators on keyed streams: `reduce` in Python, the aggregates in Rust.

Each task sees all records of its keys and keeps one value per key, for as long as the job runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from engine.errors import GraphError
from engine.graph.operator import BatchOperator, TaskContext
from operators.elementwise import check_function

Item: TypeAlias = int | str
"""Where in a record a value is: the index of a tuple's or list's item, or a dict's field name."""

Aggregation: TypeAlias = Literal["count", "sum", "min", "max", "first"]


@dataclass(frozen=True)
class KeyRecords(BatchOperator):
    """Puts each record behind its key: record -> (key, record), for keys that a function finds.

    The key then travels with its record, so that the function runs once, before the network.
    """

    function: Callable[[Any], Any]

    def open(self, context: TaskContext) -> Callable[[list[Any]], list[Any]]:
        """The loop over a batch."""
        function = self.function

        def key_records(batch: list[Any]) -> list[Any]:
            out: list[Any] = []
            append = out.append
            for record in batch:
                append((function(record), record))
            return out

        return key_records


@dataclass(frozen=True)
class Reduce(BatchOperator):
    """Combines the records of each key; emits what the key has come to, for every record.

    `key` is the item of a record that is its key, None if the record itself is; `paired` tells
    that what arrives are pairs of a key and a record.

    >>> context = TaskContext("reduce[0]", 0, 1, 100, "job")
    >>> add = Reduce(lambda a, b: (a[0], a[1] + b[1]), key=0)
    >>> add.open(context)([("a", 1), ("b", 1), ("a", 1)])
    [('a', 1), ('b', 1), ('a', 2)]
    """

    function: Callable[[Any, Any], Any]
    key: Item | None
    paired: bool = False

    def __post_init__(self) -> None:
        check_function("reduce", self.function, 2)

    def open(self, context: TaskContext) -> Callable[[list[Any]], list[Any]]:
        """The loop over a batch, made for the kind of key, with a dict of its own."""
        if self.paired:
            return _reduce_pairs(self.function)
        if self.key is None:
            return _reduce_records(self.function)
        return _reduce_by_item(self.function, self.key)


@dataclass(frozen=True)
class NativeAggregate(BatchOperator):
    """An aggregation in Rust, on records as they came over the network.

    It emits, once per batch, (key, value) for every key in the batch with the latest value; over
    columns, a `pyarrow.RecordBatch` of two columns, named as the key's and for the aggregation.
    `key_path` and `value_path` lead from a record to its key and value; empty is the record.
    """

    kind: Aggregation
    key_path: tuple[Item, ...]
    value_path: tuple[Item, ...]

    accepts_encoded: ClassVar[bool] = True
    accepts_columns: ClassVar[bool] = True
    compacts: ClassVar[bool] = True

    @classmethod
    def of(
        cls, kind: Aggregation, key: Item | None, item: Item | None, paired: bool
    ) -> "NativeAggregate":
        """The aggregation of `item` by `key`, of records or of pairs of a key and a record."""
        key_path = () if key is None else (key,)
        value_path = () if item is None else (item,)
        return cls(kind, key_path, (1, *value_path) if paired else value_path)

    def open(self, context: TaskContext) -> Callable[[Any], Any]:
        """The native function, with a table of its own."""
        from engine.network import Aggregate

        return Aggregate(self.kind, list(self.key_path), list(self.value_path)).update


def check_item(method: str, item: object) -> None:
    """Raise `GraphError` unless it can lead to an item of a record."""
    if isinstance(item, str) or (type(item) is int and item >= 0):
        return
    raise GraphError(f"{method}() got {item!r:.80}, expected an index >= 0 or a field name")


# The loops below are the hot path of a program with reduce: a batch in, a list out, one dict, no
# call but that of the user's function. `record` is the name that error reports look for.


def _reduce_by_item(function: Callable[[Any, Any], Any], item: Any) -> Callable[..., list[Any]]:
    state: dict[Any, Any] = {}

    def reduce(batch: list[Any]) -> list[Any]:
        values, combine, index = state, function, item
        out: list[Any] = []
        for record in batch:
            key = record[index]
            try:
                value = values[key]
            except KeyError:
                values[key] = record
                out.append(record)
            else:
                values[key] = value = combine(value, record)
                out.append(value)
        return out

    return reduce


def _reduce_records(function: Callable[[Any, Any], Any]) -> Callable[..., list[Any]]:
    state: dict[Any, Any] = {}

    def reduce(batch: list[Any]) -> list[Any]:
        values, combine = state, function
        out: list[Any] = []
        for record in batch:
            try:
                value = values[record]
            except KeyError:
                values[record] = record
                out.append(record)
            else:
                values[record] = value = combine(value, record)
                out.append(value)
        return out

    return reduce


def _reduce_pairs(function: Callable[[Any, Any], Any]) -> Callable[..., list[Any]]:
    state: dict[Any, Any] = {}

    def reduce(batch: list[Any]) -> list[Any]:
        values, combine = state, function
        out: list[Any] = []
        for key, record in batch:
            try:
                value = values[key]
            except KeyError:
                values[key] = record
                out.append(record)
            else:
                values[key] = value = combine(value, record)
                out.append(value)
        return out

    return reduce
