"""Rolling streams: computations on the records of a key within spans that end at each record."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.errors import GraphError
from engine.graph.declaration import Input, shown
from engine.graph.operator import OnError
from operators.aggregates import (
    Aggregation,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantiles,
    Sum,
    Top,
    check_aggregations,
)
from operators.aggregates.accumulator import Accumulator
from operators.elementwise import check_function
from operators.keys import check_item
from operators.rolling.apply import ApplyRolling
from operators.rolling.operator import NativeRolling
from operators.rolling.spans import Rolling
from operators.stream import Stream, check_on_error, then

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class RollingStream(Generic[K, T]):
    """Records of type T, each seen with the records of its key of type K that lie within a span.

    Each method gives a stream of `(record, value)`, a result for each record. With several spans,
    or by `aggregate`, the value is a dict. Results come in the order of the records' times. For
    later operators, such as windows and joins, a result has the time of its record. With
    `on_error`, as in `map`, a record without a time or a usable value gives no result and counts
    for no other.

    On a stream of columns a result has the columns of the rows, and one for each span and
    aggregation, named as the span, the aggregation ("count", "sum") or both ("total_h24"), with
    "_right" behind it where there is a column of that name. Null values are left out.

        >>> import engine.testing
        >>> from datetime import timedelta
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> paid = source(Collection([("ann", 5, 1), ("bob", 2, 2), ("ann", 3, 8), ("ann", 4, 12)]))
        >>> paid = paid.with_event_time(2, unit="s").key_by(0)
        >>> of_ten = paid.over(last=timedelta(seconds=10)).sum(1)
        >>> for result in engine.testing.run(of_ten.sink(Collect()))["collect"]:
        ...     print(result)
        (('ann', 5, 1), 5)
        (('bob', 2, 2), 2)
        (('ann', 3, 8), 8)
        (('ann', 4, 12), 7)
    """

    def __init__(self, inputs: tuple[Input, ...], rolling: Rolling) -> None:
        self._inputs = inputs
        self._rolling = rolling

    def __repr__(self) -> str:
        return f"<RollingStream {shown(self._inputs)} -> {self._rolling.meaning['spans']}>"

    def count(self, *, on_error: OnError = "fail") -> Stream[tuple[T, Any]]:
        """The number of records within the span, each record itself among them."""
        return self._native("count", Count(), on_error)

    def sum(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """The sum of an item of the records, or of the records themselves: `KeyedStream.sum`.

        What has left a span leaves nothing behind: a sum of floats is as exact as one of these
        records alone, though they may be added up in another order.
        """
        return self._native("sum", Sum(item), on_error)

    def min(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """The least of an item of the records, or of the records themselves.

        A NaN counts only if it is the first within the span: then it is the result.
        """
        return self._native("min", Min(item), on_error)

    def max(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """The greatest of an item of the records, or of the records themselves; NaN as in `min`."""
        return self._native("max", Max(item), on_error)

    def mean(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """The mean of an item of the records, or of the records themselves: `KeyedStream.mean`."""
        return self._native("mean", Mean(item), on_error)

    def first(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """The value of an item of the earliest record within the span, or this record."""
        return self._native("first", First(item), on_error)

    def last(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """The value of an item of the latest record within the span, or this record.

        Of a duration, that is the last one to come of those with the record's own time.
        """
        return self._native("last", Last(item), on_error)

    def count_distinct(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """The exact number of different values of an item of the records, or of the records.

        Values are equal as keys are: 1 and 1.0 are one.
        """
        return self._native("count_distinct", CountDistinct(item), on_error)

    def quantiles(
        self, item: int | str | None, shares: Sequence[float], *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """Exact quantiles of an item of the records, a list of floats: `WindowedStream.quantiles`.

        >>> import engine.testing
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> took = source(Collection([("a", 7, 1), ("a", 1, 2), ("a", 4, 3), ("a", 2, 4)]))
        >>> took = took.with_event_time(2, unit="s").key_by(0)
        >>> medians = took.over(rows=3).quantiles(1, [0.5])
        >>> engine.testing.run(medians.map(lambda result: result[1]).sink(Collect()))["collect"]
        [[7.0], [4.0], [4.0], [2.0]]
        """
        return self._native("quantiles", Quantiles(item, shares), on_error)

    def top(
        self, item: int | str | None = None, most: int = 10, *, on_error: OnError = "fail"
    ) -> Stream[tuple[T, Any]]:
        """The most frequent values of an item of the records, with their counts.

        Of equally frequent values, the first ones within the span; it is exact.

        >>> import engine.testing
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> pages = source(Collection([("ann", page, at) for at, page in enumerate("abbcc")]))
        >>> pages = pages.with_event_time(2, unit="s").key_by(0)
        >>> top = pages.over(rows=4).top(1, 2)
        >>> engine.testing.run(top.map(lambda result: result[1]).sink(Collect()))["collect"][-1]
        [('b', 2), ('c', 2)]
        """
        return self._native("top", Top(item, most), on_error)

    def apply(
        self,
        function: Callable[[list[Any]], V],
        item: int | str | None = None,
        *,
        on_error: OnError = "fail",
    ) -> Stream[tuple[T, Any]]:
        """A function's result for each record: of the list of an item's values within the span.

        Without an item, it is a list of the records. They are in the order of time, and the list is
        the function's own. So a record costs as much time as its span has records: use `aggregate`
        where it can say what you need. Records only, not columns. With `on_error`, a record for
        which the function fails gives no result, but counts for others.

        >>> import engine.testing
        >>> from operators import source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> took = source(Collection([("a", 7, 1), ("a", 1, 2), ("a", 4, 3), ("a", 2, 4)]))
        >>> took = took.with_event_time(2, unit="s").key_by(0)
        >>> ranges = took.over(rows=3).apply(lambda values: max(values) - min(values), 1)
        >>> engine.testing.run(ranges.map(lambda result: result[1]).sink(Collect()))["collect"]
        [0, 6, 6, 3]
        """
        check_function("apply", function, 1)
        if item is not None:
            check_item("apply", item)
        check_on_error("apply", on_error)
        operator = ApplyRolling.by(function, item, self._rolling, on_error)
        return then(self._inputs, operator, "apply")

    def aggregate(
        self, *, on_error: OnError = "fail", **aggregations: Aggregation
    ) -> Stream[tuple[T, dict[str, Any]]]:
        """Several computations at once, by name: the value is a dict of them.

        They are those of `KeyedStream.aggregate`, each of some records alone with `where=`, as in
        SQL's FILTER: a span has the other records nevertheless. What is computed about elsewhere
        (`ApproxCountDistinct`, `ApproxQuantile`) is exact here, as spans keep all values. With
        several spans, a name is that of the computation and the span.

            >>> import engine.testing
            >>> from datetime import timedelta
            >>> from operators import Count, Max, source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> paid = source(Collection([("ann", 5, 1), ("ann", 3, 8), ("ann", 4, 12)]))
            >>> paid = paid.with_event_time(2, unit="s").key_by(0)
            >>> spans = paid.over(s5=timedelta(seconds=5), s10=timedelta(seconds=10))
            >>> features = spans.aggregate(n=Count(), most=Max(1))
            >>> for record, found in engine.testing.run(features.sink(Collect()))["collect"]:
            ...     print(record, found)
            ('ann', 5, 1) {'n_s5': 1, 'most_s5': 5, 'n_s10': 1, 'most_s10': 5}
            ('ann', 3, 8) {'n_s5': 1, 'most_s5': 3, 'n_s10': 2, 'most_s10': 5}
            ('ann', 4, 12) {'n_s5': 2, 'most_s5': 4, 'n_s10': 2, 'most_s10': 4}
        """
        for name, each in aggregations.items():
            if isinstance(each, Accumulator):
                raise GraphError(
                    f"aggregate() got {name}={each!r:.80} behind .over(), expected aggregations "
                    "that run in Rust, such as Count()",
                    hint="over(...).apply(function) computes in Python, of a list of values",
                )
        check_aggregations(aggregations, None)
        fields = self._rolling.fields(tuple(aggregations))
        if twice := {field for field in fields if fields.count(field) > 1}:
            raise GraphError(
                f"aggregate() gives {min(twice)!r} twice, expected other names of spans or values"
            )
        return self._native("aggregate", aggregations, on_error)

    def _native(
        self, name: str, aggregations: Aggregation | Mapping[str, Aggregation], on_error: OnError
    ) -> Stream[Any]:
        check_on_error(name, on_error)
        operator = NativeRolling.of(aggregations, self._rolling, on_error)
        return then(self._inputs, operator, name)

    if not TYPE_CHECKING:  # a type checker sees that these methods do not exist

        def __getattr__(self, name: str) -> Any:
            if name in vars(Stream) and not name.startswith("_"):
                raise GraphError(
                    f".{name}() follows .over(), expected what is computed within the span",
                    hint=f"such as .count() or .sum(...); then .{name}()",
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
