"""Streams: typed, immutable handles that only declare a graph.

Every method gives a new handle and leaves the old one as it was, so a stream may be read by any
number of others. Wrong use raises `GraphError` here, where the mistake is, not in a worker.

    >>> from operators.sinks import Counts
    >>> from operators.sources import Collection
    >>> words = source(Collection(["to", "be", "or", "not", "to", "be"]))
    >>> pipeline = words.key_by().count().sink(Counts())
    >>> pipeline.declaration.name
    'counts'
"""

import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args, overload

from engine.columns import is_columns, rows
from engine.config import Native
from engine.errors import GraphError
from engine.gateway import Response
from engine.graph.batch_operator import BatchOperator
from engine.graph.declaration import Declaration, Input, OpenStream, shown
from engine.graph.operator import Form, OnError, Operator, RecordOperator
from engine.graph.sink import SinkOperator
from engine.graph.source import SourceOperator
from engine.model import Model, Via
from engine.partitioner import Broadcast, Forward, Hash, Partitioner, Rebalance
from operators.aggregates import (
    Aggregation,
    Count,
    Emit,
    Max,
    Mean,
    Min,
    NativeAggregate,
    Sum,
    check_emit,
)
from operators.aggregates.accumulator import Accumulator, in_rust_or_python
from operators.aggregates.fold import accumulating
from operators.aggregates.folded import KeyedFold
from operators.aggregates.whole import FoldedParts, FoldedWhole, Parts, Whole
from operators.broadcast import Publish
from operators.durations import ZERO
from operators.elementwise import MapBatches, ToColumns, ToRecords, check_function
from operators.event_time import (
    A_DAY,
    Time,
    TimeSelector,
    Unit,
    WithEventTime,
    WithIngestionTime,
    check_before_keys,
)
from operators.in_cells import stream_html
from operators.keys import HaveKeys, check_key
from operators.lookup_join import Cache, Lookup, LookupJoin
from operators.map_async import MapAsync
from operators.pipeline import Pipeline
from operators.settings import named, native, on_nodes, with_parallelism, with_resources
from operators.sinks.collect import Collect
from operators.sinks.respond import Respond
from operators.take import Take, check_count
from operators.with_model import MapBatchesWithModel, OnLoadError

if TYPE_CHECKING:
    import pyarrow as pa

    from operators.keyed_stream import Assigner, KeyedStream, WindowedStream, WindowEmit

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")
M = TypeVar("M")
L = TypeVar("L")


def source(operator: SourceOperator[T]) -> "Stream[T]":
    """Begin a stream: `source(Collection([1, 2, 3]))`."""
    if not isinstance(operator, SourceOperator):
        raise GraphError(
            f"source() got {_described(operator)}, expected a source",
            hint="wrap a list as Collection([...]), a generator function as Function(f)",
        )
    return Stream((Input(_declared(operator, _default_name(operator)), Forward()),))


class Stream(Generic[T]):
    """Records of type T on their way; the next operator reads them in order of arrival."""

    def __init__(self, inputs: tuple[Input, ...]) -> None:
        self._inputs = inputs

    def __repr__(self) -> str:
        return f"<Stream {shown(self._inputs)}>"

    def _repr_html_(self) -> str | None:
        return stream_html(self._inputs)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The edges that the next operator will have."""
        return self._inputs

    def map(self, function: Callable[[T], R], *, on_error: OnError = "fail") -> "Stream[R]":
        """One record for each: `words.map(lambda word: (word, 1))`.

        Of columns, here and elsewhere, a function of a record gets a dict of each row, as of
        `to_records`, and its results are records.

        `on_error` is the treatment of a record on which the function raises an exception, here and
        elsewhere: `"fail"` fails the job, `"skip"` leaves the record out, `"side"` sends it to
        `side("errors")`. The last two count it: the result shows the number of such records and the
        first one.

        The function returns a new record and does not change its argument, here and elsewhere: the
        operator that emitted that may keep it, as `reduce`, `process`, windows and joins do, and
        would see the change. A test finds functions that change records: `engine.testing.run(...,
        check_changes=True)`.
        """
        return self._per_record("map", function, on_error)

    def flat_map(
        self, function: Callable[[T], Iterable[R]], *, on_error: OnError = "fail"
    ) -> "Stream[R]":
        """Any number of records for each: `lines.flat_map(lambda line: line.split())`."""
        return self._per_record("flat_map", function, on_error)

    def filter(self, function: Callable[[T], object], *, on_error: OnError = "fail") -> "Stream[T]":
        """The records that the function is true for: `words.filter(lambda word: len(word) > 3)`.

        Of columns, the function gets a dict of each row; the rows that it is true for are columns.
        """
        return self._per_record("filter", function, on_error)

    @overload
    def map_batches(
        self, function: Callable[[list[T]], list[R]], max_records: int | None = None
    ) -> "Stream[R]": ...
    @overload
    def map_batches(
        self, function: Callable[["pa.RecordBatch"], Any], max_records: int | None = None
    ) -> "Stream[Any]": ...
    def map_batches(
        self, function: Callable[[Any], Any], max_records: int | None = None
    ) -> "Stream[Any]":
        """A list of any length for each batch: `words.map_batches(lambda batch: batch[::2])`.

        The function gets a list of at least one record and may keep or change it, but not the
        records in it (see `map`). The engine chooses the size of the list: at most `max_records`,
        if that is given. On a stream of columns it gets a `pyarrow.RecordBatch`. It may return a
        list, a RecordBatch or a Table in any case.
        """
        return then(self._inputs, MapBatches(function, max_records), "map_batches")

    def map_async(
        self,
        function: Callable[[T], Awaitable[R]],
        *,
        max_in_flight: int = 100,
        timeout: timedelta | None = None,
        ordered: bool = True,
        retries: int = 0,
        retry_if: Callable[[R], object] | None = None,
        rate: float | None = None,
        on_error: OnError = "fail",
    ) -> "Stream[R]":
        """One record for each, by a coroutine function: `texts.map_async(embed)`.

        Each task has an event loop in a thread of its own. It takes records until `max_in_flight`
        results have not left yet; results leave in the order of the records, or as they come. An
        attempt may take as long as `timeout`. If it fails, there are up to `retries` more, after a
        pause of 0.1 s, of twice that, and so on up to 5 s. An attempt whose result `retry_if` is
        true of has failed, too: `retry_if=lambda answer: answer["status"] == 503`. `on_error`, as
        in `map`, is for records whose last attempt has failed.

        `rate` is the most attempts per second, over all tasks: each of n tasks begins an n-th of
        them, evenly spaced, or up to a tenth of a second's at once after a pause. If few records
        come to a task, others do not take over its share (`.rebalance()` divides them evenly).
        Tasks that go on from a checkpoint divide the rate anew, and begin without calls in hand.

        For an object that all calls of a task share, such as a session of HTTP, pass an async
        context manager in place of the function. It is entered in the event loop, and returns the
        function:

            class Embed:
                async def __aenter__(self):
                    self.session = aiohttp.ClientSession()
                    return self
                async def __aexit__(self, *error):
                    await self.session.close()
                async def __call__(self, text):
                    async with self.session.post(URL, json=text) as answer:
                        return await answer.json()

        The function must not block: it awaits whatever takes time.

            >>> import asyncio
            >>> import engine.testing
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> async def answer(question):
            ...     await asyncio.sleep(0.01 / len(question))
            ...     return f"{question}!"
            >>> answers = source(Collection(["a", "long one", "b"])).map_async(answer)
            >>> engine.testing.run(answers.sink(Collect()))["collect"]
            ['a!', 'long one!', 'b!']
        """
        operator = MapAsync(
            *(function, max_in_flight, timeout, ordered, retries, on_error),
            rate=rate,
            retry_if=retry_if,
        )
        return then(self._inputs, operator, "map_async")

    def map_batches_async(
        self,
        function: Callable[[list[T]], Awaitable[list[R]]],
        max_records: int | None = None,
        *,
        max_in_flight: int = 100,
        timeout: timedelta | None = None,
        ordered: bool = True,
        retries: int = 0,
        retry_if: Callable[[list[R]], object] | None = None,
        rate: float | None = None,
        on_error: OnError = "fail",
    ) -> "Stream[R]":
        """As `map_async`, with a function of a list of records that returns a list of any length.

        The function gets at least one record, and at most `max_records`. `max_in_flight` and
        `rate` count calls. If a call fails, all its records fail.
        """
        operator = MapAsync(
            *(function, max_in_flight, timeout, ordered, retries, on_error),
            of_batches=True,
            max_records=max_records,
            rate=rate,
            retry_if=retry_if,
        )
        return then(self._inputs, operator, "map_batches_async")

    @overload
    def lookup_join(
        self,
        lookup: Lookup | Mapping[Any, Any] | Callable[[Any], Any],
        key: Any,
        function: None = None,
        *,
        cache: Cache | None = None,
        how: Literal["inner", "left"] = "inner",
        value_type: "pa.DataType | None" = None,
    ) -> "Stream[Any]": ...
    @overload
    def lookup_join(
        self,
        lookup: Lookup | Mapping[Any, Any] | Callable[[Any], Any],
        key: Any,
        function: Callable[[T, Any], R],
        *,
        cache: Cache | None = None,
        how: Literal["inner", "left"] = "inner",
        value_type: "pa.DataType | None" = None,
    ) -> "Stream[R]": ...
    def lookup_join(
        self,
        lookup: Lookup | Mapping[Any, Any] | Callable[[Any], Any],
        key: Any,
        function: Callable[[T, Any], Any] | None = None,
        *,
        cache: Cache | None = None,
        how: Literal["inner", "left"] = "inner",
        value_type: "pa.DataType | None" = None,
    ) -> "Stream[Any]":
        """Join records with values that are looked up: `events.lookup_join(names, "user")`.

        The lookup is a dict, a function of a key, or a `Lookup`, such as a database. The key is an
        item of the record, a tuple of several, or a function of it. A record makes a pair with its
        value, or what a function makes of the two. A record without a value, or with None, is left
        out, or with `how="left"` in a pair with None.

        Each key of a batch is looked up once. With a `Cache`, values are kept for the next ones:

            >>> import engine.testing
            >>> from operators import Cache
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> events = source(Collection([("ann", 1), ("bob", 2), ("cid", 3)]))
            >>> cities = {"ann": "Oslo", "bob": "Rome"}
            >>> cache = Cache(1000, ttl=timedelta(minutes=1))
            >>> joined = events.lookup_join(cities.get, 0, cache=cache, how="left")
            >>> engine.testing.run(joined.sink(Collect()))["collect"]
            [(('ann', 1), 'Oslo'), (('bob', 2), 'Rome'), (('cid', 3), None)]

        For columns the key is a column, or a tuple of several, and values are a further column:
        "value", or "value_right" if there is a "value". With `how="left"` a missing value is null.
        The type of the column is `value_type`, or that of a task's first values, a struct for
        dicts; before these a left join has nulls without a type.

        A task waits for each lookup. For many concurrent ones, `map_async` calls a coroutine
        function.
        """
        operator = LookupJoin(lookup, key, function, how, cache, value_type)
        return then(self._inputs, operator, "lookup_join")

    def map_batches_with_model(
        self,
        models: "Stream[M]",
        load: Callable[[M], L],
        function: Callable[[L, list[T]], list[R]],
        *,
        load_in_background: bool = True,
        on_load_error: OnLoadError = "keep",
    ) -> "Stream[R]":
        """A list for each batch, by a function with the latest model; models come while it runs.

        `models` is a broadcast stream of any records, `load` is called with each in every task, and
        what it returns is given to `function` with every batch:

            models = source(Models("/models/digits")).broadcast(via="channels")
            images.map_batches_with_model(models, load, lambda model, batch: model.predict(batch))

        Records wait in their channels until the first model is loaded. From then on a new one is
        loaded in a thread while the one before serves; if more come meanwhile, only the newest of
        them is loaded. With `load_in_background=False` each is loaded when its record arrives, and
        records wait for it. Either way it takes over between two batches, so that no record is
        lost, overtaken, or processed by two models. Models with a `version` never go back to an
        older one.

        A later model for which `load` raises, or that could not be published, is left out: the one
        before serves on, the task logs it once, and the operator's `failures` in the job's
        statistics count it. With `on_load_error="fail"` it fails the job, as the first model does
        in any case.

        When the records have ended, the task does not wait for models that are still loading, and a
        source of models without other readers is ended at its next batch.
        """
        sides = broadcast_sides("map_batches_with_model", models, "models")
        operator = MapBatchesWithModel(load, function, load_in_background, on_load_error)
        return then((*self._inputs, *sides), operator, "map_batches_with_model")

    def then(self, operator: BatchOperator, side: "Stream[Any] | None" = None) -> "Stream[Any]":
        """Put an operator of your own behind the stream; `side` is its side input, if it has one.

        >>> import engine.testing
        >>> from operators import BatchFunction, BatchOperator
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> class Changes(BatchOperator):
        ...     def open(self, context):
        ...         return OneTasksChanges()
        >>> class OneTasksChanges(BatchFunction):
        ...     last = None
        ...
        ...     def process(self, batch):
        ...         befores, self.last = [self.last, *batch], batch[-1]
        ...         return [new for new, old in zip(batch, befores) if new != old]
        >>> states = source(Collection(["on", "on", "off", "on"])).then(Changes())
        >>> engine.testing.run(states.sink(Collect()), batch_size=2)["collect"]
        ['on', 'off', 'on']
        """
        return own(self._inputs, operator, side)

    def to_columns(self, schema: "pa.Schema | None" = None) -> "Stream[Any]":
        """Records that are dicts as columns: a `pyarrow.RecordBatch` of each batch.

        Give a schema if a column may be all None in a batch, or integer in one and float in the
        next: without one, each batch has the fields of all its dicts and the types of its own
        values. A schema also decides about fields: other fields are left out, and a missing one is
        null. A value that the type of its field does not hold, such as 2.75 in one of integers, is
        refused, and so is None if the field is not nullable; floats are rounded to the precision of
        the type. A schema converts columns in the same way.
        """
        return then(self._inputs, ToColumns(schema), "to_columns")

    def to_records(self) -> "Stream[dict[str, Any]]":
        """Columns as records: a dict of each row.

        Times are those of `datetime`, in microseconds, whether or not pandas is installed: finer
        times are refused.
        """
        return then(self._inputs, ToRecords(), "to_records")

    def take(self, n: int) -> "Stream[T]":
        """The first n records that come, of all tasks together; rows, if they are columns.

        It runs in one task. Sources without other readers end within a second after the last of
        these records, so it also ends streams without end. If several tasks send to it, their order
        is not determined.
        """
        return then(self._inputs, Take(n), "take", _pickle(self._inputs))

    def show(self, n: int = 10) -> None:
        """Print the first n records: runs this stream in threads of this process.

        Unlike all other methods it runs something, so do not use it in a pipeline's module. It
        waits for n records or the end; Ctrl-C ends it.

            >>> from operators.sources import Collection
            >>> source(Collection(["to", "be", "or"])).map(len).show(2)
            2
            2
        """
        check_count("show", n)
        from engine.testing import run  # which runs what is declared here

        (found,) = run(self.take(n).sink(Collect()), parallelism=1).values()
        for each in found:
            for record in rows(each) if is_columns(each) else [each]:
                sys.stdout.write(f"{record!r}\n")

    @overload
    def key_by(self, key: None = None, /, *, on_error: OnError = "fail") -> "KeyedStream[T, T]": ...
    @overload
    def key_by(self, key: int | str, /, *, on_error: OnError = "fail") -> "KeyedStream[Any, T]": ...
    @overload
    def key_by(
        self, key: int | str, /, *more: int | str, on_error: OnError = "fail"
    ) -> "KeyedStream[tuple[Any, ...], T]": ...
    @overload
    def key_by(
        self, key: Callable[[T], K], /, *, on_error: OnError = "fail"
    ) -> "KeyedStream[K, T]": ...
    def key_by(self, *keys: Any, on_error: OnError = "fail") -> "KeyedStream[Any, T]":
        """Bring the records of one key to one task.

        A key is the index of a tuple's or list's item, the name of a dict's field, several of those
        (`key_by("city", "day")`: the key is a tuple), a function of the record, or nothing: the
        record itself. Keys are equal as in Python (`True == 1 == 1.0` is one key, `"a"` and `b"a"`
        are two), and all NaN are one key. Index and name are the fast ways; with a function the key
        travels beside the record. On a stream of columns, keys are names or indexes of columns; a
        function gets a dict of each row, and the stream then has records.

        `on_error`, as in `map`, is for records on which a function fails, or that have no such item
        or one that cannot be a key.
        """
        from operators.keyed_stream import KeyedStream  # which makes streams again

        key = check_key(keys)
        check_on_error("key_by", on_error)
        if callable(key):
            keyed = self._beside(RecordOperator("key", key, on_error), "key_by")
            return KeyedStream(_towards(keyed, Hash(0)), 0, paired=True)
        inputs = self._inputs
        if on_error != "fail":
            inputs = self._beside(HaveKeys(key, on_error), "key_by")
        return KeyedStream(_towards(inputs, Hash(key)), key, paired=False)

    def count(self, *, emit: Emit = "updates", on_error: OnError = "fail") -> "Stream[int]":
        """The number of all records.

        This and what follows are computed without a key, in two stages: each task computes what its
        records come to, and one task merges these parts. So results come from one task: with
        `emit="updates"`, the value now for each batch of parts, with `emit="final"` the value when
        the input has ended. An input without records gives none. Over columns, a result is a
        `pyarrow.RecordBatch` of one row. With `on_error="skip"` or `"side"` all records go to that
        one task: whether a record fails may depend on the values of others. All else is as behind
        `key_by`.

        >>> import engine.testing
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> words = source(Collection(["to", "be", "or", "not"]))
        >>> engine.testing.run(words.count(emit="final").sink(Collect()), parallelism=2)["collect"]
        [4]
        """
        return self._of_all("count", Count(), emit, on_error)

    def sum(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> "Stream[Any]":
        """The sum of an item of all records, or of the records themselves: `KeyedStream.sum`."""
        return self._of_all("sum", Sum(item), emit, on_error)

    def min(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> "Stream[Any]":
        """The least of an item of all records, or of the records themselves: `KeyedStream.min`."""
        return self._of_all("min", Min(item), emit, on_error)

    def max(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> "Stream[Any]":
        """The greatest of an item of all records, or of the records: `KeyedStream.max`."""
        return self._of_all("max", Max(item), emit, on_error)

    def mean(
        self,
        item: int | str | None = None,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
    ) -> "Stream[Any]":
        """The mean of an item of all records, or of the records themselves: `KeyedStream.mean`."""
        return self._of_all("mean", Mean(item), emit, on_error)

    def aggregate(
        self,
        *,
        emit: Emit = "updates",
        on_error: OnError = "fail",
        **aggregations: Aggregation | Accumulator[T, Any, Any],
    ) -> "Stream[dict[str, Any]]":
        """Several computations of all records, without a key, by name: see `count`.

        They are aggregations such as `Count()` and `Sum("price")`, which run in Rust, or each an
        `Accumulator`, written in Python. The result is a dict, over columns a row.

            >>> import engine.testing
            >>> from operators import Count, Max, Mean
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> paid = source(Collection([("ann", 5), ("bob", 2), ("ann", 8)]))
            >>> totals = paid.aggregate(n=Count(), most=Max(1), mean=Mean(1), emit="final")
            >>> engine.testing.run(totals.sink(Collect()))["collect"]
            [{'n': 3, 'most': 8, 'mean': 5.0}]

        The first and last of all records are those of the parts in the order in which they come.
        """
        native, own = in_rust_or_python(aggregations, ())
        if native:
            return self._of_all("aggregate", native, emit, on_error)
        check_emit("aggregate", emit)
        check_on_error("aggregate", on_error)
        fold = accumulating(own)
        if on_error != "fail":
            return then(self._inputs, KeyedFold(fold, (), False, emit, on_error), "aggregate")
        return self._in_two_stages(FoldedParts(fold), FoldedWhole(fold, emit), "aggregate")

    def window(
        self,
        assigner: "Assigner",
        *,
        time: Time = None,
        unit: Unit = "us",
        allowed_lateness: timedelta = ZERO,
        emit: "WindowEmit" = "final",
    ) -> "WindowedStream[T]":
        """Divide all records by time, without a key: `.window(Tumbling(timedelta(minutes=1)))`.

        It is as `KeyedStream.window`. Results have no key: they are `(value, start, end)`. A
        function of `apply` gets an empty tuple as the key. Aggregations such as `count` and
        `aggregate(n=Count())` of windows of time are computed in two stages, as `Stream.count` is;
        records that are late travel as they came. Sessions, windows of so many records,
        aggregations with `on_error` and all that Python functions make go to one task, as all
        records do.

            >>> import engine.testing
            >>> from operators import Tumbling
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> clicks = source(Collection([("ann", 1), ("bob", 2), ("ann", 11)]))
            >>> tens = clicks.window(Tumbling(timedelta(seconds=10)), time=1, unit="s")
            >>> engine.testing.run(tens.count().sink(Collect()), parallelism=2)["collect"]
            [(2, 0, 10), (1, 10, 20)]
        """
        from operators.keyed_stream import WindowedStream, windowing_of

        place = self._inputs, (), False
        windowing = windowing_of(*place, assigner, (time, unit), allowed_lateness, emit)
        return WindowedStream(self._inputs, windowing)

    def with_event_time(
        self,
        time: Time,
        *,
        unit: Unit = "us",
        out_of_orderness: timedelta = ZERO,
        idle_after: timedelta | None = None,
        max_jump: timedelta | None = A_DAY,
        max_drift: timedelta | None = None,
    ) -> "Stream[T]":
        """Declare the time of each record, for windows and joins.

        The time is an item of the record, a field, a function of it, or with None the record
        itself: a number of `unit` ("s", "ms", "us", "ns") since 1970, or a datetime (in UTC unless
        it has a zone). For columns, it is a column of numbers or timestamps; a function gets a dict
        of each row, and columns go on. Call it before `key_by`, best right behind the source.

        >>> import engine.testing
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> words = source(Collection([("to", 1), ("be", 3), ("or", 2)]))
        >>> timed = words.with_event_time(1, unit="s", out_of_orderness=timedelta(seconds=2))
        >>> engine.testing.run(timed.sink(Collect()))["collect"]
        [('to', 1), ('be', 3), ('or', 2)]

        Records may come out of order. A record is not late if it is at most `out_of_orderness`
        behind those before it in its split of the source: in its file, or in the share of its task.

        A task without records holds up event time for all. If it brings none for `idle_after`, the
        others go on without it until it does; its records may then be late. Only the wait for its
        source counts, not a wait for readers; so it must stand in the tasks of the source, in front
        of operators that hold records back.

        One record far in the future must not end all windows. A rise by more than `max_jump` is
        believed only if three records in a row are that far ahead, and a time that far ahead of the
        wall clock never. Such records go on, and the result counts them. With None, all times are
        believed, as a simulation needs.

        If one source is read faster than another, its records would wait for the other in windows
        and joins. A task that is `max_drift` ahead of the slowest waits, in front of its next
        batch. This compares tasks with a `max_drift` whose streams meet, such as the tasks of one
        source or the two sides of a join. They learn their limits from the master, whose knowledge
        of a task is up to an eighth of its drift old. Idle sources hold up nobody, and a waiting
        one is not idle. With a `VirtualClock`, where reading takes no time, nobody waits.
        """
        selector = TimeSelector.of("with_event_time", time, unit)
        operator = WithEventTime(selector, out_of_orderness, idle_after, max_jump, max_drift)
        check_before_keys(self._inputs, "with_event_time")
        return Stream(self._beside(operator, "with_event_time"))

    @overload
    def with_ingestion_time(self) -> "Stream[tuple[T, int]]": ...
    @overload
    def with_ingestion_time(self, column: str) -> "Stream[T]": ...
    def with_ingestion_time(self, column: str | None = None) -> "Stream[Any]":
        """Make pairs of each record and the time of its arrival here, which is its event time.

        A time is microseconds since 1970. Records that come together have the same time, and none
        has an earlier time than those before it in its task, so none is late. Time goes on without
        records. Call it right behind the source, and before `key_by`.

        >>> import engine.testing
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> timed = source(Collection(["to", "be"])).with_ingestion_time()
        >>> pairs = engine.testing.run(timed.sink(Collect()))["collect"]
        >>> [word for word, time in pairs], pairs[0][1] <= pairs[1][1]
        (['to', 'be'], True)

        It reads the wall clock when the task begins, and goes on evenly from there, even if
        somebody sets that clock. Records that come again, behind a checkpoint, have the time of
        this arrival. A stream of columns gets a column of that name with the times, as timestamps:
        `.with_ingestion_time("arrived")`. So windows behind it are those of processing time.
        """
        check_before_keys(self._inputs, "with_ingestion_time")
        if column is not None and (not isinstance(column, str) or not column):
            raise GraphError(
                f"with_ingestion_time() got {column!r:.80}, expected the name of a new column"
            )
        return Stream(self._beside(WithIngestionTime(column), "with_ingestion_time"))

    def side(self, name: str) -> "Stream[Any]":
        """A side output of the last operator.

        An operator with `on_error="side"` has one, "errors": pairs of a record that its function
        failed on and the exception's message. Windows have "late": records that came too late. A
        source with `on_error="dead_letter"` has "dead_letter": messages that cannot be decoded.

            >>> import engine.testing
            >>> from operators.sinks import Collect
            >>> from operators.sources import Collection
            >>> numbers = source(Collection(["1", "x"])).map(int, on_error="side")
            >>> bad = numbers.side("errors").map(lambda pair: pair[0])
            >>> engine.testing.run([numbers.sink(Collect()), bad.sink(Collect()).named("bad")])
            {'collect': [1], 'bad': ['x']}
        """
        return side(self._inputs, name)

    def union(self, *others: "Stream[T]") -> "Stream[T]":
        """The records of all the streams; those of each stay in their order."""
        if not others:
            raise GraphError("union() got no stream, expected at least one other")
        for other in others:
            if not isinstance(other, Stream):
                raise GraphError(f"union() got {_described(other)}, expected streams")
        return Stream(tuple(edge for stream in (self, *others) for edge in stream.inputs))

    def rebalance(self) -> "Stream[T]":
        """Deal the records out to the tasks of the next operator in turn."""
        return Stream(_towards(self._inputs, Rebalance()))

    @overload
    def broadcast(self, via: None = None) -> "Stream[T]": ...
    @overload
    def broadcast(
        self,
        via: Via,
        *,
        name: str | None = None,
        s3_url: str | None = None,
        s3_endpoint: str | None = None,
        share_per_node: bool = False,
    ) -> "Stream[Model]": ...
    def broadcast(self, via: Via | None = None, **settings: Any) -> "Stream[Any]":
        """Give every record to every task of the next operator.

        With `via`, records are models of any size: each is published, and a `Model` arrives, a
        handle that reads the bytes in place. `channels` are Oka's own: one copy crosses the network
        to each node, whose tasks share it. `plasma` is Ray's object store; `s3` uploads below
        `s3_url` and each task downloads (with `share_per_node`, one of each node). A record is any
        value of `engine.model.pack`, or a pair of a version and such a value. Settings are those of
        `engine.broadcast.Settings`, and `name`, for messages.

            >>> import engine.testing
            >>> from operators.sinks import Collect
            >>> from operators.sources import Models
            >>> models = source(Models(b"weights")).broadcast(via="channels")
            >>> loaded = models.map(lambda model: (model.version, bytes(model.value())))
            >>> engine.testing.run(loaded.sink(Collect()), parallelism=2)["collect"]
            [(1, b'weights'), (1, b'weights')]
        """
        if via is None:
            if settings:
                raise GraphError(
                    f"broadcast() got {', '.join(settings)} without via, expected both",
                    hint="broadcast(via='channels') is for models",
                )
            return Stream(_towards(self._inputs, Broadcast()))
        publish = Publish(via, **settings)
        for edge in self._inputs:
            publish.check_source(edge.source.operator)
        return Stream(_towards(self._beside(publish, "publish"), Broadcast()))

    def sink(self, operator: SinkOperator[T]) -> "Pipeline":
        """End the stream: `counts.sink(Counts())`. What it returns can be executed."""
        if not isinstance(operator, SinkOperator):
            raise GraphError(
                f"sink() got {_described(operator)}, expected a sink",
                hint="wrap a function as Callback(f), gather records by Collect()",
            )
        name, pickle = _default_name(operator), _pickle(self._inputs)
        return Pipeline(_declared(operator, name, self._inputs, pickle))

    def respond(self: "Stream[Response]") -> "Pipeline":
        """Answer requests of an `HttpSource`: `requests.map(lambda r: r.reply(1)).respond()`."""
        return self.sink(Respond())

    def named(self, name: str) -> "Stream[T]":
        """Give the last operator a name, unique in the job."""
        return self._with(named(last(self._inputs, "named"), name))

    def with_parallelism(self, parallelism: int) -> "Stream[T]":
        """Run the last operator in this many tasks, whatever the job's parallelism.

        Towards fewer tasks each task sends to one task, which keeps the order; towards more tasks
        records are dealt out in turn, without an order between the tasks.
        """
        return self._with(with_parallelism(last(self._inputs, "with_parallelism"), parallelism))

    def native(self, mode: Native) -> "Stream[T]":
        """Set the way of the last operator's functions, whatever the job's setting `native`.

        `auto`: in Rust, or over columns, where their bytecode is understood, with Python's results;
        batches that hold something unusual go through the function itself. `require`: the job does
        not start where that is not so, and the error says why. `off`: the function itself always.
        `check`: both, and the job fails where the results differ.
        """
        return self._with(native(last(self._inputs, "native"), mode))

    def with_resources(self, cpus: float | None = None, **custom: float) -> "Stream[T]":
        """Set what each task of the last operator takes: `.with_resources(cpus=2, gpus=1)`.

        `cpus`, `gpus`, `memory` (bytes), and resources of the cluster's own. The default is one
        CPU; operators in one chain take the most that one of them asks for. The runtime `local`
        reserves nothing: it warns of requests other than CPUs and memory.
        """
        return self._with(with_resources(last(self._inputs, "with_resources"), cpus, custom))

    def on_nodes(self, *numbers: int) -> "Stream[T]":
        """Pin the tasks of the last operator to nodes, in turn: `.on_nodes(0)`, `.on_nodes(1, 2)`.

        Node k is the k-th, in the cluster's order, of the nodes that could run such a task; with a
        single node, all tasks are on it. Other operators are placed as usual.
        """
        return self._with(on_nodes(last(self._inputs, "on_nodes"), numbers))

    def with_pickle(self) -> "Stream[T]":
        """Pickle objects of the last operator that cannot travel otherwise, on their way from it.

        Any object that pickle takes then travels, at some fifty times the cost of a tuple; other
        objects travel as usual. It also holds for operators that pass records on: `filter`, `take`,
        `key_by` and sinks. A job with such a stream refuses to run over channels without
        encryption.
        """
        return self._with(replace(last(self._inputs, "with_pickle"), pickle=True))

    def _per_record(
        self, form: Form, function: Callable[[T], Any], on_error: OnError
    ) -> "Stream[Any]":
        check_function(form, function, 1)
        check_on_error(form, on_error)
        pickle = form == "filter" and _pickle(self._inputs)
        return then(self._inputs, RecordOperator(form, function, on_error), form, pickle)

    def _of_all(
        self,
        name: str,
        aggregations: Aggregation | Mapping[str, Aggregation],
        emit: Emit,
        on_error: OnError,
    ) -> "Stream[Any]":
        """The two stages of an aggregation without a key."""
        check_emit(name, emit)
        check_on_error(name, on_error)
        of_all = NativeAggregate.of(aggregations, (), emit, on_error, paired=False)
        if on_error != "fail":
            return then(self._inputs, of_all, name)
        return self._in_two_stages(Parts(of_all), Whole(of_all), name)

    def _in_two_stages(
        self, parts: BatchOperator, whole: BatchOperator, name: str
    ) -> "Stream[Any]":
        """An operator in the tasks of the stream, and what one task makes of all that it gives."""
        return then(self._beside(parts, f"{name}_parts"), whole, name, _pickle(self._inputs))

    def _beside(self, operator: RecordOperator | BatchOperator, name: str) -> tuple[Input, ...]:
        """The edges behind a further operator in the same tasks, before the network."""
        declaration = Declaration(
            operator,
            name,
            self._inputs,
            parallelism=_parallelism(self._inputs),
            pickle=_pickle(self._inputs),
        )
        return (Input(declaration, Forward()),)

    def _with(self, declaration: Declaration) -> "Stream[T]":
        return Stream((Input(declaration, Forward()),))

    if not TYPE_CHECKING:  # a type checker sees that these methods do not exist

        def __getattr__(self, name: str) -> Any:
            from operators.keyed_stream import KeyedStream

            if not name.startswith("_") and hasattr(KeyedStream, name):
                raise GraphError(
                    f".{name}() needs to know what the key of a record is, expected .key_by(...) "
                    "before it",
                    hint=f".key_by(0).{name}(...) has a result for each value of item 0, "
                    f".key_by(lambda record: None).{name}(...) one for all records",
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def side(inputs: tuple[Input, ...], name: str) -> Stream[Any]:
    """The side output of this name of the operator that the edges come from."""
    operator = last(inputs, "side").operator
    names = operator.properties.side_outputs
    if name not in names:
        found = f"those of {inputs[0].source.name!r} are {', '.join(names)}"
        raise GraphError(
            f"side() got {name!r:.80}, expected a side output: "
            + (found if names else f"{inputs[0].source.name!r} has none"),
            hint="on_error='side' gives an operator the side output 'errors'; windows have 'late', "
            "and a source with on_error='dead_letter' has 'dead_letter'",
        )
    return Stream((Input(inputs[0].source, Forward(), output=name),))


def last(inputs: tuple[Input, ...], method: str) -> Declaration:
    """The one operator that the edges come from; a `GraphError` names the method if it is not."""
    (edge, *others) = inputs
    what = None
    if others:
        what = "union"
    elif edge.output is not None:
        what = "side"
    elif not isinstance(edge.partitioner, Forward):
        what = edge.partitioner.name
    if what is not None:
        raise GraphError(
            f".{method}() follows {what}(), expected an operator",
            hint=f"call .{method}() right after the operator that it is for",
        )
    return edge.source


def own(inputs: tuple[Input, ...], operator: object, beside: object) -> Stream[Any]:
    """The stream behind a user's operator, which may read another stream beside these edges."""
    if not isinstance(operator, BatchOperator):
        raise GraphError(
            f"then() got {_described(operator)}, expected a BatchOperator",
            hint="a function of a record goes into .map(f), one of a batch into .map_batches(f)",
        )
    properties = operator.properties
    has_second = properties.side_input or properties.two_inputs
    if (beside is not None) != has_second:
        has = "one" if has_second else "none: its Properties have no side_input"
        raise GraphError(
            f"then() got {'no' if beside is None else 'a'} side input for "
            f"{_default_name(operator)!r}, expected {has}"
        )
    if beside is not None and not isinstance(
        beside, OpenStream if properties.two_inputs else Stream
    ):
        raise GraphError(f"then() got side={_described(beside)}, expected a stream")
    sides = () if beside is None else second(beside.inputs)
    return then((*inputs, *sides), operator, _default_name(operator))


def then(
    inputs: tuple[Input, ...],
    operator: RecordOperator | BatchOperator,
    name: str,
    pickle: bool = False,
) -> Stream[Any]:
    """The stream behind an operator that reads these edges."""
    return Stream((Input(_declared(operator, name, inputs, pickle), Forward()),))


def second(inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """The same edges as those of an operator's second input."""
    return tuple(replace(edge, input=1) for edge in inputs)


def check_on_error(method: str, on_error: object) -> None:
    """Raise `GraphError` unless it is a treatment of records that fail."""
    if on_error not in get_args(OnError):
        raise GraphError(
            f"{method}() got on_error={on_error!r:.80}, expected 'fail', 'skip' or 'side'"
        )


def broadcast_sides(method: str, stream: object, what: str) -> tuple[Input, ...]:
    """The edges of a side input that is broadcast; raises `GraphError` if it is not."""
    if not isinstance(stream, Stream):
        raise GraphError(
            f"{method}() got {_described(stream)}, expected a stream of {what}",
            hint=f"a stream of {what} that every task gets is made by .broadcast()",
        )
    for edge in stream.inputs:
        if not isinstance(edge.partitioner, Broadcast):
            raise GraphError(
                f"{method}() got the {what} of {edge.source.name!r} divided among tasks "
                f"({edge.partitioner.name}), expected all in every task",
                hint=f"call .broadcast() on the stream of {what}",
            )
    return second(stream.inputs)


def _declared(
    operator: Operator, name: str, inputs: tuple[Input, ...] = (), pickle: bool = False
) -> Declaration:
    """The operator with the parallelism that it declares itself."""
    parallelism = operator.properties.parallelism
    return Declaration(operator, name, inputs, parallelism=parallelism, pickle=pickle)


def _towards(inputs: tuple[Input, ...], partitioner: Partitioner) -> tuple[Input, ...]:
    return tuple(replace(edge, partitioner=partitioner) for edge in inputs)


def _parallelism(inputs: tuple[Input, ...]) -> int | None:
    """The inputs' parallelism, so that an operator shares their tasks; None if it differs."""
    parallelisms = {edge.source.parallelism for edge in inputs}
    return parallelisms.pop() if len(parallelisms) == 1 else None


def _pickle(inputs: tuple[Input, ...]) -> bool:
    """Whether records may be pickled on the way, as some of them were before."""
    return any(edge.source.pickle for edge in inputs)


def _default_name(operator: Operator) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(operator).__name__).lower()


def _described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{type(value).__name__} {value!r:.80}"
