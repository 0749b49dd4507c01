"""`sort_by_time`, `deduplicate` and `top_n`: methods of keyed streams."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any, Generic, TypeVar

from engine.errors import GraphError
from engine.graph.checks import check_integer
from engine.graph.declaration import Input
from engine.graph.operator import OnError
from operators.aggregates import Emit, check_emit
from operators.durations import check_duration
from operators.event_time import Time, Unit, time_of
from operators.keys import Item, Key, check_item
from operators.order.deduplicate import Deduplicate, Keep, check_keep
from operators.order.sort import SortByTime
from operators.order.top import TopN
from operators.stream import Stream, check_on_error, then

T = TypeVar("T")


class KeyedOrder(Generic[T]):
    """The part of a `KeyedStream` that orders the records of a key, or chooses some of them."""

    _inputs: tuple[Input, ...]
    _key: Key
    _paired: bool

    def sort_by_time(
        self, *, time: Time = None, unit: Unit = "us", on_error: OnError = "fail"
    ) -> Stream[T]:
        """The same records, those of each key in the order of event time.

        A record waits until the watermark has come to its time; those of one time come in the order
        of arrival. So `out_of_orderness` of `with_event_time` says how long, and bounds what is
        kept. A record that comes when the watermark is at its time or behind it is late: it is left
        out, counted, and goes to `.side("late")`. Times are those of `with_event_time`, or what
        `time` says, as in `window`; they hold behind it, too. With `on_error`, as in `map`, a
        record may have no time.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> clicks = source(Collection([("ann", 3), ("bob", 1), ("ann", 2)]))
            >>> clicks = clicks.with_event_time(1, out_of_orderness=timedelta(microseconds=9))
            >>> engine.testing.run(clicks.key_by(0).sort_by_time().sink(Collect()))["collect"]
            [('bob', 1), ('ann', 2), ('ann', 3)]

        Over columns, rows come with the same columns. A following operator that needs this order
        by key follows another `.key_by(...)` with the same key, which keeps it.
        """
        check_on_error("sort_by_time", on_error)
        selector = time_of(self._inputs, "sort_by_time", time, unit)
        operator = SortByTime.by(self._key, self._paired, selector, on_error)
        return then(self._inputs, operator, "sort_by_time")

    def deduplicate(
        self,
        keep: Keep = "first",
        *,
        within: timedelta | None = None,
        time: Time = None,
        unit: Unit = "us",
    ) -> Stream[T]:
        """One record of each key, or one for each `within` of event time.

        The first record of a key opens a group; so does each that is not less than `within` away
        from one that opened a group. All others belong to such a group. With `keep="first"` the one
        that opened a group is given at once, and no other. With `"last"` that of the highest time
        is given (the last to come, where times are equal), when the watermark has passed the group,
        `within` behind its first; watermarks behind it are so much earlier. Without `within` all
        records of a key are one group: its first comes at once, the last to come at the end of the
        input.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> paid = source(Collection([("a", 1), ("b", 2), ("a", 5), ("a", 63), ("a", 70)]))
            >>> paid = paid.with_event_time(1, unit="s").key_by(0)
            >>> once_a_minute = paid.deduplicate(within=timedelta(minutes=1))
            >>> engine.testing.run(once_a_minute.sink(Collect()))["collect"]
            [('a', 1), ('b', 2), ('a', 63)]
            >>> engine.testing.run(paid.deduplicate("last").sink(Collect()))["collect"]
            [('a', 70), ('b', 2)]

        Records come as they arrive; behind `.sort_by_time().key_by(...)` it is their order in time.
        With `within`, times are those of `with_event_time`, or what `time` says, as in `window`; a
        record is late as there, and goes to `.side("late")`. A key is kept until the watermark has
        passed its groups; without `within`, all keys are kept while the job runs.
        """
        check_keep(keep)
        selector = None
        if within is not None:
            check_duration("deduplicate(): within", within)
            selector = time_of(self._inputs, "deduplicate", time, unit)
        elif time is not None:
            raise GraphError(
                f"deduplicate() got time={time!r:.80} without within, expected both or neither",
                hint="without within, records of a key are one group, whatever their times",
            )
        else:
            with suppress(GraphError):  # it is then only where later operators find the time
                selector = time_of(self._inputs, "deduplicate")
        operator = Deduplicate(self._key, self._paired, keep, within, selector)
        return then(self._inputs, operator, "deduplicate")

    def top_n(
        self,
        n: int,
        by: Item | tuple[Item, ...] | None = None,
        *,
        descending: bool | tuple[bool, ...] = True,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[Any]:
        """The first n records of each key by an item, the greatest first: `.top_n(3, "price")`.

        It gives `(key, records)`, the best record in front; over columns the rows themselves, with
        their rank from 1 on in a column "rank" ("rank_right" where there is one), those of a key
        behind each other. With `emit="updates"` a key comes once per batch if its first n have
        changed, with all of them; with `"final"` each key once at the end of the input.

        Several items decide in turn: `by=("price", "at")`; None is the record itself. With
        `descending=False` the least is first; `descending=(True, False)` says it of each of several
        items. Of equal ones, those that came first are in front; NaN is behind all numbers.

            >>> import engine.testing
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> sales = [("book", 1, 12), ("book", 2, 19), ("toy", 3, 7), ("book", 4, 15)]
            >>> best = source(Collection(sales)).key_by(0).top_n(2, by=2, emit="final")
            >>> for found in engine.testing.run(best.sink(Collect()))["collect"]:
            ...     print(found)
            ('book', [('book', 2, 19), ('book', 4, 15)])
            ('toy', [('toy', 3, 7)])

        With `on_error`, as in `map`, a record may have no such item, or None or what cannot be
        compared there; rows with null there are left out. The first n of each key are kept while
        the job runs. In a window: `.window(...).apply(f)` with a function that sorts.
        """
        check_integer("top_n(): n", n, 1)
        check_emit("top_n", emit)
        check_on_error("top_n", on_error)
        items = by if isinstance(by, tuple) else (by,)
        if not items:
            raise GraphError("top_n() got by=(), expected an item or several")
        for item in items if by is not None else ():
            check_item("top_n", item)
        each = descending if isinstance(descending, tuple) else (descending,) * len(items)
        if len(each) != len(items) or not all(isinstance(one, bool) for one in each):
            raise GraphError(
                f"top_n() got descending={descending!r:.80}, expected True or False, or one of "
                f"them for each of {len(items)} in by"
            )
        operator = TopN(self._key, self._paired, n, by, each, emit, on_error)
        return then(self._inputs, operator, "top_n")
