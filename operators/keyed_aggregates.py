"""Aggregations of the records of each key, in Rust: methods of keyed streams."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from engine.graph.declaration import Input
from engine.graph.operator import OnError
from operators.aggregates import (
    Aggregation,
    Count,
    CountDistinct,
    Emit,
    First,
    Last,
    Max,
    Mean,
    Min,
    NativeAggregate,
    Quantiles,
    Sum,
    Top,
    check_emit,
)
from operators.aggregates.accumulator import Accumulator, in_rust_or_python
from operators.aggregates.fold import accumulating
from operators.aggregates.folded import KeyedFold
from operators.keys import Key, check_item
from operators.stream import Stream, check_on_error, then

K = TypeVar("K")


class KeyedAggregates(Generic[K]):
    """The aggregations of a `KeyedStream`, which says when they emit, and what."""

    def __init__(self, inputs: tuple[Input, ...], key: Key, paired: bool) -> None:
        self._inputs = inputs
        self._key = key
        self._paired = paired

    def count(self, *, emit: Emit = "updates", on_error: OnError = "fail") -> Stream[tuple[K, int]]:
        """The number of each key's records."""
        return self._aggregate("count", Count(), emit, on_error)

    def sum(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, Any]]:
        """The sum of an item of the records, or of the records themselves; integers exactly.

        Decimals, Fractions, complex numbers and timedeltas add up as in Python. NumPy's numbers add
        up as Python's do.
        """
        return self._aggregate("sum", Sum(_checked("sum", item)), emit, on_error)

    def min(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, Any]]:
        """The least of an item of the records, or of the records themselves, by their order.

        NaN is neither less nor greater than a number. So the first of the two stays: a NaN that
        comes first remains, a later NaN is ignored.
        """
        return self._aggregate("min", Min(_checked("min", item)), emit, on_error)

    def max(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, Any]]:
        """The greatest of an item of the records, or of the records themselves; NaN as in `min`."""
        return self._aggregate("max", Max(_checked("max", item)), emit, on_error)

    def mean(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, Any]]:
        """The mean of an item of the records, or of the records themselves.

        It is the sum divided by the count: a float, or what Python gives of Decimals, Fractions,
        complex numbers and timedeltas.
        """
        return self._aggregate("mean", Mean(_checked("mean", item)), emit, on_error)

    def first(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, Any]]:
        """The first value of an item of each key's records, or the key's first record."""
        return self._aggregate("first", First(_checked("first", item)), emit, on_error)

    def last(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, Any]]:
        """The last value of an item of each key's records, or the key's last record.

        >>> import engine.testing
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> prices = source(Collection([("tea", 2), ("cup", 5), ("tea", 3)])).key_by(0)
        >>> engine.testing.run(prices.last(1, emit="final").sink(Collect()))["collect"]
        [('tea', 3), ('cup', 5)]
        """
        return self._aggregate("last", Last(_checked("last", item)), emit, on_error)

    def count_distinct(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, int]]:
        """The exact number of different values of each key; each value is kept while the job runs.

        >>> import engine.testing
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> pages = source(Collection([("ann", "/"), ("ann", "/a"), ("ann", "/")])).key_by(0)
        >>> engine.testing.run(pages.count_distinct(1, emit="final").sink(Collect()))["collect"]
        [('ann', 2)]
        """
        return self._aggregate(
            "count_distinct", CountDistinct(_checked("count_distinct", item)), emit, on_error
        )

    def quantiles(
        self,
        item: int | str | None,
        shares: Sequence[float],
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, list[float]]]:
        """Exact quantiles of an item of each key's records; each number is kept, in 8 bytes.

        An update sorts all numbers of a key again: with many of them, `ApproxQuantiles` in
        `aggregate` takes less time and memory.

        >>> import engine.testing
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> times = source(Collection([("ann", 7), ("ann", 1), ("ann", 2), ("ann", 4)])).key_by(0)
        >>> quantiles = times.quantiles(1, [0.5, 1], emit="final")
        >>> engine.testing.run(quantiles.sink(Collect()))["collect"]
        [('ann', [3.0, 7.0])]
        """
        return self._aggregate(
            "quantiles", Quantiles(_checked("quantiles", item), shares), emit, on_error
        )

    def top(
        self,
        item: int | str | None = None,
        most: int = 10,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, list[tuple[Any, int]]]]:
        """The most frequent values of each key, with their counts; see `WindowedStream.top`.

        Each value has a count as long as the job runs.

        >>> import engine.testing
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> pages = source(Collection([("ann", page) for page in "abcbab"])).key_by(0)
        >>> engine.testing.run(pages.top(1, 2, emit="final").sink(Collect()))["collect"]
        [('ann', [('b', 3), ('a', 2)])]
        """
        return self._aggregate("top", Top(_checked("top", item), most), emit, on_error)

    def aggregate(
        self,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
        **aggregations: Aggregation | Accumulator[Any, Any, Any],
    ) -> Stream[tuple[K, dict[str, Any]]]:
        """Several aggregations at once, by name: the value of a key is a dict of them.

        They are aggregations such as `Count()` and `Sum("price")`, which run in Rust, or each an
        `Accumulator`, written in Python. Over columns each is a column of that name.

            >>> import engine.testing
            >>> from operators import Count, Mean, source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> prices = source(Collection([("tea", 2), ("tea", 3), ("cup", 5)])).key_by(0)
            >>> totals = prices.aggregate(n=Count(), price=Mean(1), emit="final")
            >>> engine.testing.run(totals.sink(Collect()))["collect"]
            [('tea', {'n': 2, 'price': 2.5}), ('cup', {'n': 1, 'price': 5.0})]
        """
        native, own = in_rust_or_python(aggregations, None if self._paired else self._key)
        check_emit("aggregate", emit)
        check_on_error("aggregate", on_error)
        if own:
            fold = KeyedFold(accumulating(own), self._key, self._paired, emit, on_error)
            return then(self._inputs, fold, "aggregate")
        operator = NativeAggregate.of(native, self._key, emit, on_error, paired=self._paired)
        return then(self._inputs, operator, "aggregate")

    def _aggregate(
        self, name: str, aggregation: Aggregation, emit: Emit, on_error: OnError
    ) -> Stream[Any]:
        check_emit(name, emit)
        check_on_error(name, on_error)
        operator = NativeAggregate.of(aggregation, self._key, emit, on_error, paired=self._paired)
        return then(self._inputs, operator, name)


def _checked(method: str, item: int | str | None) -> int | str | None:
    if item is not None:
        check_item(method, item)
    return item
