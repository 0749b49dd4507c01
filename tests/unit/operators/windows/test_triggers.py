"""Triggers of windows: what they decide is done, in all windows and for all computations."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import engine
import engine.testing
from engine.config import JobConfig
from engine.errors import GraphError
from engine.plan import Plan
from operators import (
    Accumulator,
    Calendar,
    Count,
    CountTrigger,
    CountWindow,
    Every,
    Max,
    Mean,
    Purging,
    Session,
    Sliding,
    Stream,
    Sum,
    Trigger,
    TriggerWindow,
    Tumbling,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection
from operators.windows.trigger import Decision
from tests.windowing import Tasks, us, windowed

TEN = Tumbling(us(10))


class Answers(Trigger):
    """Answers what the record says, and with "continue" to all else."""

    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        answer: Decision = record[2]
        return answer

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        return "continue"

    def on_merge(self, window: TriggerWindow, other: TriggerWindow) -> None:
        pass


class Idle(Trigger):
    """Fires where no record came for a while, by the clock."""

    def __init__(self, after: timedelta) -> None:
        self.after = after

    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        window.delete_timers()
        window.add_processing_timer(self.after)
        return "continue"

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        return "continue"

    def on_processing_time(self, time: int, window: TriggerWindow) -> Decision:
        return "fire_and_purge"


class Delta(Trigger):
    """Flink's DeltaTrigger: fires if a value is far from that of the last result."""

    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        if abs(record[2] - window.state.setdefault("last", record[2])) < 10:
            return "continue"
        window.state["last"] = record[2]
        return "fire"


def of(trigger: Any, assigner: Any = TEN, **settings: Any) -> Any:
    return windowed(assigner, emit=trigger, **settings)


def ran(stream: Stream[Any], **settings: Any) -> list[Any]:
    found: list[Any] = engine.testing.run(stream.sink(Collect()), **settings)["collect"]
    return found


RECORDS = [
    *(("a", 1, "continue"), ("a", 2, "fire"), ("b", 2, "fire"), ("a", 3, "fire_and_purge")),
    *(("a", 4, "fire"), ("a", 5, "purge"), ("a", 6, "continue"), ("b", 7, "purge")),
]
GIVEN = [("a", [1, 2]), ("b", [2]), ("a", [1, 2, 3]), ("a", [4])]


@pytest.mark.parametrize("restarts", [(), (4,), (1, 2, 3, 5, 6)])
@pytest.mark.parametrize(
    "assigner", [TEN, Session(us(10)), Calendar("day"), Sliding(us(10), us(10))]
)
def test_what_a_trigger_decides_is_done(assigner: Any, restarts: Any) -> None:
    stream = of(Answers(), assigner).apply(lambda key, records, *_: [each[1] for each in records])
    tasks, found = Tasks(stream), []
    for number, record in enumerate(RECORDS):
        if number in restarts:
            tasks = Tasks(stream, 1 + number % 3, tasks.snapshot())
        found += [result for given in tasks.take([record]) for result in given]
    assert [result[:2] for result in found] == GIVEN
    assert tasks.take([10**15]) == []  # "a" still has a record, and its trigger does not give it
    assert all(not state.entries for state in tasks.snapshot())


class Longest(Accumulator[Any, int, int]):
    def create(self) -> int:
        return 0

    def add(self, accumulated: int, record: Any) -> int:
        return max(accumulated, record[2])

    def merge(self, left: int, right: int) -> int:
        return max(left, right)


WAYS: dict[str, tuple[Any, list[Any]]] = {
    "reduce": (lambda w: w.reduce(lambda a, b: (*a[:2], a[2] + b[2])), [("a", 1, 3), ("a", 1, 7)]),
    "collect": (
        lambda w: w.collect(),
        [[("a", 1, 1), ("a", 2, 2)], [("a", 1, 1), ("a", 2, 2), ("a", 3, 4)]],
    ),
    "accumulator": (lambda w: w.aggregate(most=Longest()), [{"most": 2}, {"most": 4}]),
    "count": (lambda w: w.count(), [2, 3]),
    "mean": (lambda w: w.mean(2), [1.5, 7 / 3]),
    "first": (lambda w: w.first(2), [1, 1]),
    "quantiles": (lambda w: w.quantiles(2, [0.5]), [[1.5], [2.0]]),
    "top": (lambda w: w.top(0, 1), [[("a", 2)], [("a", 3)]]),
    "several": (
        lambda w: w.aggregate(n=Count(), sum=Sum(2), most=Max(2), mean=Mean(2)),
        [
            {"n": 2, "sum": 3, "most": 2, "mean": 1.5},
            {"n": 3, "sum": 7, "most": 4, "mean": 7 / 3},
        ],
    ),
    "where": (
        lambda w: w.aggregate(n=Count(where=lambda r: r[2] > 1), sum=Sum(2, where=lambda r: False)),
        [{"n": 1, "sum": None}, {"n": 2, "sum": None}],
    ),
}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_all_computations_go_with_a_trigger(name: str, restarts: bool) -> None:
    compute, wanted = WAYS[name]
    stream = compute(of(CountTrigger(2)))
    tasks, found = Tasks(stream), []
    for event in [("a", 1, 1), ("a", 2, 2), ("a", 3, 4), 100]:
        found += [result for given in tasks.take([event]) for result in given]
        if restarts:
            tasks = Tasks(stream, 2, tasks.snapshot())
    assert found == [("a", value, 0, 10) for value in wanted]


@pytest.mark.parametrize("name", WAYS)
def test_sessions_that_merge_have_the_values_of_both(name: str) -> None:
    compute, (_, wanted) = WAYS[name]
    stream = compute(of(Trigger(), Session(us(3))))
    tasks = Tasks(stream)
    assert tasks.take([("a", 1, 1), ("a", 5, 4)]) == []
    tasks = Tasks(stream, 1, tasks.snapshot())
    assert tasks.take([("a", 3, 2)]) == []
    (((key, value, start, end),),) = tasks.take([100])
    if name == "collect":
        assert sorted(value) == [("a", 1, 1), ("a", 3, 2), ("a", 5, 4)]
    else:
        assert value == wanted
    assert (key, start, end) == ("a", 1, 8)


class Merging(Trigger):
    """Tells what it was called with."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        window.state.setdefault("times", []).append(time)
        window.add_timer(window.start + 1)
        return "continue"

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        self.calls.append((time, window.start, window.end, sorted(window.state["times"])))
        return super().on_event_time(time, window)

    def on_merge(self, window: TriggerWindow, other: TriggerWindow) -> None:
        self.calls.append((window.start, other.start))
        window.state["times"] += other.state["times"]


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_states_of_sessions_merge_and_timers_of_the_later_one_go(
    inclusive: bool, restart: bool
) -> None:
    calls: list[Any] = []
    stream = of(Merging(calls), Session(us(10), inclusive)).count()
    tasks = Tasks(stream)
    tasks.take([("a", 30, 0), ("a", 15, 0), ("b", 100, 0)])
    if restart:
        tasks = Tasks(stream, 1, tasks.snapshot())
    tasks.take([("a", 22, 0), 20])
    assert calls == [(15, 30), (16, 15, 40, [15, 22, 30])]
    assert tasks.take([45]) == [[("a", 3, 15, 40)]]
    assert tasks.take([200]) == [[("b", 1, 100, 110)]]


def test_timers_by_the_clock_come_and_are_replaced() -> None:
    events = [("a", 1, 1), ("a", 2, 2), ("b", 3, 3), ("a", 4, 4)]
    paced = source(Collection(events, rate=1)).with_event_time(1).key_by(0)
    stream = paced.window(TEN, emit=Idle(timedelta(seconds=2.5))).collect()
    ended = ran(stream, clock=engine.testing.VirtualClock(), batch_size=1)
    assert ended == []  # timers by the clock do not come at the end, and it gives nothing else
    later = [*events, *(("c", 5, number) for number in range(6))]
    paced = source(Collection(later, rate=1)).with_event_time(1).key_by(0)
    stream = paced.window(TEN, emit=Idle(timedelta(seconds=2.5))).collect()
    found = ran(stream, clock=engine.testing.VirtualClock(), batch_size=1)
    assert found == [
        ("b", [("b", 3, 3)], 0, 10),
        ("a", [("a", 1, 1), ("a", 2, 2), ("a", 4, 4)], 0, 10),
    ]


def test_timers_go_on_behind_a_restart() -> None:
    stream = of(Idle(timedelta(0))).count()
    tasks = Tasks(stream)
    tasks.take([("a", 1, 1)])
    tasks = Tasks(stream, 2, tasks.snapshot())
    now = max(function.next_timer or 0 for function in tasks.functions)
    given = [rows for each in tasks.functions for rows in each.on_timer(now) or ()]
    assert [row for rows in given for row in rows] == [("a", 1, 0, 10)]


def test_a_window_of_each_kind_of_time_has_that_form() -> None:
    at = datetime(2026, 1, 1, 0, 0, 7, tzinfo=timezone.utc)
    keyed = source(Collection([("a", at, 5), ("a", at, 100)])).key_by(0)
    minute = Tumbling(timedelta(minutes=1))
    found = ran(keyed.window(minute, time=1, emit=Delta()).sum(2))
    start = at.replace(second=0)
    end = start + timedelta(minutes=1)
    assert found == [("a", 105, start, end), ("a", 105, start, end)]
    floats = source(Collection([("a", 1.5, 1)])).key_by(0)
    assert ran(floats.window(minute, time=1, unit="s", emit=CountTrigger(1)).count()) == [
        ("a", 1, 0.0, 60.0)
    ]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("form", ["records", "columns", "function"])
def test_jobs_of_records_and_columns(form: str, parallelism: int) -> None:
    rows = [{"key": f"k{n % 5}", "ts": n, "n": None if n == 7 else n} for n in range(40)]
    if form == "columns":
        keys = pa.array([row["key"] for row in rows]).dictionary_encode()
        times, numbers = pa.array(range(40)), pa.array([row["n"] for row in rows], pa.int64())
        table = pa.RecordBatch.from_arrays([keys, times, numbers], names=["key", "ts", "n"])
        stream: Any = source(Collection([table.slice(0, 17), table.slice(17)]))
    else:
        stream = source(Collection(rows))
    keyed = stream.key_by((lambda row: row["key"]) if form == "function" else "key")
    windows = keyed.window(Tumbling(us(20)), time="ts", emit=Purging(CountTrigger(3)))
    found = ran(windows.count(), parallelism=parallelism)
    wanted = [
        (f"k{k}", n, start, start + 20) for k in range(5) for start in (0, 20) for n in (3, 1)
    ]
    assert sorted(found) == sorted(wanted)


def test_without_a_key() -> None:
    stream = source(Collection([(n,) for n in range(7)])).window(
        Tumbling(us(100)), time=0, emit=CountTrigger(3)
    )
    assert ran(stream.sum(0)) == [(3, 0, 100), (15, 0, 100), (21, 0, 100)]
    assert ran(stream.collect()) == [
        ([(0,), (1,), (2,)], 0, 100),
        ([(n,) for n in range(6)], 0, 100),
        ([(n,) for n in range(7)], 0, 100),
    ]


def test_both_streams_of_cogroup() -> None:
    left = source(Collection([("a", 1), ("a", 2)])).key_by(0)
    right = source(Collection([("a", 3)])).key_by(0)
    grouped = left.cogroup(
        right,
        TEN,
        lambda key, lefts, rights, start, end: (len(lefts), len(rights)),
        time=1,
        right_time=1,
        emit=Purging(Trigger()),
    )
    assert ran(grouped) == [("a", (2, 1), 0, 10)]


class Fails(Trigger):
    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        if record[2] < 0:
            raise ValueError("it is negative")
        answer: Decision = "continue" if record[2] else 0  # type: ignore[assignment]
        return answer

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        if window.key == "late":
            raise ValueError("no timer")
        return super().on_event_time(time, window)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (("a", 2, -1), "it is negative"),
        (("a", 2, 0), r"Fails.on_record\(\) gave 0, expected 'continue', 'fire', 'purge'"),
        (("a", None, 1), "the time of the record is None"),
        (("a", "x", 1), "the time of the record is 'x'"),
        (("a", float("nan"), 1), "the time of the record is nan"),
    ],
)
def test_a_record_that_fails_is_told(record: Any, told: str) -> None:
    records = [("a", 1, 1), record, ("a", 3, 3)]
    windows = source(Collection(records)).key_by(0).window(TEN, time=1, emit=Fails())
    with pytest.raises(engine.OperatorError, match=told) as failed:
        ran(windows.count())
    assert repr(record) in str(failed.value)
    skipped = windows.collect(on_error="skip")
    ((key, value, start, end),) = ran(skipped)
    assert (key, start, end) == ("a", 0, 10)
    kept = record[1] == 2  # it is the trigger that failed, behind the value
    assert value == [records[0], *([record] if kept else []), records[2]]


def test_a_timer_that_fails_is_told() -> None:
    windows = source(Collection([("late", 1, 1)])).key_by(0).window(TEN, time=1, emit=Fails())
    with pytest.raises(engine.OperatorError, match="no timer") as failed:
        ran(windows.count())
    assert "('late', 'end 0', 9)" in str(failed.value)


@pytest.mark.parametrize("compute", ["sum", "min"])
def test_values_that_do_not_suit_a_native_aggregation_are_told(compute: str) -> None:
    records = [("a", 1, 1), ("a", 2, "x"), ("a", 3, 5)]
    windows = source(Collection(records)).key_by(0).window(TEN, time=1, emit=CountTrigger(9))
    with pytest.raises(engine.OperatorError) as failed:
        ran(getattr(windows, compute)(2))
    assert "('a', 2, 'x')" in str(failed.value)
    wanted = {"sum": 6, "min": 1}[compute]
    assert ran(getattr(windows, compute)(2, on_error="skip")) == [("a", wanted, 0, 10)]


def test_late_records_are_counted_and_go_to_their_side() -> None:
    tasks = Tasks(of(CountTrigger(2), allowed_lateness=us(5)).count())
    events = [("a", 1, 0), 12, ("a", 2, 1), ("a", 3, 2), 14, ("a", 4, 3)]
    found = tasks.take(events)
    assert found == [[("a", 1, 0, 10)], [("a", 2, 0, 10)], [("a", 3, 0, 10)]]
    assert tasks.late == [("a", 4, 3)]
    assert tasks.functions[0].late == 1


def test_a_window_that_is_gone_stays_gone_behind_a_restart() -> None:
    stream = of(Trigger()).count()
    tasks = Tasks(stream)
    tasks.take([("a", 1, 0), ("a", 25, 0), 21])
    tasks = Tasks(stream, 2, tasks.snapshot())
    assert tasks.take([("a", 2, 0)]) == []
    assert tasks.late == [("a", 2, 0)]


@pytest.mark.parametrize(
    ("assigner", "emit", "told"),
    [
        (
            TEN,
            CountTrigger,
            r"emit=CountTrigger, expected .*a trigger\n\nhint: emit=CountTrigger\(",
        ),
        (TEN, "count", "expected 'final', 'updates', Every"),
        (CountWindow(3), CountTrigger(2), "CountWindow.* and .*CountTrigger.*expected one of them"),
        (Session(us(1)), Delta(), r"the trigger Delta without on_merge\(\)"),
        (Session(us(1)), Purging(Delta()), r"without on_merge\(\)"),
    ],
)
def test_what_does_not_fit_is_refused(assigner: Any, emit: Any, told: str) -> None:
    with pytest.raises(GraphError, match=r"(?s)" + told):
        windowed(assigner, emit=emit)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_counts_are_positive(wrong: Any) -> None:
    with pytest.raises(GraphError, match="CountTrigger"):
        CountTrigger(wrong)


@pytest.mark.parametrize("wrong", [CountTrigger, Every(us(1)), None, "final"])
def test_only_a_trigger_purges(wrong: Any) -> None:
    with pytest.raises(GraphError, match="Purging"):
        Purging(wrong)


def test_the_plan_tells_the_trigger() -> None:
    counts = windowed(TEN, emit=Purging(CountTrigger(2))).count()
    plan = Plan.of(counts.sink(Collect()), JobConfig())
    assert list(plan.ways.values()) == ["Purging(CountTrigger) in Python"]


def test_what_one_trigger_kept_is_none_of_another() -> None:
    meanings = [
        of(emit).count().inputs[0].source.operator.properties.meaning
        for emit in ("final", Trigger(), CountTrigger(2), Purging(CountTrigger(2)))
    ]
    assert len({repr(each) for each in meanings}) == 4
