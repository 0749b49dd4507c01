"""Watermarks that are made of the times in records, on their way through jobs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from time import time as now
from typing import Any

import pyarrow as pa
import pytest

import engine
from engine.testing import run
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
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.watermarks import SECOND, TellsWatermarks, Told, bursts, out, timed

pytestmark = pytest.mark.usefixtures("nothing_left")


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
    assert out(bursts(records, [("d", 8)]).with_event_time(1).then(Told())) == [
        *records,
        ("W", 8),
        ("d", 8),
    ]


def test_in_a_long_batch_the_last_record_counts_and_some_before_it() -> None:
    records = [("a", time) for time in range(1000)]
    words = bursts(records, [("a", 1000)]).with_event_time(1).then(Told())
    assert out(words)[-2] == ("W", 998)
    records[500] = ("a", 5000)  # which is not looked at
    assert out(words)[-2] == ("W", 998)
    records[999 - 63] = ("a", 5000)
    assert out(words)[-2] == ("W", 4999)


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


class _Beside(TellsWatermarks):
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


class Fails(Told):
    """Gives a record at a watermark, and fails behind it."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Fails("first")


class _Fails(TellsWatermarks):
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
    starts = range(0, 30_000, 10_000)
    batches = [rows.slice(at, 10_000) if columns else hours[at : at + 10_000] for at in starts]
    told = out(bursts(*batches).with_event_time("ts").then(Told()), batch_size=10_000)
    watermarks = [each[1] // 3_600_000_000 for each in told if isinstance(each, tuple)]
    assert len(watermarks) == 2
    for at, watermark in enumerate(watermarks, 1):
        assert at * 10_000 - 200 <= watermark < at * 10_000
