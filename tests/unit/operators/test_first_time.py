"""The first times that come: one far ahead ends no window, and a wrong unit is told at once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from engine.config import JobConfig
from engine.job import JobHandle
from engine.plan import Plan
from engine.report.result import JobResult
from engine.testing import run
from engine.testing.threads import ThreadLauncher
from operators import Stream, Tumbling, source
from operators.event_time.fitting import fitting_unit
from operators.event_time.highest_time import wall_clock_us
from operators.sinks import Collect
from operators.sources import Collection

pytestmark = pytest.mark.usefixtures("nothing_left")

SECOND = timedelta(seconds=1)
NOW_S = wall_clock_us() // 10**6
SCALES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def records(kind: str, times: list[Any]) -> Stream[Any]:
    """A key and these times, a batch each."""
    if kind == "records":
        return source(Collection([{"key": "a", "at": time} for time in times]))
    rows = pa.RecordBatch.from_pylist([{"key": "a", "at": time} for time in times])
    return source(Collection([rows.slice(at, 1) for at in range(len(rows))]))


def result(stream: Stream[Any], **settings: Any) -> JobResult:
    config = JobConfig(progress="none", **{"batch_size": 1, **settings})
    handle = JobHandle(Plan.of(stream.sink(Collect()), config), ThreadLauncher())
    try:
        return handle.wait_finished()
    finally:
        handle.cancel()
        handle.wait_stopped()


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("ahead", [timedelta(days=2), timedelta(days=2000)])
@pytest.mark.parametrize("kind", ["records", "columns"])
def test_a_first_record_far_ahead_makes_no_others_late(
    kind: str, ahead: timedelta, parallelism: int
) -> None:
    start = datetime(2020, 1, 1, tzinfo=timezone.utc)
    times = [start + ahead, *(start + second * SECOND for second in range(40))]
    timed = records(kind, times).with_parallelism(1).with_event_time("at")
    counts = timed.rebalance().key_by("key").window(Tumbling(10 * SECOND)).count()
    found = result(counts, parallelism=parallelism)
    assert [operator.late for operator in found.statistics.operators if operator.late] == []
    rows = [
        row for each in found.output for row in (each.to_pylist() if kind == "columns" else [each])
    ]
    assert sorted(row["count"] if kind == "columns" else row[1] for row in rows) == [1, *[10] * 4]
    assert found.statistics.disbelieved_times == 1


@pytest.mark.parametrize("kind", ["records", "columns"])
def test_the_only_record_of_a_stream_counts(kind: str) -> None:
    timed = records(kind, [NOW_S]).with_event_time("at", unit="s")
    (row,) = run(timed.key_by("key").window(Tumbling(SECOND)).count().sink(Collect()))["collect"]
    assert (row[1] if kind == "records" else row["count"][0].as_py()) == 1


@pytest.mark.parametrize("said", SCALES)
@pytest.mark.parametrize("true", SCALES)
@pytest.mark.parametrize("number", [int, float])
@pytest.mark.parametrize("kind", ["records", "columns"])
def test_a_wrong_unit_is_told_with_the_one_that_fits(
    kind: str, number: Any, true: Any, said: Any, caplog: pytest.LogCaptureFixture
) -> None:
    times = [number((NOW_S - 60 + second) * SCALES[true]) for second in range(3)]
    with caplog.at_level(logging.WARNING, "oka"):
        result(records(kind, times).with_event_time("at", unit=said))
    told = [each.getMessage() for each in caplog.records if each.name == "oka"]
    if true == said:
        assert told == []
    else:
        (line,) = told
        assert repr(times[0])[:40] in line
        assert line.endswith(f"hint: .with_event_time(..., unit={true!r})")


WITH_A_TIME: dict[str, Callable[[Any, Any, Any], Any]] = {
    "window": lambda keyed, time, unit: keyed.window(
        Tumbling(SECOND), time=time, unit=unit
    ).count(),
    "window in Python": lambda keyed, time, unit: keyed.window(
        Tumbling(SECOND), time=time, unit=unit
    ).reduce(lambda a, _: a),
    "interval_join": lambda keyed, time, unit: keyed.interval_join(
        keyed, between=(-SECOND, SECOND), time=time, right_time=time, unit=unit
    ),
    "window_join": lambda keyed, time, unit: keyed.window_join(
        keyed, Tumbling(SECOND), time=time, right_time=time, unit=unit
    ),
    "temporal_join": lambda keyed, time, unit: keyed.temporal_join(keyed, time=time, unit=unit),
}


@pytest.mark.parametrize("said", ["ms", "us"])
@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        (operator, kind)
        for operator in WITH_A_TIME
        for kind in ("records", "columns")
        if (operator, kind) != ("window in Python", "columns")  # which takes none
    ],
)
def test_a_wrong_unit_of_an_operator_is_told_once_for_each_input(
    operator: str, kind: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    timed = records(kind, [NOW_S * 1000 + at for at in range(5)]).with_event_time("at", unit="ms")
    joined = WITH_A_TIME[operator](timed.key_by("key"), "at", said)
    with caplog.at_level(logging.WARNING, "oka"):
        run(joined.sink(Collect()))
    told = [each.getMessage() for each in caplog.records if "to count" in each.getMessage()]
    method = operator.split()[0]
    inputs = 2 if method in ("interval_join", "window_join") else 1
    assert len(told) == (0 if said == "ms" else inputs)
    for line in told:
        assert line.startswith(f"{method}() of task ")
        assert line.endswith(f"hint: .{method}(..., unit='ms')")


@pytest.mark.parametrize(
    "times",
    [
        [0, 1, 2],
        [1000, 2000],
        [-5, 3],
        [1.5, 2.5],
        [datetime(1970, 1, 15), datetime(1970, 1, 16)],
        [datetime(2026, 1, 1, tzinfo=timezone.utc)],
    ],
)
@pytest.mark.parametrize("kind", ["records", "columns"])
def test_small_numbers_and_datetimes_say_nothing_of_units(
    kind: str, times: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "oka"):
        for unit in SCALES:
            result(records(kind, times).with_event_time("at", unit=unit))  # type: ignore[arg-type]
    assert caplog.records == []


def test_old_times_fit_as_they_were_said() -> None:
    now = wall_clock_us()
    for year in range(1971, 2026):
        time_us = int(datetime(year, 6, 1, tzinfo=timezone.utc).timestamp()) * 10**6
        assert all(fitting_unit(time_us, unit, now) is None for unit in SCALES)  # type: ignore[arg-type]
