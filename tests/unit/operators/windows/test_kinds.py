"""Windows with gaps, inclusive sessions and calendars, in each form, restored by other tasks."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import engine.testing
from engine.errors import GraphError
from operators import Calendar, CountWindow, Every, Session, Sliding, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.windowing import Event, Tasks, expected, us, windowed

HOUR = 3_600_000_000
CHANGES = {
    "Europe/Berlin": datetime(2026, 3, 29, tzinfo=timezone.utc),
    "America/New_York": datetime(2026, 11, 1, tzinfo=timezone.utc),
    "America/Sao_Paulo": datetime(2018, 11, 4, tzinfo=timezone.utc),  # over midnight
    "Pacific/Apia": datetime(2011, 12, 30, tzinfo=timezone.utc),  # a day that was left out
    "Asia/Kathmandu": datetime(1985, 12, 31, tzinfo=timezone.utc),  # by a quarter of an hour
    "Africa/Casablanca": datetime(2026, 2, 15, tzinfo=timezone.utc),
    "America/St_Johns": datetime(2006, 10, 29, tzinfo=timezone.utc),  # a minute past midnight
    "UTC": datetime(1600, 2, 29, tzinfo=timezone.utc),
}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def run(seed: int, base: int, step: int) -> list[Event]:
    """Records out of order, with watermarks between them, which some come behind."""
    chosen = random.Random(seed)
    events: list[Event] = []
    time = base
    for number in range(80):
        time += chosen.randrange(2 * step)
        events.append((chosen.choice("abc"), time - chosen.randrange(4 * step), number))
        if number % 5 == 4:
            events.append(time - chosen.randrange(3 * step))
    return events


def values(results: list[Any], form: str) -> list[Any]:
    """How many records each result has, and its bounds, in any order."""
    found = [
        (key, value if form != "python" else len(value), start, end)
        for batch in results
        for key, value, start, end in batch
    ]
    return sorted(found, key=repr)


ASSIGNERS: list[tuple[Any, int, int]] = [
    (Sliding(us(10), us(25), us(3)), 0, 6),
    (Sliding(us(1), us(2)), -50, 6),
    (Session(us(12), inclusive=True), 0, 6),
    (Session(us(12)), 0, 6),
    *(
        (Calendar(period, zone), (at - EPOCH) // us(1) - 40 * HOUR, step * HOUR)
        for zone, at in CHANGES.items()
        for period, step in (("day", 1), ("week", 9), ("month", 30), ("quarter", 99), ("year", 300))
        if period == "day" or zone in ("Pacific/Apia", "UTC")
    ),
]


@pytest.mark.table(3)
@pytest.mark.parametrize("form", ["python", "records", "columns"])
@pytest.mark.parametrize("case", ASSIGNERS, ids=lambda case: str(case[0])[:60])
def test_they_give_what_plain_python_makes_of_all_records(case: Any, form: str) -> None:
    assigner, base, step = case
    for seed, late, emit in ((0, 0, "final"), (1, step, "final"), (2, 2 * step, "updates")):
        events = run(seed, base, step)
        windows = windowed(assigner, allowed_lateness=us(late), emit=emit)
        stream = windows.apply(lambda *found: found[1]) if form == "python" else windows.count()
        columns = ("0", "1", "2") if form == "columns" else ()
        if columns:
            timed = source(Collection([])).with_event_time("1").key_by("0")
            windows = timed.window(assigner, allowed_lateness=us(late), emit=emit)  # type: ignore[arg-type]
            stream = windows.count()
        tasks = Tasks(stream, 2, columns=columns)
        results = tasks.take(events[:50])
        missed = tasks.late[:]
        tasks = Tasks(stream, 3, tasks.snapshot(), columns)
        results += tasks.take(events[50:]) + tasks.end()
        wanted = expected(assigner, events, late, emit)
        assert values(results, form) == values(wanted.results, "python")
        assert sorted(missed + tasks.late) == sorted(wanted.late)


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("form", ["python", "records"])
@pytest.mark.parametrize(
    "assigner", [Tumbling(us(9)), Session(us(9)), CountWindow(9), Sliding(us(9), us(4))]
)
def test_what_did_not_change_does_not_come_again_behind_a_restore(
    assigner: Any, form: str, tasks: int
) -> None:
    def stream(emit: Any) -> Any:
        windows = windowed(assigner, emit=emit)
        return windows.apply(lambda *found: found[1]) if form == "python" else windows.count()

    before = Tasks(stream("updates"), 2)
    before.take([("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    again = Tasks(stream("updates"), tasks, before.snapshot())
    (changed,) = again.take([("b", 4, 4)])  # and nothing of "a"
    assert {key for key, *_ in changed} == {"b"}
    assert again.end() == []
    due = Tasks(stream(Every(us(1))), tasks, before.snapshot())  # it may not have come before
    assert {key for results in due.take([None]) for key, *_ in results} == {"a", "b"}


@pytest.mark.parametrize(("inclusive", "wanted"), [(False, [[1], [2]]), (True, [[1, 2]])])
def test_records_a_gap_apart(inclusive: bool, wanted: list[list[int]]) -> None:
    tasks = Tasks(windowed(Session(us(10), inclusive)).apply(lambda *of: [r[2] for r in of[1]]))
    results = tasks.take([("a", 0, 1), 9, ("a", 10, 2), 19, 20])
    assert [value for batch in results for _, value, _, _ in batch] == wanted
    assert results[-1][-1][3] == 20  # the end is the same


def test_windows_of_inclusive_sessions_miss_none_of_them() -> None:
    """Such a session is complete at its end, which is the time of its result."""
    sessions = windowed(Session(us(10), inclusive=True)).count()
    hundreds = sessions.key_by(0).window(Tumbling(us(100))).count()
    (selector,) = {hundreds.inputs[0].source.operator.windowing.time}  # type: ignore[attr-defined]
    assert selector.microseconds(("a", 1, 80, 100)) == 100


def test_records_between_windows_are_not_late() -> None:
    tasks = Tasks(windowed(Sliding(us(10), us(100))).count())
    assert tasks.take([("a", 50, 1), ("a", 9, 1), ("a", 10, 1), 500]) == [[("a", 1, 0, 10)]]
    assert tasks.late == []
    tasks.take([("a", 9, 1), ("a", 50, 1)])
    assert tasks.late == [("a", 9, 1)]


def test_days_in_datetimes_of_their_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    times = [datetime(2026, 3, 28, 23, 59, tzinfo=berlin), datetime(2026, 3, 29, 12, tzinfo=berlin)]
    keyed = source(Collection([("a", each) for each in times])).with_event_time(1).key_by(0)
    days = keyed.window(Calendar("day", "Europe/Berlin")).count()
    results = engine.testing.run(days.sink(Collect()))["collect"]
    midnights = [datetime(2026, 3, day, tzinfo=berlin) for day in (28, 29, 30)]
    assert [each[2:] for each in results] == [tuple(midnights[:2]), tuple(midnights[1:])]
    assert [
        (end.astimezone(timezone.utc) - start.astimezone(timezone.utc)) / timedelta(hours=1)
        for _, _, start, end in results
    ] == [24, 23]


def test_an_open_day_with_every() -> None:
    tasks = Tasks(windowed(Calendar("day"), emit=Every(us(1))).count())
    assert tasks.take([("a", 5, 1), ("a", 6, 1), None]) == [[("a", 2, 0, 24 * HOUR)]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Calendar("days"), "got 'days', expected one of 'day', 'week'"),  # type: ignore[arg-type]
        (lambda: Calendar("day", "Mars/Base"), "zone='Mars/Base'"),
        (lambda: Calendar("day", 2), "zone=2"),  # type: ignore[arg-type]
        (lambda: Calendar("day", ""), "zone=''"),
        (lambda: Calendar("day", "../etc/passwd"), "expected the name of a time zone"),
        (lambda: Session(us(1), 1), "inclusive=1"),  # type: ignore[arg-type]
        (lambda: joined(Sliding(us(1), us(2))), "expected no gaps"),
        (lambda: joined(Calendar("day")), "expected windows"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


def joined(assigner: Any) -> Any:
    left, right = (source(Collection([])).with_event_time(1).key_by(0) for _ in range(2))
    return left.window_join(right, assigner)
