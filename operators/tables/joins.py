"""Joins without a bound in time, of keyed streams and of tables."""

from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from engine.errors import GraphError
from engine.graph.declaration import Input
from operators.changes import Change
from operators.durations import check_duration, microseconds
from operators.event_time import Time, Unit
from operators.joins import (
    AntiJoin,
    How,
    Joining,
    JoinInput,
    SemiJoin,
    UnboundedJoin,
    check_joining,
)
from operators.keys import check_keys_alike
from operators.stream import Stream, second, then

K = TypeVar("K")


class Joins(Generic[K]):
    """What a `KeyedStream` and a `Table` have in common: joins without a bound in time."""

    _inputs: tuple[Input, ...]

    def join(
        self,
        right: "Joins[K]",
        function: Callable[[Any, Any], Any] | None = None,
        *,
        how: How = "inner",
        expire_after: timedelta | None = None,
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Any]:
        """Join records with all of another stream or table that have the same key, whenever.

        Each record of a key and each of the right make a pair, or what a function makes of the two,
        as soon as both have come. With `how="left"`, `"right"` or `"full"`, a record of that side,
        or of both, is in a pair with None as long as it has no partner.

        A result may then be taken back: when the first partner comes, or when a row of a table goes
        (`KeyedStream.latest`, `as_table`). So the results of an outer join, and of a table, are
        changes, `Change("+I", (left, right))`. Those of two streams with `how="inner"` are the
        pairs themselves.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> people = source(Collection([("ann", "Oslo"), ("bob", "Rome")])).key_by(0)
            >>> orders = source(Collection([("hat", "ann"), ("cup", "ann")])).key_by(1)
            >>> pairs = people.join(orders, lambda person, order: (person[1], order[0]))
            >>> sorted(engine.testing.run(pairs.sink(Collect()))["collect"])
            [('Oslo', 'cup'), ('Oslo', 'hat')]

        All records of both sides are kept for as long as the job runs, or until they expire:
        `expire_after` their event time, when the watermark of both has come so far. What a record
        gave until then stays. One that comes when it would have expired is late: it is left out,
        counted, and goes to `.side("late")`; so does a change that takes away a row that has
        expired. `.side("left")` and `.side("right")` have the records that have no partner when
        they expire, or at the end.

        Times are as in `interval_join`; of a table `time` says where a row has its own. Without
        `expire_after` there are none. Results have records of any time, so event time behind the
        join is `expire_after` earlier, or stands still.

        Of columns, results have those of both, as in `interval_join`, and one more, "kind", if they
        are changes.
        """
        times = time, right_time
        return self._unbounded(UnboundedJoin, right, function, how, expire_after, times, unit)

    def semi_join(
        self,
        right: "Joins[K]",
        *,
        expire_after: timedelta | None = None,
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Any]:
        """The records whose key another stream or table has, too: SQL's `EXISTS`.

        A record comes once, as soon as there is a partner, however many follow. Of a table, results
        are changes: a record goes with its last partner. Expiry is as in `join`; of a stream on the
        right, one record of each key is kept.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> people = source(Collection([("ann", "Oslo"), ("bob", "Rome")])).key_by(0)
            >>> orders = source(Collection([("hat", "ann"), ("cup", "ann")])).key_by(1)
            >>> engine.testing.run(people.semi_join(orders).sink(Collect()))["collect"]
            [('ann', 'Oslo')]
        """
        times = time, right_time
        return self._unbounded(SemiJoin, right, None, "inner", expire_after, times, unit)

    def anti_join(
        self,
        right: "Joins[K]",
        *,
        expire_after: timedelta | None = None,
        time: Time = None,
        right_time: Time = None,
        unit: Unit = "us",
    ) -> Stream[Change]:
        """The records whose key another stream or table does not have: SQL's `NOT EXISTS`.

        Results are changes: a record comes at once, and goes when a partner comes. Those that never
        had one, and no others, are `.side("left")` of `semi_join`, when they expire or at the end.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> people = source(Collection([("ann", "Oslo"), ("bob", "Rome")])).key_by(0)
            >>> orders = source(Collection([("hat", "ann"), ("cup", "ann")])).key_by(1)
            >>> lone = people.semi_join(orders).side("left")
            >>> engine.testing.run(lone.sink(Collect()))["collect"]
            [('bob', 'Rome')]
        """
        times = time, right_time
        return self._unbounded(AntiJoin, right, None, "inner", expire_after, times, unit)

    @abstractmethod
    def _side(self, method: str, time: Time, unit: Unit, *, timed: bool) -> JoinInput:
        """One input of a join of this name, with times or without."""

    def _unbounded(
        self,
        kind: type[UnboundedJoin],
        right: Any,
        function: Callable[[Any, Any], Any] | None,
        how: How,
        expire_after: timedelta | None,
        times: tuple[Time, Time],
        unit: Unit,
    ) -> Stream[Any]:
        method, keep_us = kind.name, None
        if not isinstance(right, Joins):
            raise GraphError(
                f"{method}() got {type(right).__name__} {right!r:.80}, expected a keyed stream or "
                "a table",
                hint=f"call .key_by(...) on both: left.key_by('id').{method}(right.key_by('of'))",
            )
        check_joining(method, how, function)
        if expire_after is not None:
            check_duration(f"{method}(): expire_after", expire_after)
            keep_us = microseconds(expire_after)
        elif times != (None, None):
            raise GraphError(
                f"{method}() got a time and no expire_after, expected both or neither",
                hint="records are kept for ever without expire_after=timedelta(...)",
            )
        left, other = (
            each._side(method, time, unit, timed=keep_us is not None)
            for each, time in zip((self, right), times, strict=True)
        )
        if not (left.paired or other.paired):
            keys = (each.columns if each.changes else each.key for each in (left, other))
            check_keys_alike(method, *keys)
        operator = kind(Joining((left, other), how, function), keep_us)
        return then((*self._inputs, *second(right._inputs)), operator, operator.name)
