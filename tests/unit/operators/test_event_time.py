"""Event time in jobs: where records have their time, and the watermarks that are made of it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from time import time as now
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import engine
from engine.graph.operator import START_OF_TIME
from engine.testing import VirtualClock, run
from operators import (
    BatchFunction,
    BatchOperator,
    Properties,
    SourceOperator,
    Stream,
    TaskContext,
    Watermark,
    source,
)
from operators.event_time import TimeSelector
from operators.sinks import Collect
from operators.sources import Collection, Function
from operators.watermarks import WithEventTime

pytestmark = pytest.mark.usefixtures("nothing_left")

SECOND = timedelta(seconds=1)


class Told(BatchOperator):
    """Passes records on, and gives a record for each watermark."""

    properties = Properties(accepts_columns=True)

    def __init__(self, name: str = "W") -> None:
        self.name = name

    def open(self, context: TaskContext) -> BatchFunction:
        return _Told(self.name)


class _Told(BatchFunction):
    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, batch: Any) -> Any:
        return batch

    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        yield [(self._name, watermark_us)]


def timed(records: Iterable[Any], **settings: Any) -> Stream[Any]:
    """A stream of pairs with their time in item 1, one a second; and what is told behind it."""
    return source(Collection(records, rate=1)).with_event_time(1, **settings)


def out(stream: Stream[Any], **settings: Any) -> list[Any]:
    """What comes out of it, in batches of one record, up to the last record.

    Whether a task hears of a watermark in front of the end, or of the end at once, is open.
    """
    settings = {"clock": VirtualClock(), "batch_size": 1, **settings}
    sink = stream.sink(Collect()).with_parallelism(1)
    found = list(run(sink, **settings)["collect"])
    while found and isinstance(found[-1], tuple) and found[-1][0] == "W":
        found.pop()
    return found


def test_a_watermark_is_a_microsecond_behind_the_highest_time() -> None:
    records = [("a", 5), ("b", 3), ("c", 7), ("d", 7), ("e", 9)]
    told = [("a", 5), ("W", 4), ("b", 3), ("c", 7), ("W", 6), ("d", 7), ("e", 9)]
    assert out(timed(records).then(Told())) == told
    assert out(timed(records).rebalance().then(Told())) == told


def test_a_watermark_leaves_room_for_disorder() -> None:
    records = [("a", 5), ("b", 8)]
    stream = timed(records, unit="s", out_of_orderness=3 * SECOND).then(Told())
    assert out(stream) == [("a", 5), ("W", 1_999_999), ("b", 8)]


def test_one_batch_makes_one_watermark_of_all_its_records() -> None:
    records = [("a", 5), ("b", 9), ("c", 7)]
    assert out(timed([*records, ("d", 8)]).then(Told()), batch_size=3) == [
        *records,
        ("W", 8),
        ("d", 8),
    ]


def test_in_a_long_batch_the_last_record_counts_and_some_before_it() -> None:
    records = [("a", time) for time in range(1001)]
    assert out(timed(records).then(Told()), batch_size=1000)[-2] == ("W", 998)
    records[500] = ("a", 5000)  # which is not looked at
    assert out(timed(records).then(Told()), batch_size=1000)[-2] == ("W", 998)
    records[999 - 63] = ("a", 5000)
    assert out(timed(records).then(Told()), batch_size=1000)[-2] == ("W", 4999)


def test_watermarks_of_the_source_end_at_it() -> None:
    def given() -> Iterator[Any]:
        yield from (("a", 5), Watermark(1000), ("b", 6), Watermark(None), ("c", 7))

    stream = source(Function(given, rate=1)).then(Told("in front")).with_event_time(1)
    told = [("a", 5), ("W", 4), ("in front", 1000), ("W", 999), ("b", 6), ("c", 7)]
    assert out(stream.then(Told())) == told
    assert [pair for pair in out(stream.rebalance().then(Told())) if pair != ("W", 4)] == [
        pair for pair in told if pair != ("W", 4)
    ]


def test_event_time_may_be_said_anew() -> None:
    """The watermarks of the one end at the other."""
    first = timed([(9, 5), (10, 6)]).then(Told("first")).map(lambda pair: (pair[1], pair[0]))
    told = [(5, 9), (4, "first"), ("W", 8), (6, 10), (5, "first")]
    numbers = first.with_event_time(lambda pair: 0 if pair[1] == "first" else pair[1])
    assert out(numbers.then(Told())) == told


@pytest.mark.parametrize("parallelism", [1, 2])
def test_tasks_that_read_a_gate_make_watermarks_too(parallelism: int) -> None:
    dealt = source(Collection([("a", time) for time in range(1, 9)], rate=1)).rebalance()
    stream = dealt.map(lambda pair: pair).with_event_time(1).with_parallelism(parallelism)
    told = out(stream.rebalance().then(Told()).with_parallelism(1), parallelism=1)
    watermarks = [time for name, time in told if name == "W"]
    assert watermarks == sorted(set(watermarks))
    assert watermarks[-1] >= 5
    assert sorted(pair for pair in told if pair[0] == "a") == [("a", time) for time in range(1, 9)]


def test_the_least_of_united_streams_counts() -> None:
    slow, fast = timed([("a", 1), ("b", 2), ("c", 30)]), timed([("d", 10), ("e", 20)])
    told = out(slow.union(fast).then(Told()))
    assert [pair for pair in told if pair[0] == "W"] == [("W", 0), ("W", 1)]


class Beside(BatchOperator):
    """Takes a second input, and tells what watermarks there are."""

    properties = Properties(side_input=True)

    def open(self, context: TaskContext) -> BatchFunction:
        return _Beside("W")


class _Beside(_Told):
    def take_side(self, records: list[Any]) -> None:
        pass


def test_a_side_input_tells_no_time() -> None:
    side = timed([("never", 1)]).broadcast()
    numbers = timed([("a", 5), ("b", 6)])
    assert out(numbers.then(Beside(), side=side)) == [("a", 5), ("W", 4), ("b", 6)]


def test_watermarks_come_behind_what_operators_make_of_their_records() -> None:
    doubled = timed([("a", 5), ("b", 6)]).flat_map(lambda pair: [pair, pair])
    told = [("a", 5), ("a", 5), ("W", 4), ("b", 6), ("b", 6)]
    assert out(doubled.then(Told())) == told
    assert out(doubled.rebalance().then(Told())) == told


def test_time_goes_on_where_all_records_are_filtered_out() -> None:
    last = timed([("a", 5), ("b", 6), ("c", 7)]).filter(lambda pair: pair[0] == "c")
    assert out(last.rebalance().then(Told())) == [("W", 4), ("W", 5), ("c", 7)]


def test_watermarks_are_not_made_more_often_than_each_other_millisecond() -> None:
    """The last one is not lost: it comes when its time has come, without a record."""
    records = [("a", time) for time in range(1, 41)]
    fast = source(Collection(records, rate=10_000)).with_event_time(1)
    told = out(fast.then(Told()))
    assert [time for name, time in told if name == "W"] == [0, 20]
    burst = source(Function(lambda: iter([records[:5], records[5:10], records[10:]]), rate=0.1))
    gaps = out(burst.with_event_time(1).then(Told()), batch_size=5)
    assert gaps[gaps.index(("a", 11)) - 1] == ("W", 9)


def test_a_stream_without_records_is_idle_and_holds_nobody_up() -> None:
    """The first input brings records for 3 s, none for 20 s, then more."""

    def slow() -> Iterator[Any]:
        yield from ([("a", time)] for time in (1, 2, 3))
        yield [("a", 4)] * 20  # the next is due 20 s later
        yield [("a", 50)]
        yield [("a", 60)]

    def fast() -> Iterator[Any]:
        yield from ([("b", time)] for time in range(10, 40))

    def watermarks(idle_after: timedelta | None) -> list[Any]:
        both = [
            source(Function(given, rate=1)).with_event_time(1, idle_after=idle_after)
            for given in (slow, fast)
        ]
        told = out(both[0].union(both[1]).then(Told()), batch_size=20)
        return [time for name, time in told if name == "W"]

    meanwhile = range(4, 30)
    assert not set(meanwhile) & set(watermarks(None))
    assert set(meanwhile) & set(watermarks(timedelta(seconds=5.5))) == set(range(17, 30))


def test_a_stream_that_never_had_a_record_is_idle_too() -> None:
    def given(context: TaskContext) -> Iterator[Any]:
        if context.index == 0:
            yield from (("a", time) for time in range(1, 20))
        else:
            yield [("b", 0)]
            yield [("b", 0)] * 100
            yield ("b", 0)

    words = source(Function(given, rate=2))
    empty = words.filter(lambda pair: pair[0] == "a").with_event_time(1, idle_after=5.5 * SECOND)
    told = out(empty.rebalance().then(Told()).with_parallelism(1), parallelism=2, batch_size=100)
    assert [time for name, time in told if name == "W"][:3] == [5, 6, 7]


def test_when_all_are_idle_time_goes_on_to_the_last_of_them() -> None:
    def given(context: TaskContext) -> Iterator[Any]:
        yield [("a", 10 * (1 + context.index))] * 20
        yield ("a", 99)

    words = source(Function(given, rate=2)).with_event_time(1, idle_after=2 * SECOND)
    told = out(words.rebalance().then(Told()).with_parallelism(1), parallelism=2, batch_size=20)
    assert [pair for pair in told if pair[0] == "W"][:2] == [("W", 9), ("W", 19)]


class Clock:
    """A clock that a test sets."""

    now_ns = 0

    def open(self, operator: BatchOperator) -> BatchFunction:
        """The function of a task that has this clock."""
        return operator.open(TaskContext("task[0]", 0, 1, 100, "job", now_ns=lambda: self.now_ns))


def test_the_wait_for_others_is_no_idleness() -> None:
    clock = Clock()
    function = clock.open(WithEventTime(TimeSelector(), idle_after=10 * SECOND))
    for _ in range(3):
        function.process([7])
        function.watermark = None
        clock.now_ns += 3600 * 10**9  # the task is held up, and all its timers are overdue
        function.on_timer(clock.now_ns)
        assert function.watermark is None
    for _ in range(3):  # they are called again and again, and the next record is there
        clock.now_ns += 10**9
        function.on_timer(clock.now_ns)
        assert function.watermark is None
    assert function.next_timer is not None
    clock.now_ns = function.next_timer
    function.on_timer(clock.now_ns)
    assert function.watermark == Watermark(None)
    assert function.next_timer is None
    function.process([3])
    assert function.watermark == Watermark(6), "all are told that it goes on, though time does not"


def test_a_stream_that_wakes_before_it_had_a_time_says_so() -> None:
    clock = Clock()
    function = clock.open(WithEventTime(TimeSelector(), idle_after=10 * SECOND))
    for clock.now_ns in (5 * 10**9, 10 * 10**9):
        assert function.next_timer == clock.now_ns
        function.on_timer(clock.now_ns)
    assert function.watermark == Watermark(None)
    function.process([2**70])
    assert function.watermark == Watermark(START_OF_TIME)
    assert function.metrics() == {"disbelieved_times": 1}


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda words: words.union(words.map(lambda word: word)), "united"),
        (lambda words: words.rebalance(), "dealt out"),
        (lambda words: words.map(str).with_parallelism(3), "in other tasks"),
    ],
)
def test_idleness_is_that_of_a_source(read: Callable[[Any], Any], why: str) -> None:
    stream = read(source(Collection(["a"]))).with_event_time(None, idle_after=SECOND)
    with pytest.raises(engine.GraphError, match="'with_event_time' reads over channels") as caught:
        run(stream.sink(Collect()))
    assert "right behind the source" in str(caught.value), why
    run(read(source(Collection([1]))).map(int).with_event_time(None).sink(Collect()))


UTC = timezone.utc
AN_HOUR_EAST = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("time", "unit", "expected"),
    [
        (7, "s", 7_000_000),
        (7, "ms", 7000),
        (7, "us", 7),
        (7001, "ns", 7),
        (-1, "ns", -1),
        (0.0000015, "s", 2),
        (1700000000.123456, "s", 1700000000123456),
        (1.5, "ms", 1500),
        (2500.0, "ns", 2),
        (np.int64(7), "ms", 7000),
        (np.float64(0.5), "ms", 500),
        (datetime(1970, 1, 1, 0, 0, 1), "us", 1_000_000),
        (datetime(1970, 1, 1, 1, tzinfo=AN_HOUR_EAST), "s", 0),
        (datetime(1969, 12, 31, tzinfo=UTC), "ns", -86_400_000_000),
        (datetime.max, "us", 253402300799999999),
    ],
)
def test_times_of_all_kinds(time: Any, unit: Any, expected: int) -> None:
    for record, item in (
        (time, None),
        ((1, time), 1),
        ({"ts": time}, "ts"),
        ([time], lambda it: it[0]),
    ):
        selector = TimeSelector(item, unit)
        assert selector.microseconds(record) == expected
        assert selector.all_microseconds([record, record]) == [expected, expected]
        assert replace(selector, paired=True).microseconds(("key", record)) == expected


@pytest.mark.parametrize(
    "time", [None, "2026-01-01", math.nan, math.inf, True, 1j, b"7", timedelta(1)]
)
def test_what_is_no_time_fails_with_its_record(time: Any) -> None:
    records = [("a", 1), ("b", time), ("c", 3)]
    with pytest.raises(engine.OperatorError, match="the time of the record is") as caught:
        run(source(Function(lambda: iter([records]))).with_event_time(1).sink(Collect()))
    assert caught.value.operator == "with_event_time"
    assert caught.value.record == repr(("b", time))
    assert "hint: its time is item 1" in str(caught.value)


def test_a_record_without_the_item_fails_with_its_record() -> None:
    for records, item, error in (([{"a": 1}, {}], "a", KeyError), ([(1,), ()], 0, IndexError)):
        with pytest.raises(engine.OperatorError, match=error.__name__) as caught:
            run(source(Collection(records)).with_event_time(item).sink(Collect()))
        assert caught.value.record == repr(records[1])


@pytest.mark.parametrize(
    ("time", "unit", "us", "expected"),
    [
        (7, "s", 10_000_000, 10),
        (7, "s", 10_500_000, 10.5),
        (7, "us", 10, 10),
        (7, "ns", 10, 10_000),
        (7.5, "s", 500_000, 0.5),
        (7.5, "ms", 10_000, 10.0),
        (datetime(2026, 1, 1), "us", 1, datetime(1970, 1, 1, microsecond=1)),
        (
            datetime(2026, 1, 1, tzinfo=AN_HOUR_EAST),
            "us",
            0,
            datetime(1970, 1, 1, 1, tzinfo=AN_HOUR_EAST),
        ),
    ],
)
def test_times_in_results_are_like_those_of_records(
    time: Any, unit: Any, us: int, expected: Any
) -> None:
    found = TimeSelector(unit=unit).like(time)(us)
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(found, datetime):
        assert found.tzinfo is expected.tzinfo


MICROSECONDS = [1_700_000_000_000_000, 1_700_000_001_000_000, 1_699_999_990_000_000]


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        (pa.array(MICROSECONDS), "us"),
        (pa.array([us // 10**6 for us in MICROSECONDS], pa.uint32()), "s"),
        (pa.array([us / 1e6 for us in MICROSECONDS]), "s"),
        (pa.array([us * 1000 for us in MICROSECONDS]), "ns"),
        (pa.array(MICROSECONDS, pa.timestamp("us")), "s"),
        (pa.array([us // 1000 for us in MICROSECONDS], pa.timestamp("ms", "UTC")), "us"),
        (pa.array([us * 1000 for us in MICROSECONDS], pa.timestamp("ns")), "us"),
    ],
)
def test_times_of_columns(column: pa.Array, unit: Any) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(["a", "b", "c"]), column], ["word", "ts"])
    last = rows.slice(0, 1)
    words = source(Function(lambda: iter([rows, last]), rate=1))
    for item in ("ts", 1):
        told = out(words.with_event_time(item, unit=unit).then(Told()), batch_size=3)
        assert told == [rows, ("W", MICROSECONDS[1] - 1), last]


def test_the_result_tells_of_event_time_where_there_is_one() -> None:
    """Of a finished job, how old the last watermark was; and what was not believed."""

    def given() -> Iterator[Any]:
        yield from ([("a", now() - 60)], [("b", now() + 1e9)], [("c", now() - 50)])

    words = source(Function(given))
    result = engine.execute(
        words.with_event_time(1, unit="s").key_by(0).then(Told()).sink(Collect()), progress="none"
    )
    told = result.to_dict()
    assert 40_000 < told["watermark_lag_ms"] < 1e6
    assert told["disbelieved_times"] == 1
    assert "s behind the clock, 1 time too far ahead to be believed" in str(result)
    plain = engine.execute(words.key_by(0).then(Told()).sink(Collect()), progress="none")
    assert "watermark" not in str(plain)
    assert plain.to_dict()["watermark_lag_ms"] == 0


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None, 3]), "'ts' of times has none in 1 of 3 rows, expected one in each"),
        (pa.array([1.0, math.nan, None]), "'ts' of times has none in 2 of 3 rows"),
        (pa.array(["1", "2", "3"]), "'ts' of times is of type string, expected numbers of us or"),
        (pa.array([True, True, True]), "'ts' of times is of type bool"),
        (None, "the time is column 'ts', and there are word, expected one column of that name"),
    ],
)
def test_a_column_without_times_fails(column: pa.Array | None, message: str) -> None:
    words = pa.RecordBatch.from_arrays([pa.array(["a", "b", "c"])], ["word"])
    rows = words if column is None else words.append_column("ts", column)
    with pytest.raises(engine.OperatorError, match=message) as caught:
        run(source(Collection([rows])).with_event_time("ts").sink(Collect()))
    assert caught.value.operator == "with_event_time"


def test_columns_need_a_column_of_times() -> None:
    rows = pa.RecordBatch.from_pylist([{"ts": 1}])
    for time in (None, lambda row: row["ts"]):
        with pytest.raises(engine.OperatorError, match=r"\.with_event_time\('ts'\)"):
            run(source(Collection([rows])).with_event_time(time).sink(Collect()))


def test_in_a_column_the_highest_that_is_believed_counts() -> None:
    rows = pa.RecordBatch.from_pylist([{"ts": ts} for ts in (1, 9, 2**62, 4)])
    last = rows.slice(3)
    words = source(Function(lambda: iter([rows, last]), rate=1)).with_event_time("ts")
    assert out(words.then(Told()), batch_size=4) == [rows, ("W", 8), last]


@pytest.mark.parametrize("time", [2**62, 2**63 - 1, 2**80, -(2**63), -(2**80)])
def test_times_beyond_those_of_the_engine_fail_nothing(time: int) -> None:
    for max_jump in (None, timedelta(days=1), timedelta.max):
        words = timed([("a", time), ("b", 1)], max_jump=max_jump, out_of_orderness=timedelta.max)
        assert [pair for pair in out(words.then(Told())) if pair[0] != "W"] == [
            ("a", time),
            ("b", 1),
        ]


class Fails(Told):
    """Gives a record at a watermark, and fails behind it."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Fails("first")


class _Fails(_Told):
    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        yield [("first", watermark_us)]
        raise ValueError("cannot")


def test_what_fails_in_front_is_told_of_its_operator() -> None:
    words = source(Function(lambda: iter([("a", 5), ("b", 5), Watermark(7), ("c", 8)]), rate=1))
    with pytest.raises(engine.OperatorError, match="ValueError: cannot") as caught:
        out(words.then(Fails()).with_event_time(1).then(Told()))
    assert caught.value.operator == "fails"


def thread_of_source() -> Iterator[Any]:
    yield (threading.current_thread().name, 1)


class Never(SourceOperator[Any]):
    """A source that always has its next record."""

    properties = Properties(never_waits=True)

    def open(self, context: TaskContext) -> Iterator[Any]:
        return thread_of_source()


def test_a_source_has_a_thread_only_where_it_may_wait_in_front_of_timers() -> None:
    def thread(words: Stream[Any]) -> str:
        ((name, _),) = run(words.sink(Collect()))["collect"]
        return str(name)

    assert thread(source(Function(thread_of_source)).with_event_time(1)) == "oka-source"
    assert thread(source(Function(thread_of_source))) != "oka-source"
    assert thread(source(Never()).with_event_time(1)) != "oka-source"


@pytest.mark.parametrize("columns", [False, True])
def test_time_goes_on_in_batches_of_months(columns: bool) -> None:
    """Of hourly records, more than a day is between those that are looked at."""
    hours = [{"ts": hour * 3_600_000_000} for hour in range(30_000)]
    rows = pa.RecordBatch.from_pylist(hours)
    batches = [rows.slice(start, 10_000) for start in range(0, 30_000, 10_000)]
    words = source(Function(lambda: iter(batches if columns else [hours]), rate=10_000))
    told = out(words.with_event_time("ts").then(Told()), batch_size=10_000)
    watermarks = [each[1] // 3_600_000_000 for each in told if isinstance(each, tuple)]
    assert len(watermarks) == 2
    for at, watermark in enumerate(watermarks, 1):
        assert at * 10_000 - 200 <= watermark < at * 10_000
