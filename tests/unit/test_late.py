"""The warning of many late records: once for an operator and a job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from engine.deployment.description import OperatorStatistics, TaskStatistics
from engine.report.late import LateRecords
from engine.report.statistics import JobStatistics
from engine.testing import run
from operators import Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection


def statistics(*operators: tuple[str, int, int]) -> JobStatistics:
    """Of operators with so many records, of which so many are late, in each of two tasks."""
    made = tuple(OperatorStatistics(name, count, 0, late=late) for name, count, late in operators)
    times = dict.fromkeys(("busy_seconds", "waiting_seconds", "idle_seconds", "blocked_seconds"), 0)
    windows = dict.fromkeys(("source_window", "sink_window", "latency"))
    tasks: list[Any] = [
        TaskStatistics(
            vertex="v", index=index, operators=made, elapsed_seconds=1.0, **times, **windows
        )
        for index in (0, 1)
    ]
    return JobStatistics.of(tasks)


@pytest.mark.parametrize(
    ("late", "least", "told"), [(0, 1, False), (10, 1, False), (11, 1, True), (11, 23, False)]
)
def test_more_than_a_hundredth_is_told(late: int, least: int, told: bool) -> None:
    warned: list[str] = []
    LateRecords(warned.append).look(statistics(("count", 1000, late), ("map", 5, 0)), least)
    assert len(warned) == told
    if told:
        assert warned[0].startswith("operator 'count': 22 of 2,000 records (1.1 %) came too late")
        assert "hint: does with_event_time(…) stand right behind the source" in warned[0]


def test_each_operator_is_told_of_once() -> None:
    warned: list[str] = []
    late = LateRecords(warned.append)
    for _ in range(2):
        late.look(statistics(("count", 10, 5)))
        late.look(statistics(("count", 10, 6), ("join", 10, 3)))
    assert [each.partition(":")[0] for each in warned] == ["operator 'count'", "operator 'join'"]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("behind", "told"), [(0, False), (2, False), (3, True)])
def test_of_a_job(caplog: pytest.LogCaptureFixture, columns: bool, behind: int, told: bool) -> None:
    """Of 200 records and those behind; a window of one second is closed where they come."""
    records = [{"key": "a", "at": at} for at in [*range(200), *range(behind)]]
    stream = source(Collection(records, rate=1000))
    timed = (stream.to_columns() if columns else stream).with_event_time("at", unit="s")
    windows = timed.key_by("key").window(Tumbling(timedelta(seconds=1))).count()
    run(windows.sink(Collect()), batch_size=1)
    text = "records (1.5 %) came too late and were left out"
    assert [each.name for each in caplog.records if text in each.getMessage()] == ["oka"] * told
