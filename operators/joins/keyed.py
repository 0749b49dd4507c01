"""Joins in event time: the methods of keyed streams for them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar, get_args, overload

from engine.errors import GraphError
from engine.graph.declaration import Input
from operators.columns.declared import declared_schema
from operators.durations import ZERO
from operators.event_time import Time, TimeSelector, Unit, time_of
from operators.joins import (
    How,
    IntervalJoin,
    Joining,
    JoinInput,
    TemporalJoin,
    WindowJoin,
    Windows,
    check_between,
    check_joining,
)
from operators.keys import Key, check_keys_alike
from operators.stream import Stream, second, then
from operators.windows.assigners import Assigner
from operators.windows.cogroup import cogroup
from operators.windows.windowing import Emit as WindowEmit
from operators.windows.windowing import check_assigner, check_length

K = TypeVar("K")
T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")


class _Columns:
    """Stands for columns, whose joins give columns; records of any type may be columns."""


class KeyedJoins(Generic[K, T]):
    """The part of a `KeyedStream` whose methods join it with another in event time."""

    _inputs: tuple[Input, ...]
    _key: Key
    _paired: bool

    @overload
    def interval_join(
        self: KeyedJoins[K, _Columns],
        right: KeyedJoins[K, Any],
        function: None = None,
        *,
        between: tuple[timedelta, timedelta],
        how: How = "inner",
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Any]: ...
    @overload
    def interval_join(
        self,
        right: KeyedJoins[K, U],
        function: None = None,
        *,
        between: tuple[timedelta, timedelta],
        how: Literal["inner"] = "inner",
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[tuple[T, U]]: ...
    @overload
    def interval_join(
        self,
        right: KeyedJoins[K, U],
        function: None = None,
        *,
        between: tuple[timedelta, timedelta],
        how: Literal["left"],
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[tuple[T, U | None]]: ...
    @overload
    def interval_join(
        self,
        right: KeyedJoins[K, U],
        function: None = None,
        *,
        between: tuple[timedelta, timedelta],
        how: Literal["right", "full"],
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[tuple[T | None, U | None]]: ...
    @overload
    def interval_join(
        self,
        right: KeyedJoins[K, Any],
        function: Callable[[Any, Any], R],
        *,
        between: tuple[timedelta, timedelta],
        how: How = "inner",
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[R]: ...
    def interval_join(
        self,
        right: KeyedJoins[K, Any],
        function: Callable[[Any, Any], Any] | None = None,
        *,
        between: tuple[timedelta, timedelta],
        how: How = "inner",
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Any]:
        """Join records with those of another stream that are near them: `between=(low, high)`.

        A record with time t, and each of the right with the same key and a time from t + low to
        t + high, both included, make a pair, or what a function makes of the two. It comes when the
        second of them has come. With `how="left"`, `"right"` or `"full"`, a record of that side, or
        of both, that has no partner is in a pair with None, when the watermark says that none can
        follow.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> orders = source(Collection([{"id": 1, "at": 10}, {"id": 2, "at": 20}]))
            >>> paid = source(Collection([{"order": 1, "at": 15}, {"order": 2, "at": 99}]))
            >>> orders, paid = (each.with_event_time("at", unit="s") for each in (orders, paid))
            >>> soon = (timedelta(0), timedelta(seconds=30))
            >>> joined = orders.key_by("id").interval_join(
            ...     paid.key_by("order"), lambda order, paid: (order["id"], paid), between=soon,
            ...     how="left")
            >>> sorted(engine.testing.run(joined.sink(Collect()))["collect"])
            [(1, {'order': 1, 'at': 15}), (2, None)]

        Times are what `with_event_time` said of each stream, or what `time` and `right_time` say,
        as in `window`. A record is kept until the watermark, which is that of both streams, has
        come to the last time that a partner can have. One that is at the watermark or behind it is
        late: it is left out, counted, and goes to `.side("late")` as it came.

        Watermarks behind the join are so much earlier that no time in a pair is behind them.

        Of two streams of columns, results are columns: those of the left, and those of the right,
        with "_right" behind names that the left has too. A row without a partner has null in those
        of the other stream. The columns of a stream are known from `.to_columns(schema)` in front
        of `key_by`, or else from the first batch of any task, even an empty one. Until then a row
        without a partner waits, and so does the watermark. If neither comes in the whole run, rows
        of the right without a partner fail the job, since their names depend on the left's; rows of
        the left come alone.
        """
        low, high = check_between(between)
        joining = self._joining("interval_join", right, function, how, (time, right_time), unit)
        operator = IntervalJoin(joining, low, high)
        return then((*self._inputs, *second(right._inputs)), operator, "interval_join")

    @overload
    def window_join(
        self: KeyedJoins[K, _Columns],
        right: KeyedJoins[K, Any],
        assigner: Windows,
        function: None = None,
        *,
        how: How = "inner",
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Any]: ...
    @overload
    def window_join(
        self,
        right: KeyedJoins[K, U],
        assigner: Windows,
        function: None = None,
        *,
        how: Literal["inner"] = "inner",
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[tuple[T, U]]: ...
    @overload
    def window_join(
        self,
        right: KeyedJoins[K, U],
        assigner: Windows,
        function: None = None,
        *,
        how: Literal["left"],
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[tuple[T, U | None]]: ...
    @overload
    def window_join(
        self,
        right: KeyedJoins[K, U],
        assigner: Windows,
        function: None = None,
        *,
        how: Literal["right", "full"],
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[tuple[T | None, U | None]]: ...
    @overload
    def window_join(
        self,
        right: KeyedJoins[K, Any],
        assigner: Windows,
        function: Callable[[Any, Any], R],
        *,
        how: How = "inner",
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[R]: ...
    def window_join(
        self,
        right: KeyedJoins[K, Any],
        assigner: Windows,
        function: Callable[[Any, Any], Any] | None = None,
        *,
        how: How = "inner",
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Any]:
        """Join records with those of another stream in the same window: `Tumbling`, `Sliding`, ...

        When a window is complete, each record of a key makes a pair with each of the right of that
        key and window, or what a function makes of the two: in sliding windows once for each that
        they are in together. With `how="left"`, `"right"` or `"full"`, records of that side, or of
        both, that have no partner in a window are in pairs with None. Session windows are separated
        by pauses of both streams together.

            >>> import engine.testing
            >>> from operators import Tumbling, source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> people = source(Collection([("ann", 1), ("bob", 2)])).with_event_time(1, unit="s")
            >>> things = source(Collection([("hat", "ann", 5), ("cup", "bob", 12)]))
            >>> things = things.with_event_time(2, unit="s")
            >>> joined = people.key_by(0).window_join(
            ...     things.key_by(1), Tumbling(timedelta(seconds=10)))
            >>> engine.testing.run(joined.sink(Collect()))["collect"]
            [(('ann', 1), ('hat', 'ann', 5))]

        Times, late records and columns are as in `interval_join`. A record is late when its last
        window is complete. The times of results of session windows are behind the watermark that
        completed them.
        """
        check_assigner("window_join", assigner, get_args(Windows))
        check_length("window_join", assigner)
        joining = self._joining("window_join", right, function, how, (time, right_time), unit)
        operator = WindowJoin(joining, assigner)
        return then((*self._inputs, *second(right._inputs)), operator, "window_join")

    def cogroup(
        self,
        right: KeyedJoins[K, U],
        assigner: Assigner,
        function: Callable[[K, list[T], list[U], Any, Any], R],
        *,
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
        allowed_lateness: timedelta = ZERO,
        emit: WindowEmit = "final",
    ) -> Stream[tuple[K, R, Any, Any]]:
        """A function of the records of both streams, of each key and window.

        It is called as `function(key, lefts, rights, start, end)`, also where one side has no
        record; results are `(key, result, start, end)`.

            >>> import engine.testing
            >>> from operators import Tumbling, source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> clicks = source(Collection([("ann", 1), ("ann", 2), ("bob", 3)]))
            >>> rates = clicks.key_by(0).cogroup(
            ...     source(Collection([("ann", 4)])).key_by(0), Tumbling(timedelta(seconds=10)),
            ...     lambda key, clicks, buys, start, end: (len(clicks), len(buys)),
            ...     time=1, right_time=1, unit="s")
            >>> sorted(engine.testing.run(rates.sink(Collect()))["collect"])
            [('ann', (2, 1), 0, 10), ('bob', (1, 0), 0, 10)]

        Late records go to `.side("late")` as `("left" | "right", key, record)`; all else is as in
        `window`. Of columns, records are their rows.
        """
        sides = self._timed("cogroup", right, (time, right_time), unit)
        return cogroup(sides, assigner, function, allowed_lateness, emit)

    @overload
    def temporal_join(
        self: KeyedJoins[K, _Columns],
        table: KeyedJoins[K, Any],
        function: None = None,
        *,
        how: Literal["inner", "left"] = "inner",
        time: Time = None,
        table_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Any]: ...
    @overload
    def temporal_join(
        self,
        table: KeyedJoins[K, U],
        function: None = None,
        *,
        how: Literal["inner"] = "inner",
        time: Time = None,
        table_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[tuple[T, U]]: ...
    @overload
    def temporal_join(
        self,
        table: KeyedJoins[K, U],
        function: None = None,
        *,
        how: Literal["left"],
        time: Time = None,
        table_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[tuple[T, U | None]]: ...
    @overload
    def temporal_join(
        self,
        table: KeyedJoins[K, Any],
        function: Callable[[Any, Any], R],
        *,
        how: Literal["inner", "left"] = "inner",
        time: Time = None,
        table_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[R]: ...
    def temporal_join(
        self,
        table: KeyedJoins[K, Any],
        function: Callable[[Any, Any], Any] | None = None,
        *,
        how: Literal["inner", "left"] = "inner",
        time: Time = None,
        table_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Any]:
        """Join records with the version of a table that was there at their time.

        Each record of `table` is a version: it holds from its time on, until the next of its key. A
        record makes a pair with the version that holds at its time, or what a function makes of the
        two. With `how="left"`, a record without a version comes with None.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> orders = source(Collection([("eur", 10, 5), ("eur", 30, 5), ("usd", 12, 5)]))
            >>> rates = source(Collection([("eur", 0, 110), ("eur", 20, 120)]))
            >>> orders, rates = (each.with_event_time(1, unit="s") for each in (orders, rates))
            >>> joined = orders.key_by(0).temporal_join(
            ...     rates.key_by(0), lambda order, rate: (order[1], rate and order[2] * rate[2]),
            ...     how="left")
            >>> sorted(engine.testing.run(joined.sink(Collect()))["collect"])
            [(10, 550), (12, None), (30, 600)]

        A record waits until the watermark, which is that of both streams, has come to its time. One
        that is at the watermark or behind it is late, as in `interval_join`. Versions are never
        late: a version behind the watermark holds for records that come from then on, if none is
        newer. Of each key, the newest version is kept for as long as the job runs.
        """
        name, times, ways = "temporal_join", (time, table_time), ("inner", "left")
        joining = self._joining(name, table, function, how, times, unit, ways)
        return then((*self._inputs, *second(table._inputs)), TemporalJoin(joining), name)

    def _joining(
        self,
        method: str,
        right: Any,
        function: Callable[[Any, Any], Any] | None,
        how: How,
        times: tuple[Time, Time],
        unit: Unit,
        ways: tuple[str, ...] = get_args(How),
    ) -> Joining:
        """Two streams, and how they are joined."""
        check_joining(method, how, function, ways)
        left, other = (
            JoinInput(each._key, each._paired, selector, declared_schema(each._inputs))
            for each, selector in self._timed(method, right, times, unit)
        )
        return Joining((left, other), how, function)

    def _timed(
        self, method: str, right: Any, times: tuple[Time, Time], unit: Unit
    ) -> list[tuple[KeyedJoins[K, Any], TimeSelector]]:
        """Two streams of like keys, each with the place of its times."""
        if not isinstance(right, KeyedJoins):
            raise GraphError(
                f"{method}() got {type(right).__name__} {right!r:.80}, expected a keyed stream",
                hint=f"call .key_by(...) on both: left.key_by('id').{method}(right.key_by('of'))",
            )
        if not (self._paired or right._paired):
            check_keys_alike(method, self._key, right._key)
        return [
            (each, time_of(each._inputs, method, time, unit))
            for each, time in zip((self, right), times, strict=True)
        ]
