"""What follows windows takes the last instant of a window as the time of its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from engine.config import JobConfig
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import Session, Sliding, Stream, Sum, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection

pytestmark = pytest.mark.usefixtures("nothing_left")

SECOND = timedelta(seconds=1)
RECORDS = [("abc"[n % 3], n // 3) for n in range(300)]
"""Three keys, each with a record in each of 100 seconds."""
UTC = timezone.utc
MOMENT = datetime(2026, 3, 29, tzinfo=UTC)

Times = Callable[[int], Any]
FORMS: dict[str, tuple[Times, Any]] = {
    "seconds": (lambda t: t, "s"),
    "milliseconds": (lambda t: t * 1000, "ms"),
    "microseconds": (lambda t: t * 1_000_000, "us"),
    "floats": (lambda t: t / 1, "s"),
    "datetimes": (lambda t: MOMENT + timedelta(seconds=t), "us"),
}


def tens(kind: str, form: str) -> Stream[Any]:
    """How many records each key has in each ten seconds."""
    time, unit = FORMS[form]
    records = [(key, time(at)) for key, at in RECORDS]
    if kind.startswith("columns"):
        rows = pa.RecordBatch.from_pylist([{"key": key, "at": at} for key, at in records])
        batches = [rows.slice(start, 7) for start in range(0, len(RECORDS), 7)]
        timed = source(Collection(batches)).with_event_time("at", unit=unit)
        counts = timed.key_by("key").window(Tumbling(10 * SECOND)).count()
        return counts.to_records() if kind == "columns to records" else counts
    timed = source(Collection(records)).with_event_time(1, unit=unit)
    keyed = timed.key_by(lambda pair: pair[0]) if kind == "pairs" else timed.key_by(0)
    windows = keyed.window(Tumbling(10 * SECOND))
    if kind == "native" or kind == "pairs":
        return windows.count()
    return windows.apply(lambda key, found, start, end: len(found))


KINDS = ["native", "pairs", "python", "columns", "columns to records"]


def keys(kind: str) -> tuple[Any, Any]:
    """Where the results have their key and their value."""
    return ("key", "count") if kind.startswith("columns") else (0, 1)


def run(stream: Stream[Any], parallelism: int) -> list[Any]:
    """All rows and records that come; none may have come late anywhere."""
    config = JobConfig(progress="none", batch_size=5, parallelism=parallelism)
    handle = JobHandle(Plan.of(stream.sink(Collect()), config), ThreadLauncher())
    try:
        result = handle.wait_finished()
    finally:
        handle.cancel()
        handle.wait_stopped()
    assert [operator.late for operator in result.statistics.operators if operator.late] == []
    return [
        row
        for each in result.output
        for row in (each.to_pylist() if isinstance(each, pa.RecordBatch) else [each])
    ]


def values(rows: Sequence[Any], name: str) -> Counter[tuple[Any, int]]:
    """Of each result its key and value, however often they came."""
    return Counter((row["key"], row[name]) if isinstance(row, dict) else row[:2] for row in rows)


@pytest.mark.table(5)
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_windows_behind_windows(kind: str, form: str, parallelism: int) -> None:
    key, value = keys(kind)
    counts = tens(kind, form).key_by(key).window(Tumbling(30 * SECOND)).sum(value)
    expected = {(each, 30): 3 for each in "abc"} | {(each, 10): 1 for each in "abc"}
    assert values(run(counts, parallelism), "sum") == expected


@pytest.mark.table(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["native", "python", "columns to records"])
def test_windows_in_python_behind_windows(kind: str, form: str) -> None:
    key, value = keys(kind)
    tenth = tens(kind, form).key_by(key)
    sums = tenth.window(Sliding(20 * SECOND, 10 * SECOND)).apply(
        lambda key, found, start, end: sum(each[value] for each in found)
    )
    assert values(run(sums, 2), "value") == {
        **{(each, 20): 9 for each in "abc"},
        **{(each, 10): 2 for each in "abc"},
    }
    visits = tenth.window(Session(11 * SECOND)).apply(lambda key, found, start, end: len(found))
    assert values(run(visits, 2), "value") == {(each, 10): 1 for each in "abc"}


@pytest.mark.parametrize("kind", ["native", "columns"])
def test_sessions_begin_with_the_last_instant(kind: str) -> None:
    key, value = keys(kind)
    sessions = (
        tens(kind, "seconds").key_by(key).window(Session(11 * SECOND)).aggregate(n=Sum(value))
    )
    for row in run(sessions, 2):
        told = tuple(row.values()) if isinstance(row, dict) else (row[0], row[1]["n"], *row[2:])
        assert told[1:] == (100, 9.999999, 110.999999)


@pytest.mark.table(5)
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_joins_behind_windows(kind: str, form: str, parallelism: int) -> None:
    key, _ = keys(kind)
    left, right = (tens(kind, form).key_by(key) for _ in range(2))
    near = left.interval_join(right, between=(-5 * SECOND, 5 * SECOND))
    assert len(run(near, parallelism)) == 30
    within = left.window_join(right, Tumbling(20 * SECOND))
    assert len(run(within, parallelism)) == 3 * 5 * 4
    versions = left.temporal_join(right)
    assert len(run(versions, parallelism)) == 30


@pytest.mark.parametrize("kind", ["native", "columns"])
def test_what_is_said_decides(kind: str) -> None:
    """The first instant of the first window is five seconds in front of the second five."""
    key, value = keys(kind)
    start = "window_start" if kind == "columns" else 2
    tenth = tens(kind, "seconds").key_by(key)
    shifted = Tumbling(10 * SECOND, offset=5 * SECOND)
    late = 10 * SECOND  # so far is the start of a window behind its end, which is told
    for time, first in ((start, -5), (None, 5)):
        windows = (
            tenth.window(shifted, time=time, unit="s", allowed_lateness=late)
            if time
            else tenth.window(shifted)
        )
        rows = run(windows.sum(value), 1)
        starts = {row["window_start"] if isinstance(row, dict) else row[2] for row in rows}
        assert starts == set(range(first, first + 100, 10))
