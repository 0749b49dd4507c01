"""Aggregations of the records of each key, in Rust: `Count()`, `Sum("n")` and others.

`KeyedStream.aggregate` computes several at once; `count()`, `sum("n")` and so on one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.checks import check_integer
from engine.graph.context import Rescue, TaskContext
from engine.graph.operator import OnError, Properties
from engine.state import KeyedState
from operators.keys import Item, Key, check_item, key_meaning

Emit: TypeAlias = Literal["updates", "final"]
"""When a keyed operator emits: the value of a key as records come ("updates"), or once for each
key, when the input has ended ("final")."""


@dataclass(frozen=True)
class Aggregation:
    """One computation over the records of a key; `item` says where in a record its value is.

    Over columns, `item` is the name or the index of a column. None is the record itself.
    """

    item: Item | None = None

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if self.item is not None:
            check_item(type(self).__name__, self.item)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Numbers that the computation depends on."""
        return ()


@dataclass(frozen=True)
class Count(Aggregation):
    """The number of a key's records."""

    item: None = None
    kind: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        if self.item is not None:
            raise GraphError(f"Count() got {self.item!r:.80}, expected nothing: it counts records")


class Sum(Aggregation):
    """The sum of numbers, as Python adds them; integers exactly."""

    kind: ClassVar[str] = "sum"


class Min(Aggregation):
    """The least of numbers, texts, or other values with an order; the first of equal ones."""

    kind: ClassVar[str] = "min"


class Max(Aggregation):
    """The greatest of numbers, texts, or other values with an order; the first of equal ones."""

    kind: ClassVar[str] = "max"


class Mean(Aggregation):
    """The sum of numbers divided by their count: a float, or a Decimal of Decimals."""

    kind: ClassVar[str] = "mean"


class First(Aggregation):
    """The first value, of any kind."""

    kind: ClassVar[str] = "first"


class Last(Aggregation):
    """The last value, of any kind."""

    kind: ClassVar[str] = "last"


class CountDistinct(Aggregation):
    """The exact number of different values, each of which is kept.

    Values are equal as keys are: 1 and 1.0 are one. Nulls of columns do not count.
    """

    kind: ClassVar[str] = "count_distinct"


@dataclass(frozen=True)
class Quantile(Aggregation):
    """An exact quantile of numbers, all of which are kept: a float, interpolated between two.

    `Quantile("price", 0.5)` is the median. NaN if there is one among the numbers.
    """

    share: float = 0.5
    kind: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("Quantile", self.share)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The share."""
        return (float(self.share),)


@dataclass(frozen=True)
class Quantiles(Aggregation):
    """Several quantiles of the same numbers, which are kept only once: a list of floats."""

    shares: Sequence[float] = (0.25, 0.5, 0.75)
    kind: ClassVar[str] = "quantiles"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.shares, list | tuple) or not self.shares:
            raise GraphError(
                f"Quantiles() got {self.shares!r:.80}, expected a list of numbers from 0 to 1"
            )
        for share in self.shares:
            check_share("Quantiles", share)
        object.__setattr__(self, "shares", tuple(self.shares))

    @property
    def parameters(self) -> tuple[float, ...]:
        """The shares."""
        return tuple(map(float, self.shares))


@dataclass(frozen=True)
class Top(Aggregation):
    """The most frequent values, a list of (value, count); exact, since each value is counted.

    Of equally frequent values, the first come first. Values are equal as in `CountDistinct`.
    """

    most: int = 10
    kind: ClassVar[str] = "top"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("Top(): most", self.most, 1)

    @property
    def parameters(self) -> tuple[float, ...]:
        """How many."""
        return (float(min(self.most, 1 << 53)),)


@dataclass(frozen=True)
class NativeAggregate(BatchOperator):
    """Aggregations in Rust, on encoded records from the network.

    It emits (key, value), over columns a `pyarrow.RecordBatch` with the columns of the key and one
    for each value: once per batch for every key in the batch, or each key once at the end. A value
    is that of the only aggregation, or a dict of all values by name.

    `key` has the path from a record to its key, or the paths to the items of a tuple that is the
    key. `wanted` has, for each aggregation, its kind, the path to its value, and its parameters. An
    empty path is the record. With `paired`, pairs of a key and a record arrive.
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
        """It takes encoded batches and columns, and merges updates if it emits them."""
        key = tuple(path[0] for path in self.key if path)
        return Properties(
            accepts_encoded=True,
            accepts_columns=True,
            compacts=self.emit == "updates",
            on_error=self.on_error,
            meaning={
                "kind": "aggregate",
                "key": key_meaning(key if len(key) > 1 else next(iter(key), None), self.paired),
                "value": self.meaning,
                **emit_meaning(self.emit),
            },
        )

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
        wanted = [(kind, *map(list, rest)) for kind, *rest in self.wanted]
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
        kind = _Aggregate if self.emit == "updates" else _FinalAggregate
        return kind(aggregate, context.batch_size, self.meaning)


class _Aggregate(BatchFunction):
    """Takes records, and gives the new values of each batch's keys."""

    gives_all = False

    def __init__(self, aggregate: Any, batch_size: int, meaning: str | dict[str, str]) -> None:
        self._meaning = meaning
        self._aggregate = aggregate
        self._batch_size = batch_size

    @property
    def process(self) -> Callable[[Any], Any]:
        update: Callable[[Any], Any] = self._aggregate.update
        return update

    def snapshot(self) -> KeyedState:
        columns, entries = self._aggregate.snapshot()
        return KeyedState(entries, columns)

    def restore(self, state: KeyedState) -> None:
        entries = state.entries
        if (order := state.order_of(self._meaning)) is not None:
            entries = entries.reordered(order, in_windows=False)
        self._aggregate.restore(state.columns, entries, self.gives_all)


class _FinalAggregate(_Aggregate):
    """Takes records, and gives each key once at the end."""

    gives_all = True

    def process(self, batch: Any) -> list[Any]:
        self._aggregate.add(batch)
        return []

    def on_end(self) -> Iterator[Any]:
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


def check_share(method: str, share: object) -> None:
    """Raise `GraphError` unless there is a quantile of this share."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise GraphError(
            f"{method}() got {share!r:.80}, expected a number from 0 to 1",
            hint="0.5 is the median, 0.99 what one in a hundred is above",
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


def _in_words(kind: str, path: Sequence[Item], parameters: Sequence[float] = ()) -> str:
    return f"{kind}({', '.join(map(repr, [*path, *parameters]))})"


def _path(item: Item | None) -> tuple[Item, ...]:
    return () if item is None else (item,)


def _wanted(aggregation: Aggregation, paired: bool) -> tuple[Any, ...]:
    wanted = (aggregation.kind, _value_path(aggregation, paired))
    return (*wanted, aggregation.parameters) if aggregation.parameters else wanted


def _value_path(aggregation: Aggregation, paired: bool) -> tuple[Item, ...]:
    if isinstance(aggregation, Count):
        return ()
    path = _path(aggregation.item)
    return (1, *path) if paired else path
