"""Aggregations of windows in Rust: what the same windows in Python give, whatever comes when."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import GraphError
from engine.columns import is_columns
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.network import AggregateError, Batch
from engine.state import KeyedState
from engine.testing import VirtualClock, run
from operators import (
    Count,
    CountDistinct,
    CountWindow,
    Every,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Quantiles,
    Session,
    Sliding,
    Stream,
    Sum,
    Top,
    Tumbling,
    Watermark,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.part import examples

pytestmark = pytest.mark.usefixtures("nothing_left")

MANY = {
    "n": Count(),
    "s": Sum(1),
    "lo": Min(1),
    "hi": Max(1),
    "m": Mean(1),
    "f": First(1),
    "l": Last(1),
    "d": CountDistinct(1),
    "q": Quantile(1, 0.3),
    "qs": Quantiles(1, [0, 0.99]),
    "t": Top(1, 2),
}


def us(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def many(key: Any, records: list[Any], start: Any, end: Any) -> Any:
    """What `MANY` computes, of the list of a window's records."""
    values = [value for _, value, _ in records]
    return {
        "n": len(values),
        "s": sum(values),
        "lo": min(values),
        "hi": max(values),
        "m": sum(values) / len(values),
        "f": values[0],
        "l": values[-1],
        "d": len(set(values)),
        "q": quantile(values, 0.3),
        "qs": [float(min(values)), quantile(values, 0.99)],
        "t": Counter(values).most_common(2),
    }


def quantile(values: list[Any], share: float) -> float:
    return float(numpy.quantile(values, share))


def operator_of(stream: Stream[Any]) -> BatchOperator:
    (edge,) = stream.inputs
    found = edge.source.operator
    assert isinstance(found, BatchOperator)
    return found


def opened(
    aggregate: Callable[[Any], Stream[Any]], context: TaskContext, *arguments: Any, **settings: Any
) -> BatchFunction:
    """The function of one task."""
    windows = source(Collection([])).with_event_time(2).key_by(0).window(*arguments, **settings)
    return operator_of(aggregate(windows)).open(context)


def native(windows: Any) -> Stream[Any]:
    return windows.aggregate(**MANY)


def python(windows: Any) -> Stream[Any]:
    return windows.apply(many)


def native_sums(windows: Any) -> Stream[Any]:
    """What goes on with the sums of the window before, where windows overlap."""
    return windows.aggregate(n=Count(), s=Sum(1), m=Mean(1))


def python_sums(windows: Any) -> Stream[Any]:
    return windows.apply(
        lambda key, records, start, end: {
            name: value
            for name, value in many(key, records, start, end).items()
            if name in ("n", "s", "m")
        }
    )


of_each_key = st.one_of(
    st.builds(lambda gap: Session(us(gap)), st.integers(1, 20)),
    st.tuples(st.integers(1, 6), st.integers(1, 6)).map(lambda it: CountWindow(max(it), min(it))),
)
assigners = st.one_of(
    of_each_key,
    st.builds(
        lambda size, offset: Tumbling(us(size), us(offset)), st.integers(1, 20), st.integers(-9, 9)
    ),
    st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(-9, 9)).map(
        lambda it: Sliding(us(max(it[:2])), us(min(it[:2])), us(it[2]))
    ),
)
keys = st.sampled_from(["a", "b", "", 1, 2.5, None, math.nan, ("x", 2)])
records = st.tuples(keys, st.integers(-5, 5), st.integers(-60, 60))
far = st.sampled_from([0, -(2**55), 2**55, 1_760_000_000_000_000])
steps = st.lists(records | st.integers(-70, 70) | st.none(), max_size=60)
"""Records, watermarks, and where None is, timers."""


def shown(results: list[Any]) -> list[str]:
    """Comparable, whatever the order: NaN is not equal to itself."""
    return sorted(map(repr, results))


@pytest.mark.table(2)
@pytest.mark.parametrize("emit", ["final", "updates", Every(us(1))])
@pytest.mark.parametrize("kinds", [(native, python), (native_sums, python_sums)])
@settings(max_examples=examples(150), deadline=None)
@given(assigner=assigners, lateness=st.integers(0, 30), steps=steps, far=far)
def test_what_windows_in_python_give(
    kinds: Any, emit: Any, assigner: Any, lateness: int, steps: list[Any], far: int
) -> None:
    lateness = 0 if isinstance(emit, Every) or isinstance(assigner, CountWindow) else lateness
    late: list[list[Any]] = [[], []]
    functions = [
        opened(
            kind,
            TaskContext("t", 0, 1, 3, "job", side_outputs={"late": late[at].extend}),
            assigner,
            allowed_lateness=us(lateness),
            emit=emit,
        )
        for at, kind in enumerate(kinds)
    ]
    in_rust, in_python = functions
    watermark = None
    for step in steps:
        if step is None:
            found = [
                [row for batch in each.on_timer(0) or () for row in batch] for each in functions
            ]
            assert shown(found[0]) == shown(found[1])
        elif isinstance(step, int):
            if watermark is not None and step + far <= watermark:
                continue
            watermark = step + far
            found = [list(each.on_watermark(watermark) or ()) for each in functions]
            assert all(0 < len(batch) <= 3 for batch in found[0])
            flat = [[row for batch in batches for row in batch] for batches in found]
            assert [row[3] for row in flat[0]] == sorted(row[3] for row in flat[0])
            assert shown(flat[0]) == shown(flat[1])
        else:
            record = (*step[:2], step[2] + far)
            assert shown(in_rust.process(Batch.from_list([record]))) == shown(
                in_python.process([record])
            )
    found = [[row for batch in each.on_end() for row in batch] for each in functions]
    assert shown(found[0]) == shown(found[1])
    assert repr(late[0]) == repr(late[1])
    assert in_rust.late == in_python.late == len(late[0])
    assert len(in_rust._aggregate) == 0  # type: ignore[attr-defined]


@settings(max_examples=examples(60), deadline=None)
@given(assigner=assigners, lateness=st.integers(0, 30), steps=steps, cut=st.integers(0, 60))
def test_others_go_on_where_one_was(
    assigner: Any, lateness: int, steps: list[Any], cut: int
) -> None:
    lateness = 0 if isinstance(assigner, CountWindow) else lateness

    def task(states: list[KeyedState], index: int, tasks: int) -> BatchFunction:
        made = opened(
            native,
            TaskContext("t", index, tasks, 100, "job"),
            assigner,
            allowed_lateness=us(lateness),
        )
        if states:
            made.restore(KeyedState.share(states, index, tasks))
        return made

    def take(functions: list[BatchFunction], steps: list[Any]) -> list[Any]:
        found: list[Any] = []
        for step in steps:
            if isinstance(step, int):
                for each in functions:
                    found += (row for batch in each.on_watermark(step) or () for row in batch)
            elif step is not None:
                index = engine.network.partition([step[0]], len(functions))[0]
                found += functions[index].process(Batch.from_list([step]))
        return found

    whole = [task([], 0, 1)]
    first = [task([], index, 2) for index in range(2)]
    expected, found = take(whole, steps[:cut]), take(first, steps[:cut])
    states = [state for each in first if (state := each.snapshot())]
    then = [task(states, index, 3) for index in range(3)]
    again = [state for each in then if (state := each.snapshot())]
    assert sorted(e for s in again for e in s.entries) == sorted(
        e for s in states for e in s.entries
    )
    watermark = max((step for step in steps[:cut] if isinstance(step, int)), default=-100)
    take(then, [watermark])  # what was in front of the cut, of tasks without a key, too
    expected += take(whole, steps[cut:])
    found += take(then, steps[cut:])
    for functions, results in ((whole, expected), (then, found)):
        results += (row for each in functions for batch in each.on_end() for row in batch)
    assert shown(found) == shown(expected)


def drawn(count: int) -> list[Any]:
    """Records of some keys, the times within a minute of order."""
    at = [(row * 7_919 % 1_000, row * 31 % 60) for row in range(count)]
    return [(f"key {draw % 13}", draw, row * 2 + late) for row, (draw, late) in enumerate(at)]


def expected(records: list[Any], size: int, slide: int) -> list[Any]:
    found: dict[Any, list[Any]] = {}
    for record in records:
        key, _, time = record
        for start in range(time - time % slide, time - size, -slide):
            found.setdefault((start, key), []).append(record)
    return [
        (key, many(key, each, 0, 0), start, start + size) for (start, key), each in found.items()
    ]


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize(("size", "slide"), [(60, 60), (60, 25)])
def test_jobs(parallelism: int, batch_size: int, size: int, slide: int) -> None:
    records = drawn(500)
    for row in records[::2]:
        assert abs(row[1]) < 1000
    disorder = timedelta(seconds=60)
    stream = source(Collection(records)).with_event_time(2, unit="s", out_of_orderness=disorder)
    windows = stream.key_by(0).window(Sliding(timedelta(seconds=size), timedelta(seconds=slide)))
    out = run(
        windows.aggregate(**MANY).sink(Collect()), parallelism=parallelism, batch_size=batch_size
    )["collect"]
    wanted = expected(records, size, slide)
    for row in [*out, *wanted]:
        for name in "flt":  # several sources: they depend on who is first
            row[1].pop(name)
    assert shown(out) == shown(wanted)


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize("assigner", [Session(timedelta(seconds=8)), CountWindow(5, 2)])
def test_jobs_over_windows_of_each_key(parallelism: int, batch_size: int, assigner: Any) -> None:
    def given(context: TaskContext) -> Iterator[Any]:
        yield from drawn(500) if context.index == 0 else ()

    disorder = timedelta(seconds=60)
    stream = source(Function(given)).with_event_time(2, unit="s", out_of_orderness=disorder)
    windows = stream.key_by(0).window(assigner)
    found, wanted = (
        run(each.sink(Collect()), parallelism=parallelism, batch_size=batch_size)["collect"]
        for each in (native(windows), python(windows))
    )
    assert len(found) > 100
    assert shown(found) == shown(wanted)


def results(records: list[Any], windows: Callable[[Any], Any], **settings: Any) -> list[Any]:
    stream = source(Collection(records)).with_event_time(1, **settings)
    return list(run(windows(stream).sink(Collect()))["collect"])


UTC, EAST = dt.timezone.utc, dt.timezone(timedelta(hours=5))
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("unit", "time", "start"),
    [
        ("s", 90, 60),
        ("s", 90.5, 60.0),
        ("ms", -1, -60_000),
        ("us", 60_000_000, 60_000_000),
        ("ns", -1, -60_000_000_000),
        ("ns", 60_000_000_000.0, 60e9),
        ("us", dt.datetime(2026, 3, 1, 12, 0, 59), dt.datetime(2026, 3, 1, 12)),
        ("us", dt.datetime(1969, 1, 1, 0, 0, 1, tzinfo=EAST), dt.datetime(1969, 1, 1, tzinfo=EAST)),
        (
            "us",
            dt.datetime(2026, 7, 1, 8, 1, tzinfo=BERLIN),
            dt.datetime(2026, 7, 1, 8, 1, tzinfo=BERLIN),
        ),
    ],
)
def test_times_of_all_kinds(unit: Any, time: Any, start: Any) -> None:
    minute = Tumbling(timedelta(minutes=1))
    ((key, value, found, end),) = results(
        [("a", time)], lambda s: s.key_by(0).window(minute).count(), unit=unit
    )
    assert (key, value, found) == ("a", 1, start)
    assert type(found) is type(end) is type(start)


def test_a_function_gives_the_time_and_the_key() -> None:
    windows = Tumbling(timedelta(seconds=10))
    rows = [("a", "3"), ("b", "12"), ("a", "5")]
    stream = source(Collection(rows)).with_event_time(lambda record: int(record[1]), unit="s")
    for keyed in (stream.key_by(0), stream.key_by(lambda record: record[0])):
        out = run(keyed.window(windows).count().sink(Collect()))["collect"]
        assert out == [("a", 2, 0, 10), ("b", 1, 10, 20)]


def test_keys_and_times_wherever_they_are() -> None:
    tens = Tumbling(timedelta(seconds=10))
    dicts = [{"t": 3, "k": "a", "j": 1, "v": 5}, {"t": 12, "k": "a", "j": 1, "v": 7}]
    stream = source(Collection(dicts)).with_event_time("t", unit="s")
    out = run(stream.key_by("k", "j").window(tens).sum("v").sink(Collect()))["collect"]
    assert out == [(("a", 1), 5, 0, 10), (("a", 1), 7, 10, 20)]
    out = run(stream.key_by(lambda it: it["k"]).window(tens).max("v").sink(Collect()))["collect"]
    assert out == [("a", 5, 0, 10), ("a", 7, 10, 20)]
    numbers = source(Collection([3, 3, 12])).with_event_time(None, unit="s")
    out = run(numbers.key_by().window(tens).count().sink(Collect()))["collect"]
    assert out == [(3, 2, 0, 10), (12, 1, 10, 20)]


FAR_TIMES = [2**62 + 1, 2**64 - 1, 2**64, 10**30, -(2**63) - 1, -(10**30), -1e300]


@pytest.mark.parametrize(
    ("time", "told"),
    [
        (None, "the time of the record is None (NoneType), expected a number of us or a datetime"),
        (math.nan, "the time of the record is nan"),
        (True, "the time of the record is True (bool)"),
        ("soon", "hint: its time is item 2; a function may convert it"),
        *((time, "its time is more than 146,000 years from 1970") for time in FAR_TIMES),
    ],
)
def test_a_record_without_a_time_is_named(task: Any, time: Any, told: str) -> None:
    function = opened(lambda it: it.count(), task(), Tumbling(us(10)))
    with pytest.raises(AggregateError) as caught:
        function.process(Batch.from_list([("a", 1, 5), ("b", 1, time)]))
    assert str(caught.value).startswith(f"record 1 of the batch, ('b', 1, {time!r}")
    assert told in str(caught.value)
    assert "\n\nhint: " in str(caught.value)
    with pytest.raises(AggregateError, match="its time is item 2 of a sequence of 1"):
        function.process(Batch.from_list([("a",)]))
    assert [row for batch in function.on_end() for row in batch] == [("a", 1, 0, 10)]


def test_kinds_that_do_not_mix_within_overlapping_windows(task: Any) -> None:
    function = opened(lambda it: it.max(1), task(), Sliding(us(10), us(5)))
    function.process(Batch.from_list([("a", 1, 1), ("a", "x", 6)]))
    with pytest.raises(AggregateError, match="not of the same kind"):
        list(function.on_end())


def test_every_second_of_the_clock() -> None:
    def given() -> Iterator[Any]:
        for second in range(6):
            yield ("a", 1, second)

    stream = source(Function(given, rate=1)).with_event_time(2, unit="s")
    windows = stream.key_by(0).window(
        Tumbling(timedelta(seconds=3)), emit=Every(timedelta(seconds=2))
    )
    out = run(windows.count().sink(Collect()), clock=VirtualClock(), batch_size=1)["collect"]
    last = {row[2]: row for row in out}
    assert list(last.values()) == [("a", 3, 0, 3), ("a", 3, 3, 6)]
    assert 2 < len(out) < 6
    assert len(out) == len(set(out))


@pytest.mark.parametrize("key", [0, lambda record: record[0]])
@pytest.mark.parametrize("emit", ["final", "updates", Every(us(1))])
def test_late_records_are_counted_and_sent(key: Any, emit: Any) -> None:
    def given() -> Iterator[Any]:
        yield [("a", 1, 15), ("b", 1, 3)]
        yield Watermark(12)
        yield [("a", 2, 4), ("a", 3, 11), ("b", 4, 9)]

    timed = source(Function(given, rate=1)).key_by(key)
    counts = timed.window(Tumbling(us(10)), time=2, emit=emit).sum(1)
    late = counts.side("late").sink(Collect()).named("late")
    pipelines = [counts.sink(Collect()).named("sums"), late]
    out = run(pipelines, clock=VirtualClock(), batch_size=2)
    sums = {(key, start): value for key, value, start, _ in out["sums"]}
    assert sums == {("b", 0): 1, ("a", 10): 4}
    assert emit != "final" or len(out["sums"]) == 2
    assert out["late"] == [("a", 2, 4), ("b", 4, 9)]


def test_every_and_lateness_are_not_both_in_rust() -> None:
    keyed = source(Collection([("a", 5)])).with_event_time(1).key_by(0)
    windows = keyed.window(Tumbling(us(5)), allowed_lateness=us(1), emit=Every(us(5)))
    with pytest.raises(GraphError, match="allowed_lateness, expected one of them"):
        windows.count()


def test_windows_as_long_as_they_can_be() -> None:
    keyed = source(Collection([("a", 5), ("a", -5)])).key_by(0)
    with pytest.raises(GraphError, match="expected at most 36,000 years"):
        keyed.window(Tumbling(timedelta.max), time=1).count()
    longest, offset = timedelta(microseconds=2**60), timedelta.min
    windows = keyed.window(Tumbling(longest, offset), time=1, allowed_lateness=timedelta.max)
    ((key, value, start, end),) = run(windows.count().sink(Collect()))["collect"]
    assert (key, value, end - start) == ("a", 2, 2**60)


def columns_of(records: list[Any], time: pa.DataType, rows: int) -> list[pa.RecordBatch]:
    batches = []
    for at in range(0, len(records), rows):
        words, values, times = zip(*records[at : at + rows], strict=True)
        arrays = [pa.array(words), pa.array(values), pa.array(times, pa.int64()).cast(time)]
        batches.append(pa.RecordBatch.from_arrays(arrays, names=["word", "value", "ts"]))
    return batches


OF_COLUMNS = {
    "n": Count(),
    "s": Sum("value"),
    "lo": Min("value"),
    "hi": Max("value"),
    "m": Mean("value"),
    "f": First("value"),
}
SCALES = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 20, 500])
@pytest.mark.parametrize(("size", "slide"), [(60, 60), (60, 25)])
def test_columns(parallelism: int, rows: int, size: int, slide: int) -> None:
    records = drawn(500)
    disorder = timedelta(seconds=60)
    batches = columns_of(records, pa.int64(), rows)
    stream = source(Collection(batches)).with_event_time("ts", unit="s", out_of_orderness=disorder)
    windows = stream.key_by("word").window(
        Sliding(timedelta(seconds=size), timedelta(seconds=slide))
    )
    out = run(windows.aggregate(**OF_COLUMNS).sink(Collect()), parallelism=parallelism)["collect"]
    found = [
        (row.pop("word"), row, row.pop("window_start"), row.pop("window_end"))
        for row in rows_of(out)
    ]
    found = [(key, of_columns(row), start, end) for key, row, start, end in found]
    wanted = [
        (key, of_columns(row), start, end)
        for key, row, start, end in expected(records, size, slide)
    ]
    assert shown(found) == shown(wanted)


def of_columns(row: dict[str, Any]) -> dict[str, Any]:
    """What is the same whoever is first."""
    return {name: row[name] for name in OF_COLUMNS if name != "f"}


def rows_of(out: list[Any]) -> list[dict[str, Any]]:
    return [row for each in out for row in (each.to_pylist() if is_columns(each) else [each])]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["timestamp", "zoned", "integer", "float"])
def test_times_of_columns(unit: Any, kind: str) -> None:
    scale = SCALES[unit]
    data_type = {
        "timestamp": pa.timestamp(unit),
        "zoned": pa.timestamp(unit, "Europe/Berlin"),
        "integer": pa.int64(),
        "float": pa.float64(),
    }[kind]
    batch = columns_of(
        [("a", 1, -5 * scale), ("a", 2, 30 * scale), ("a", 3, 5 * scale)], data_type, 9
    )
    stream = source(Collection(batch)).with_event_time("ts", unit=unit)
    windows = stream.key_by("word").window(Tumbling(timedelta(seconds=20)))
    out = run(windows.sum("value").sink(Collect()))["collect"]
    table = (
        pa.Table.from_pylist(rows_of(out)) if not is_columns(out[0]) else pa.Table.from_batches(out)
    )
    assert table.schema.field("window_start").type == data_type
    starts = table.column("window_start").cast(pa.int64()).to_pylist()
    assert starts == [-20 * scale, 0, 20 * scale]
    assert table.column("sum").to_pylist() == [1, 3, 2]


def test_late_rows_and_lateness_of_columns() -> None:
    def rows(*records: Any) -> pa.RecordBatch:
        (batch,) = columns_of(list(records), pa.int64(), 100)
        return batch

    def given() -> Iterator[Any]:
        yield rows(("a", 1, 15), ("b", 1, 3))
        yield Watermark(12)
        yield rows(("a", 2, -4), ("a", 3, 11), ("b", 4, 9))
        yield Watermark(20)
        yield rows(("b", 5, 9), ("a", 5, 19))

    keyed = source(Function(given, rate=1)).key_by("word")
    sums = keyed.window(Tumbling(us(10)), time="ts", allowed_lateness=us(5)).sum("value")
    late = sums.side("late").sink(Collect()).named("late")
    out = run([sums.sink(Collect()).named("sums"), late], clock=VirtualClock())
    found = [tuple(row.values()) for row in rows_of(out["sums"])]
    assert found == [("b", 1, 0, 10), ("b", 5, 0, 10), ("a", 4, 10, 20), ("a", 9, 10, 20)]
    assert [tuple(row.values()) for row in rows_of(out["late"])] == [("a", 2, -4), ("b", 5, 9)]


@pytest.mark.parametrize(
    ("time", "told"),
    [
        (pa.array([1, None]), "row 1 of the batch: its time is no number and no datetime"),
        (pa.array([0.5, math.nan]), "row 1 of the batch: its time is no number"),
        (
            pa.array(["a", "b"]),
            "times in a column of type Utf8, expected timestamps, integers",
        ),
    ],
)
def test_rows_without_a_time_are_named(time: pa.Array, told: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), time], names=["word", "ts"])
    keyed = source(Collection([batch])).key_by("word")
    with pytest.raises(engine.OperatorError, match=told):
        run(keyed.window(Tumbling(us(10)), time="ts").count().sink(Collect()))


@pytest.mark.parametrize("time", [2**63 - 1, 2**62 + 1, -(2**62) - 1, -(2**63)])
@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_rows_that_are_too_far_away_are_named(kind: pa.DataType, time: int) -> None:
    (batch,) = columns_of([("a", 1, 5), ("b", 2, time)], kind, 9)
    keyed = source(Collection([batch])).key_by("word")
    told = "row 1 of the batch: its time is more than 146,000 years from 1970\n\nhint: .* unit="
    for windows in (Tumbling(us(10)), Sliding(us(10), us(5)), Session(us(10))):
        with pytest.raises(engine.OperatorError, match=told):
            run(keyed.window(windows, time="ts").count().sink(Collect()))


def test_rows_as_far_away_as_they_can_be() -> None:
    batches = columns_of([("a", 1, 2**62), ("b", 2, -(2**62))], pa.int64(), 9)
    keyed = source(Collection(batches)).key_by("word")
    out = run(keyed.window(Tumbling(us(1)), time="ts").sum("value").sink(Collect()))["collect"]
    found = {(row["word"], row["sum"], row["window_start"]) for row in rows_of(out)}
    assert found == {("a", 1, 2**62), ("b", 2, -(2**62))}
