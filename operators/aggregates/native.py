"""The operator that computes aggregations of the records of each key, in Rust.

`KeyedStream.aggregate` computes several at once; `count()`, `sum("n")` and so on one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import Rescue, TaskContext
from engine.graph.operator import OnError, Properties
from engine.state import KeyedState
from operators.aggregates.aggregation import Aggregation, Count
from operators.keys import Item, Key, key_meaning

Emit: TypeAlias = Literal["updates", "final"]
"""When a keyed operator emits: the value of a key as records come ("updates"), or once for each
key, when the input has ended ("final")."""


@dataclass(frozen=True)
class NativeAggregate(BatchOperator):
    """Aggregations in Rust, on encoded records from the network.

    It emits (key, value), over columns a `pyarrow.RecordBatch` with the columns of the key and one
    for each value: once per batch for every key in the batch, or each key once at the end. A value
    is that of the only aggregation, or a dict of all values by name.

    `key` has the path from a record to its key, or the paths to the items of a tuple that is the
    key; without one, all records have one key, and values come alone. `wanted` has, for each
    aggregation, its kind, the path to its value, its parameters, the path to the second value of
    pairs, and the records that count: the path to a bool, or to what a function is true for, and
    that function. An empty path is the record. With `paired`, pairs of a key and a record arrive.
    """

    key: tuple[tuple[Item, ...], ...]
    wanted: tuple[tuple[Any, ...], ...]
    names: tuple[str, ...] | None = None
    emit: Emit = "updates"
    paired: bool = False
    """Whether pairs of a key and a record arrive."""
    on_error: OnError = "fail"

    @property
    def properties(self) -> Properties:
        """It takes encoded batches, and merges updates if it emits them."""
        items = tuple(path[0] for path in self.key if path)
        key: Key = next(iter(items), None) if len(self.key) == 1 else items
        return Properties(
            alone=not self.key,
            accepts_encoded=True,
            accepts_columns=self.takes_columns,
            compacts=self.emit == "updates",
            on_error=self.on_error,
            meaning={
                "kind": "aggregate",
                "key": key_meaning(key, self.paired),
                "value": self.meaning,
                **emit_meaning(self.emit),
            },
        )

    @property
    def takes_columns(self) -> bool:
        """Whether it takes columns as they are: no function says which records count."""
        wheres = (where for each in self.wanted for where in each[4:] if where is not None)
        return not any(callable(function) for _, function in wheres)

    @property
    def meaning(self) -> str | dict[str, str]:
        """The computation, as plain data; of several aggregations, by name."""
        words = [_in_words(*each) for each in self.wanted]
        return words[0] if self.names is None else dict(zip(self.names, words, strict=True))

    @classmethod
    def of(
        cls,
        aggregations: Aggregation | Mapping[str, Aggregation],
        key: Key,
        emit: Emit,
        on_error: OnError = "fail",
        *,
        paired: bool,
    ) -> "NativeAggregate":
        """One aggregation, or several by name, of records or of pairs of a key and a record."""
        items = key if isinstance(key, tuple) else (key,)
        if isinstance(aggregations, Aggregation):
            names, wanted = None, [aggregations]
        else:
            names, wanted = tuple(aggregations), list(aggregations.values())
        return cls(
            tuple(_path(item) for item in items),
            tuple(_wanted(each, paired) for each in wanted),
            names,
            emit,
            paired,
            on_error,
        )

    @property
    def arguments(self) -> tuple[list[list[Item]], list[tuple[Any, ...]], list[str] | None]:
        """The arguments of the native function."""
        wanted = [tuple(map(_for_rust, each)) for each in self.wanted]
        names = None if self.names is None else list(self.names)
        return [list(path) for path in self.key], wanted, names

    def rescue(self, context: TaskContext) -> Rescue | None:
        """The function that takes records that fail, in the form of the native function."""
        rescue = context.rescue
        if rescue is None or not self.paired:
            return rescue
        return lambda pair, error: rescue(pair[1], error)

    def open(self, context: TaskContext) -> BatchFunction:
        """The native function, with a table of its own."""
        from engine.network import Aggregate

        copies_keys, rescue = context.checkpoints, self.rescue(context)
        aggregate = Aggregate(*self.arguments, copies_keys=copies_keys, rescue=rescue)
        kind = UpdatingAggregate if self.emit == "updates" else FinalAggregate
        return kind(aggregate, context.batch_size, self.meaning)


class UpdatingAggregate(BatchFunction):
    """Takes records, and gives the new values of each batch's keys."""

    gives_all = False

    def __init__(self, aggregate: Any, batch_size: int, meaning: str | dict[str, str]) -> None:
        self._meaning = meaning
        self._aggregate = aggregate
        self._batch_size = batch_size

    @property
    def process(self) -> Callable[[Any], Any]:
        """The native method."""
        update: Callable[[Any], Any] = self._aggregate.update
        return update

    def snapshot(self) -> KeyedState:
        """What the aggregate keeps."""
        columns, entries = self._aggregate.snapshot()
        return KeyedState(entries, columns)

    def restore(self, state: KeyedState) -> None:
        """Go on with it, whatever the order of the values was."""
        entries = state.entries
        if (order := state.order_of(self._meaning)) is not None:
            entries = entries.reordered(order, in_windows=False)
        self._aggregate.restore(state.columns, entries, self.gives_all)


class FinalAggregate(UpdatingAggregate):
    """Takes records, and gives each key once at the end."""

    gives_all = True

    def process(self, batch: Any) -> list[Any]:
        """Take records, and give nothing."""
        self._aggregate.add(batch)
        return []

    def on_end(self) -> Iterator[Any]:
        """Give all keys."""
        first = 0
        while len(batch := self._aggregate.updates(first, self._batch_size)):
            yield batch
            first += self._batch_size


def check_aggregations(aggregations: Mapping[str, object], key: Key) -> None:
    """Raise `GraphError` unless these aggregations fit together and to this key."""
    if not aggregations:
        raise GraphError(
            "aggregate() got nothing, expected aggregations by name",
            hint='such as .aggregate(n=Count(), total=Sum("price"))',
        )
    for name, aggregation in aggregations.items():
        if not isinstance(aggregation, Aggregation):
            is_class = isinstance(aggregation, type) and issubclass(aggregation, Aggregation)
            described = aggregation.__name__ if isinstance(aggregation, type) else repr(aggregation)
            raise GraphError(
                f"aggregate() got {name}={described:.80}, expected an aggregation",
                hint=f"{name}={described}() is one" if is_class else "such as Count() or Sum('n')",
            )
        if name in (key if isinstance(key, tuple) else (key,)):
            raise GraphError(
                f"aggregate() got the name {name!r}, which is the key's, expected another",
                hint="over columns each is a column of the result",
            )


def emit_meaning(emit: object) -> dict[str, str]:
    """The entry for `Properties.meaning`: a result that comes only at the end has not come yet.

    So a job with updates may go on with final results, but not the other way round.
    """
    return {"emit": "final"} if emit == "final" else {}


def check_emit(method: str, emit: object) -> None:
    """Raise `GraphError` unless it says when to emit."""
    if emit not in get_args(Emit):
        raise GraphError(f"{method}() got emit={emit!r:.80}, expected 'updates' or 'final'")


def _in_words(
    kind: str,
    path: Sequence[Item],
    parameters: Sequence[float] = (),
    beside: Sequence[Item] | None = None,
    where: tuple[Sequence[Item], Callable[[Any], object] | None] | None = None,
) -> str:
    words = f"{kind}({', '.join(map(repr, [*path, *(beside or ()), *parameters]))})"
    if where is None:
        return words
    to, function = where
    return f"{words} where {'a function' if function else ', '.join(map(repr, to))}"


def _path(item: Item | None) -> tuple[Item, ...]:
    return () if item is None else (item,)


def _wanted(aggregation: Aggregation, paired: bool) -> tuple[Any, ...]:
    record: tuple[Item, ...] = (1,) if paired else ()
    path = () if isinstance(aggregation, Count) else (*record, *_path(aggregation.item))
    wanted = (aggregation.kind, path)
    beside = None if aggregation.beside is None else (*record, aggregation.beside)
    where: Any = aggregation.where
    if callable(where):
        where = (record, where)
    elif where is not None:
        where = ((*record, where), None)
    if beside is not None or where is not None:
        return (*wanted, aggregation.parameters, beside, where)
    return (*wanted, aggregation.parameters) if aggregation.parameters else wanted


def _for_rust(part: Any) -> Any:
    return list(part) if isinstance(part, tuple) and not _is_where(part) else part


def _is_where(part: tuple[Any, ...]) -> bool:
    return bool(part) and isinstance(part[0], tuple)
