"""Windowed streams: computations on the records of each key and window."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from engine.errors import GraphError
from engine.graph.batch_operator import BatchOperator
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
    NativeAggregate,
    Quantiles,
    Sum,
    Top,
)
from operators.aggregates.accumulator import Accumulator, in_rust_or_python
from operators.aggregates.fold import Fold, accumulating, applying, collecting, reducing
from operators.elementwise import check_function
from operators.stream import Stream, check_on_error, then
from operators.windows.native import NativeWindows
from operators.windows.operator import Windows
from operators.windows.trigger import Trigger
from operators.windows.triggered import TriggeredWindows
from operators.windows.whole import WholeWindows, WindowParts
from operators.windows.windowing import Windowing, check_length

if sys.version_info >= (3, 11):
    from typing import TypeVarTuple, Unpack
else:
    from typing_extensions import TypeVarTuple, Unpack

T = TypeVar("T")
K = TypeVar("K")
Ks = TypeVarTuple("Ks")
V = TypeVar("V")
R = TypeVar("R")


class WindowedStream(Generic[Unpack[Ks], T]):
    """Records of type T, divided by keys of type K and by windows: a `WindowedStream[K, T]`.

    Each method gives a stream of `(key, value, start, end)`: a window has all records from its
    start on, and none from its end on. Without a key, a `WindowedStream[T]` gives `(value, start,
    end)`. Starts and ends are in the form of the records' times: numbers in their unit, or
    datetimes. For later operators, such as windows of windows and joins, a result has the time of
    its window's last instant, a microsecond before the end. Results that are complete at once come
    in the order of the windows' ends, then of the keys' first records. In sliding windows, keys
    come in any order. With `on_error`, as in `map`, a record without a time or a usable value
    changes nothing.

        >>> import engine.testing
        >>> from datetime import timedelta
        >>> from operators import Tumbling, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> clicks = source(Collection([("ann", 1), ("bob", 2), ("ann", 3), ("ann", 11)]))
        >>> tens = clicks.key_by(0).window(Tumbling(timedelta(seconds=10)), time=1, unit="s")
        >>> for result in engine.testing.run(tens.collect().sink(Collect()))["collect"]:
        ...     print(result)
        ('ann', [('ann', 1), ('ann', 3)], 0, 10)
        ('bob', [('bob', 2)], 0, 10)
        ('ann', [('ann', 11)], 10, 20)
    """

    def __init__(self, inputs: tuple[Input, ...], windowing: Windowing) -> None:
        self._inputs = inputs
        self._windowing = windowing

    def __repr__(self) -> str:
        return f"<WindowedStream {shown(self._inputs)} -> {self._windowing.assigner!r}>"

    def reduce(
        self, function: Callable[[T, T], R], *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], T | R, Any, Any]]:
        """Combine the records of each window: `.reduce(lambda a, b: (a[0], a[1] + b[1]))`.

        The value is the first record, then `function(so far, record)`. The function also combines
        parts of sliding windows, and sessions that merge. So it must be associative, and must not
        change its arguments.
        """
        check_function("reduce", function, 2)
        return self._folded("reduce", reducing(function), on_error)

    def collect(
        self, *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], list[T], Any, Any]]:
        """The records of each window, in a list.

        They are in order of arrival, with two exceptions. In sliding windows, records before the
        start or end of another window come before those after it. If a record merges two sessions,
        the records of the first one come first.
        """
        return self._folded("collected", collecting(), on_error)  # as a sink is Collect

    @overload
    def apply(
        self: "WindowedStream[K, T]",
        function: Callable[[K, list[T], Any, Any], V],
        *,
        on_error: OnError = "fail",
    ) -> Stream[tuple[K, V, Any, Any]]: ...
    @overload
    def apply(
        self: "WindowedStream[T]",
        function: Callable[[tuple[()], list[T], Any, Any], V],
        *,
        on_error: OnError = "fail",
    ) -> Stream[tuple[V, Any, Any]]: ...
    def apply(
        self, function: Callable[[Any, list[T], Any, Any], Any], *, on_error: OnError = "fail"
    ) -> Stream[Any]:
        """A function's result for each window: `function(key, records, start, end)`.

        It is called when the result is due, with a list of its own, as `collect` gives it. If you
        need no list, `reduce` and `aggregate` take less time and memory. `on_error` is for records
        without a time; if the function fails, the job fails.
        """
        check_function("apply", function, 4)
        return self._folded("apply", applying(function), on_error)

    def count(self, *, on_error: OnError = "fail") -> Stream[tuple[Unpack[Ks], int, Any, Any]]:
        """The number of records in each window.

        >>> import engine.testing
        >>> from datetime import timedelta
        >>> from operators import Sliding, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> clicks = source(Collection([("ann", 1), ("bob", 2), ("ann", 7)])).key_by(0)
        >>> size, slide = timedelta(seconds=10), timedelta(seconds=5)
        >>> windows = clicks.window(Sliding(size, slide), time=1, unit="s")
        >>> for result in engine.testing.run(windows.count().sink(Collect()))["collect"]:
        ...     print(result)
        ('ann', 1, -5, 5)
        ('bob', 1, -5, 5)
        ('ann', 2, 0, 10)
        ('bob', 1, 0, 10)
        ('ann', 1, 5, 15)
        """
        return self._native("count", Count(), on_error)

    def sum(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], Any, Any, Any]]:
        """The sum of an item of the records, or of the records themselves: `KeyedStream.sum`."""
        return self._native("sum", Sum(item), on_error)

    def min(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], Any, Any, Any]]:
        """The least of an item of the records, or of the records themselves.

        NaN is neither less nor greater than a number. So the first of the two stays: a NaN that
        comes first remains, a later NaN is ignored.
        """
        return self._native("min", Min(item), on_error)

    def max(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], Any, Any, Any]]:
        """The greatest of an item of the records, or of the records themselves; NaN as in `min`."""
        return self._native("max", Max(item), on_error)

    def mean(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], Any, Any, Any]]:
        """The mean of an item of the records, or of the records themselves: `KeyedStream.mean`."""
        return self._native("mean", Mean(item), on_error)

    def first(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], Any, Any, Any]]:
        """The first value of an item of the records, or the first record.

        In sliding windows, records before the start or end of another window come before those
        after it.
        """
        return self._native("first", First(item), on_error)

    def last(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], Any, Any, Any]]:
        """The last value of an item of the records, or the last record.

        The order in windows that overlap, and in sessions that merge, is as for `first`.

        >>> import engine.testing
        >>> from operators import CountWindow, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> clicks = source(Collection([("ann", "in"), ("bob", "in"), ("ann", "out")])).key_by(0)
        >>> pairs = clicks.window(CountWindow(2)).last(1)
        >>> engine.testing.run(pairs.sink(Collect()))["collect"]
        [('ann', 'out', 0, 2), ('bob', 'in', 0, 1)]
        """
        return self._native("last", Last(item), on_error)

    def count_distinct(
        self, item: int | str | None = None, *, on_error: OnError = "fail"
    ) -> Stream[tuple[Unpack[Ks], int, Any, Any]]:
        """The exact number of different values of an item of the records, each of which is kept.

        Values are equal as keys are: 1 and 1.0 are one.

        >>> import engine.testing
        >>> from datetime import timedelta
        >>> from operators import Session, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> seen = source(Collection([("ann", "/", 1), ("ann", "/a", 2), ("ann", "/", 9)]))
        >>> visits = seen.key_by(0).window(Session(timedelta(seconds=5)), time=2, unit="s")
        >>> engine.testing.run(visits.count_distinct(1).sink(Collect()))["collect"]
        [('ann', 2, 1, 7), ('ann', 1, 9, 14)]
        """
        return self._native("count_distinct", CountDistinct(item), on_error)

    def quantiles(
        self,
        item: int | str | None,
        shares: Sequence[float],
        *,
        on_error: OnError = "fail",
    ) -> Stream[tuple[Unpack[Ks], list[float], Any, Any]]:
        """Exact quantiles of an item of the records: a window keeps each number, in 8 bytes.

        A quantile is a float, interpolated between two numbers.

        >>> import engine.testing
        >>> from operators import CountWindow, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> times = source(Collection([("ann", 7), ("ann", 1), ("ann", 2), ("ann", 4)])).key_by(0)
        >>> quantiles = times.window(CountWindow(4)).quantiles(1, [0.5, 1])
        >>> engine.testing.run(quantiles.sink(Collect()))["collect"]
        [('ann', [3.0, 7.0], 0, 4)]
        """
        return self._native("quantiles", Quantiles(item, shares), on_error)

    def top(
        self,
        item: int | str | None = None,
        most: int = 10,
        *,
        on_error: OnError = "fail",
    ) -> Stream[tuple[Unpack[Ks], list[tuple[Any, int]], Any, Any]]:
        """The most frequent values of an item of the records, with their counts.

        Of equally frequent values, the first ones. It is exact: a window counts each value.

        >>> import engine.testing
        >>> from operators import CountWindow, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> pages = source(Collection([("ann", page) for page in "abcbab"])).key_by(0)
        >>> engine.testing.run(pages.window(CountWindow(6)).top(1, 2).sink(Collect()))["collect"]
        [('ann', [('b', 3), ('a', 2)], 0, 6)]
        """
        return self._native("top", Top(item, most), on_error)

    def aggregate(
        self,
        *,
        on_error: OnError = "fail",
        **aggregations: Aggregation | Accumulator[T, Any, Any],
    ) -> Stream[tuple[Unpack[Ks], dict[str, Any], Any, Any]]:
        """Several computations at once, by name: the value of a window is a dict of them.

        They are aggregations such as `Count()` and `Sum("price")`, which run in Rust, or each an
        `Accumulator`, written in Python.
        """
        key = None if self._windowing.paired else self._windowing.key
        native, own = in_rust_or_python(aggregations, key)
        if native:
            return self._native("aggregate", native, on_error)
        return self._folded("aggregate", accumulating(own), on_error)

    @property
    def late(self) -> NoReturn:
        """Refused: only the operator that computes the windows knows which records are late."""
        raise GraphError(
            ".late follows .window(...), expected what is computed of the windows before it",
            hint="totals = windows.reduce(f); totals.side('late') are the records that came late",
        )

    def _folded(self, name: str, fold: Fold, on_error: OnError) -> Stream[Any]:
        check_on_error(name, on_error)
        check_length(name, self._windowing.assigner)
        return then(self._inputs, self._operator(fold, on_error), name)

    def _native(
        self, name: str, aggregations: Aggregation | Mapping[str, Aggregation], on_error: OnError
    ) -> Stream[Any]:
        check_on_error(name, on_error)
        if isinstance(self._windowing.emit, Trigger):
            check_length(name, self._windowing.assigner)
            native = NativeAggregate.of(aggregations, (), "final", on_error, paired=False)
            return then(self._inputs, self._operator(native, on_error), name)
        operator = NativeWindows.of(name, aggregations, self._windowing, on_error)
        if operator.has_parts:
            given: Stream[Any] = Stream(self._inputs)
            return given._in_two_stages(WindowParts(operator), WholeWindows(operator), name)
        return then(self._inputs, operator, name)

    def _operator(self, computed: Any, on_error: OnError) -> BatchOperator:
        """What computes values record by record, in Python."""
        if isinstance(self._windowing.emit, Trigger):
            return TriggeredWindows.of(self._windowing, computed, on_error)
        return Windows(self._windowing, computed, on_error)

    if not TYPE_CHECKING:  # a type checker sees that these methods do not exist

        def __getattr__(self, name: str) -> Any:
            if name in vars(Stream) and not name.startswith("_"):
                raise GraphError(
                    f".{name}() follows .window(), expected what is computed of the windows",
                    hint=f"such as .reduce(...) or .collect(); then .{name}()",
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
