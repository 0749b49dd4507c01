"""User-defined aggregations, in Python."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeGuard, TypeVar

from engine.errors import GraphError
from operators.aggregates.aggregation import Aggregation
from operators.aggregates.native import check_aggregations
from operators.keys import Key

A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R")


class Accumulator(ABC, Generic[T, A, R]):
    """An aggregation of the records of a key, or of a key in a window, one after the other.

    One object serves all keys and windows: the value is the result of `create` and `add`, never an
    attribute. It is state, so it must be of types that records may have.

        >>> import engine.testing
        >>> from datetime import timedelta
        >>> from operators import Accumulator, Tumbling, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> class Span(Accumulator):
        ...     def create(self):
        ...         return None
        ...
        ...     def add(self, accumulated, record):
        ...         _, _, price = record
        ...         low, high = accumulated or (price, price)
        ...         return min(low, price), max(high, price)
        ...
        ...     def merge(self, left, right):
        ...         if left is None:
        ...             return right
        ...         return min(left[0], right[0]), max(left[1], right[1])
        ...
        ...     def finish(self, accumulated):
        ...         low, high = accumulated
        ...         return high - low
        >>> trades = [("oka", 0, 5), ("oka", 20, 9), ("oka", 59, 2), ("oka", 60, 1)]
        >>> minutes = Tumbling(timedelta(minutes=1))
        >>> windows = source(Collection(trades)).key_by(0).window(minutes, time=1, unit="s")
        >>> spans = windows.aggregate(span=Span())
        >>> for result in engine.testing.run(spans.sink(Collect()))["collect"]:
        ...     print(result)
        ('oka', {'span': 7}, 0, 60)
        ('oka', {'span': 0}, 60, 120)
    """

    @abstractmethod
    def create(self) -> A:
        """The value before any record."""

    @abstractmethod
    def add(self, accumulated: A, record: T, /) -> A:
        """The value with this record; it may be `accumulated`, changed."""

    @abstractmethod
    def merge(self, left: A, right: A, /) -> A:
        """The value of both together, for windows that overlap or merge.

        It may be `left`, changed. `right` must not change, and must not be the result if that may
        change later.
        """

    def finish(self, accumulated: A, /) -> R:
        """The result of a window, from `accumulated`, which it must not change.

        It must not change when more records are added, so copy values that `add` changes.
        """
        return accumulated  # type: ignore[return-value]  # where it differs, this is overridden


def in_rust_or_python(
    aggregations: Mapping[str, Aggregation | Accumulator[Any, Any, Any]], key: Key
) -> tuple[dict[str, Aggregation], dict[str, Accumulator[Any, Any, Any]]]:
    """The aggregations if they run in Rust, or else the accumulators.

    Raises `GraphError` for both kinds together, for none, and for what is neither.
    """
    native = {name: each for name, each in aggregations.items() if _is_native(each)}
    if native:
        check_aggregations(native, key)
    own = {name: _checked(name, each) for name, each in aggregations.items() if name not in native}
    if native and own:
        raise GraphError(
            f"aggregate() got {next(iter(native))}, which runs in Rust, and {next(iter(own))}, "
            "which is written in Python, expected one kind",
            hint="two calls of .aggregate() give two streams",
        )
    if not native and not own:
        raise GraphError(
            "aggregate() got nothing, expected aggregations or accumulators by name",
            hint='such as .aggregate(n=Count(), total=Sum("price"))',
        )
    return native, own


def _is_native(aggregation: object) -> TypeGuard[Aggregation]:
    kind = aggregation if isinstance(aggregation, type) else type(aggregation)
    return issubclass(kind, Aggregation)


def _checked(name: str, aggregation: object) -> Accumulator[Any, Any, Any]:
    if isinstance(aggregation, Accumulator):
        return aggregation
    is_class = isinstance(aggregation, type) and issubclass(aggregation, Accumulator)
    described = aggregation.__name__ if isinstance(aggregation, type) else f"{aggregation!r:.80}"
    raise GraphError(
        f"aggregate() got {name}={described}, expected an aggregation or an Accumulator",
        hint=f"{name}={described}() is one"
        if is_class
        else "such as Count(), or a class of your own with create, add, merge and finish",
    )
