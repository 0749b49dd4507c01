"""Times of all kinds, in records and columns; and what is none."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import engine
from engine.testing import run
from operators import Tumbling, source
from operators.event_time import TimeSelector
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.watermarks import Told, bursts, out, timed

pytestmark = pytest.mark.usefixtures("nothing_left")


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
    words = bursts(rows, last)
    for item in ("ts", 1):
        told = out(words.with_event_time(item, unit=unit).then(Told()))
        assert told == [rows, ("W", MICROSECONDS[1] - 1), last]


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


def test_a_row_of_columns_is_no_time_and_a_function_finds_it() -> None:
    rows = pa.RecordBatch.from_pylist([{"ts": 1}])
    stream = source(Collection([rows]))
    with pytest.raises(engine.OperatorError, match=r"time of the record is {'ts': 1} \(dict\)"):
        run(stream.with_event_time(None).sink(Collect()))
    timed = stream.with_event_time(lambda row: row["ts"])
    assert run(timed.sink(Collect()))["collect"] == [rows]


def test_in_a_column_the_highest_that_is_believed_counts() -> None:
    rows = pa.RecordBatch.from_pylist([{"ts": ts} for ts in (1, 9, 2**62, 4)])
    last = rows.slice(3)
    words = bursts(rows, last).with_event_time("ts")
    assert out(words.then(Told())) == [rows, ("W", 8), last]


@pytest.mark.parametrize("time", [datetime.max, datetime.max.replace(tzinfo=timezone.utc)])
def test_a_window_whose_end_is_no_datetime_says_so(time: datetime) -> None:
    """As where a record says by its time that it has none."""
    windows = timed([("a", time)]).key_by(0).window(Tumbling(timedelta(seconds=10)))
    for results in (windows.count(), windows.collect()):
        with pytest.raises(engine.OperatorError, match="the years 1 to 9999\n\nhint: filter out"):
            out(results)


@pytest.mark.parametrize("time", [2**62, 2**63 - 1, 2**80, -(2**63), -(2**80)])
def test_times_beyond_those_of_the_engine_fail_nothing(time: int) -> None:
    for max_jump in (None, timedelta(days=1), timedelta.max):
        words = timed([("a", time), ("b", 1)], max_jump=max_jump, out_of_orderness=timedelta.max)
        assert [pair for pair in out(words.then(Told())) if pair[0] != "W"] == [
            ("a", time),
            ("b", 1),
        ]
