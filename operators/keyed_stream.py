"""Keyed streams: operations that need all records of one key in one task."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from engine.errors import GraphError
from engine.graph.batch_operator import BatchOperator
from engine.graph.declaration import Input, shown
from engine.graph.operator import OnError
from engine.partitioner import Forward
from operators.aggregates import Emit, check_emit
from operators.durations import ZERO
from operators.elementwise import MapBatches
from operators.event_time import Time, Unit, time_of
from operators.in_cells import stream_html
from operators.joins.keyed import KeyedJoins
from operators.keyed_aggregates import KeyedAggregates
from operators.order import KeyedOrder
from operators.patterns.keyed_patterns import KeyedPatterns
from operators.process import KeyedProcess
from operators.reduce import Reduce
from operators.reduce_batches import ReduceBatches
from operators.rolling import Emit as RollingEmit
from operators.rolling import Rolling, RollingStream, spans_of
from operators.rolling import check_emit as check_rolling_emit
from operators.stream import Stream, check_on_error, own, side, then
from operators.tables import KeyedTables
from operators.windows.assigners import Assigner
from operators.windows.windowed_stream import WindowedStream
from operators.windows.windowing import Emit as WindowEmit
from operators.windows.windowing import windowing_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Assigner", "KeyedStream", "WindowEmit", "WindowedStream", "windowing_of"]

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")


class KeyedStream(
    KeyedAggregates[K],
    KeyedJoins[K, T],
    KeyedPatterns,
    KeyedProcess,
    KeyedOrder[T],
    KeyedTables[K, T],
    Generic[K, T],
):
    """Records of type T, all those of one key of type K in one task, in order of arrival.

    `reduce` is Python per record; `count`, `sum`, `min`, `max`, `mean`, `first`, `last`,
    `count_distinct`, `top` and `aggregate` run in Rust on the encoded records and give pairs (key,
    value). With `emit="updates"` they emit, once per batch of input, every key that the batch had,
    with its latest value; with `emit="final"` each key once, with its value when the input has
    ended: by itself, or by `JobHandle.stop`. With `on_error`, as in `map`, a record without such an
    item, or with an unusable value, such as None in a sum, changes nothing. For columns `on_error`
    has no effect, since nulls are left out there.

    On a stream of columns a result is a `pyarrow.RecordBatch`: the columns of the key, which keep
    their names and have a dictionary if they are strings or binary (batches share it), and one of
    the values, named "count", "sum" and so on, with "_right" behind it where the key has a column
    of that name. Null values are left out there, and a sum must fit into 64 bits. Dictionary- or
    run-encoded values count as the values that they encode. Functions of a record get a dict of
    each row, also those that give its time or say which records count; results are then as those of
    records.
    """

    def __repr__(self) -> str:
        return f"<KeyedStream {shown(self._inputs)}>"

    def _repr_html_(self) -> str | None:
        return stream_html(self._inputs)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The edges that the next operator will have."""
        return self._inputs

    def reduce(
        self,
        function: Callable[[T, T], R],
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> Stream[T | R]:
        """Combine the records of each key: `.reduce(lambda a, b: (a[0], a[1] + b[1]))`.

        The value of a key is its first record, then `function(so far, record)`, which returns a new
        record and changes neither: `so far` was emitted, and is kept. It emits that for every
        record, or with `emit="final"` once for every key at the end. A record that the function
        fails on leaves its key as it was, where `on_error` is not `"fail"`.
        """
        check_emit("reduce", emit)
        check_on_error("reduce", on_error)
        operator = Reduce(function, self._key, self._paired, emit, on_error)
        return then(self._inputs, operator, "reduce")

    def reduce_batches(
        self, function: Callable[["pa.RecordBatch"], Any], *, emit: Emit = "updates"
    ) -> Stream[Any]:
        """Combine the rows of each key, in a stream of columns, by a function of many rows.

        It gets rows of any keys and returns the remaining ones, in the same columns. For each key
        it gets the rows that it has returned before, and new rows behind them. So its result for a
        key must not depend on how the key's rows are divided. With `emit="updates"` it is called
        with each batch, and the remaining rows of the batch's keys go on. With `emit="final"` the
        remaining rows of all keys go on at the end, all rows of a key in one batch and in the
        function's order. Remaining rows are kept while the job runs.

            >>> import engine.testing
            >>> import pyarrow as pa
            >>> from operators import source
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> def latest(rows: pa.RecordBatch) -> pa.RecordBatch:
            ...     table = pa.table({"thing": rows["thing"], "row": range(len(rows))})
            ...     last = table.group_by("thing").aggregate([("row", "max")])["row_max"]
            ...     return rows.take(last.combine_chunks())
            >>> offers = pa.record_batch({"thing": ["hat", "cup", "hat"], "price": [9, 4, 7]})
            >>> found = source(Collection([offers])).key_by("thing").reduce_batches(
            ...     latest, emit="final").to_records()
            >>> engine.testing.run(found.sink(Collect()))["collect"]
            [{'thing': 'hat', 'price': 7}, {'thing': 'cup', 'price': 4}]
        """
        check_emit("reduce_batches", emit)
        if self._paired or self._key is None:
            raise GraphError(
                "reduce_batches() follows key_by() with a function or nothing, expected columns",
                hint="name the columns of the key: .key_by('id').reduce_batches(f)",
            )
        return then(self._inputs, ReduceBatches(function, self._key, emit), "reduce_batches")

    def window(
        self,
        assigner: Assigner,
        *,
        time: Time = None,
        unit: Unit = "us",
        allowed_lateness: timedelta = ZERO,
        emit: WindowEmit = "final",
    ) -> WindowedStream[K, T]:
        """Divide the records of each key by time: `.window(Tumbling(timedelta(minutes=1)))`.

        The time of a record is what `with_event_time` said, or what `time` says here: an item, or a
        function of the record; numbers of it count `unit`. Watermarks come from `with_event_time`,
        or from your own source; without any, results come at the end.

        With `emit="final"`, a window gives its result when it is complete: when the watermark says
        that all that follow are at its end or later. With `allowed_lateness` it is kept for that
        long in event time, and each record that still comes gives a result anew. What comes later
        is left out, counted (`late` of the operator in the job's statistics), and goes to
        `.side("late")` as it came. With `"updates"`, each batch gives the results of all windows
        that it changed; with `Every(timedelta(seconds=1))` they come once a second; a `Trigger` of
        yours decides itself.

        At the end of the input all windows are complete.
        """
        place = self._inputs, self._key, self._paired
        windowing = windowing_of(*place, assigner, (time, unit), allowed_lateness, emit)
        return WindowedStream(self._inputs, windowing)

    def over(
        self,
        last: timedelta | None = None,
        *,
        rows: int | None = None,
        time: Time = None,
        unit: Unit = "us",
        emit: RollingEmit = "final",
        **spans: timedelta | int,
    ) -> RollingStream[K, T]:
        """See each record with those of its key before it: `.over(timedelta(hours=24)).sum(1)`.

        A record at time t is seen with the records of its key from `t - last` to t, both included,
        whatever their order within one time: SQL's `OVER (PARTITION BY key ORDER BY time RANGE
        last PRECEDING)`. With `rows=100` it is seen with the 99 before it in the order of time, and
        of arrival where times are equal: `ROWS 99 PRECEDING`. Several spans have names, and are
        durations or numbers of records: `.over(h1=timedelta(hours=1), n100=100)`.

        Times are those of `with_event_time`, or what `time` says, as in `window`. With
        `emit="final"`, a record gives its result when the watermark has come to its time: all that
        it is seen with have come, in whatever order. With `"updates"` it gives its result at once,
        of what has come so far; results that were given stay as they are. Then a record that comes
        out of order costs as much time as there are records within its spans.

        A record is late if the watermark is at its time or behind it. It is left out, counted, and
        goes to `.side("late")` as it came. A record costs the same however long a span is. The time
        and the values of a record are kept for as long as a span can have it; with a number of
        records, so many of each key are kept for good.
        """
        check_rolling_emit(emit)
        found, names = spans_of(last, rows, spans)
        selector = time_of(self._inputs, "over", time, unit)
        rolling = Rolling(self._key, self._paired, selector, found, names, emit)
        return RollingStream(self._inputs, rolling)

    @overload
    def map_batches(
        self, function: Callable[[list[T]], list[R]], max_records: int | None = None
    ) -> Stream[R]: ...
    @overload
    def map_batches(
        self, function: Callable[["pa.RecordBatch"], Any], max_records: int | None = None
    ) -> Stream[Any]: ...
    def map_batches(
        self, function: Callable[[Any], Any], max_records: int | None = None
    ) -> Stream[Any]:
        """As `Stream.map_batches`, in the task that has all records of the batch's keys.

        The function's own state, such as a dict by key, is per task: make it in a callable object's
        `__call__` or a closure that is unpickled in each task.
        """
        operator = MapBatches(function, max_records, self._paired)
        return then(self._inputs, operator, "map_batches")

    def then(
        self, operator: BatchOperator, side: "Stream[Any] | KeyedStream[K, Any] | None" = None
    ) -> Stream[Any]:
        """As `Stream.then`, in the task that has all records of the batch's keys.

        If `key_by` got a function, pairs of a key and a record arrive. For an operator with
        `two_inputs`, `side` is the second stream: also keyed, so that equal keys meet.
        """
        return own(self._inputs, operator, side)

    def side(self, name: str) -> Stream[Any]:
        """A side output of `key_by` with `on_error="side"`; see `Stream.side`."""
        return side(tuple(replace(edge, partitioner=Forward()) for edge in self._inputs), name)

    if not TYPE_CHECKING:  # a type checker sees that these methods do not exist

        def __getattr__(self, name: str) -> Any:
            if name in vars(Stream) and not name.startswith("_"):
                raise GraphError(
                    f".{name}() follows .key_by(), expected what is done with the records of a key",
                    hint=f"such as .count() or .reduce(...); or call .{name}() before .key_by()",
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
