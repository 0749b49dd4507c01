"""Cases of Bytewax's windowing tests (bytewax/bytewax, pytests/operators/windowing, Apache-2.0).

Here are the 26 tests of its sliding windower, four of its session windower, and of its operators
three folds (tumbling, sliding, session), collect, count, max, min and reduce: 38. The others of
these files do not apply: three say that a pause of exactly the gap ends no session, which it does
here unless sessions are inclusive (`test_kinds`); six are of its own data structures, one of the
clock of the machine, and one is a benchmark. test_event_clock.py is of a clock that the machine's
drives, test_join_window.py of joins.

Times are seconds behind the origin that windows are aligned to. Bytewax's clock says after each
record that what follows is not earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from operators import (
    Count,
    First,
    Last,
    Session,
    Sliding,
    Stream,
    Tumbling,
    WindowedStream,
    source,
)
from operators.sources import Collection
from tests.windowing import Tasks

ORIGIN = datetime(2023, 3, 16, 9, tzinfo=timezone.utc)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def windows_of(assigner: Any) -> WindowedStream[Any, Any]:
    """Of (key, datetime, value)."""
    return source(Collection([])).with_event_time(1).key_by(0).window(assigner)


COLUMNS = ("key", "time", "value")


def results_of(assigner: Any, records: list[tuple[str, float, Any]], waits: bool = False) -> Any:
    """The key, the values and the start of each window, in order; and the values that came late.

    In Rust, windows of records and of columns have the same number of records, and the same first
    and last.
    """
    windows = windows_of(assigner)
    results, late = given(windows.collect(), records, waits)
    results = [(key, [value for *_, value in had], start) for key, had, start in results]
    native = windows.aggregate(n=Count(), first=First(2), last=Last(2))
    keyed = source(Collection([])).with_event_time("time").key_by("key")
    of_columns = keyed.window(assigner).aggregate(
        n=Count(), first=First("value"), last=Last("value")
    )
    ends = [
        (key, {"n": len(had), "first": had[0], "last": had[-1]}, start)
        for key, had, start in results
    ]
    assert given(native, records, waits) == (ends, late)
    assert given(of_columns, records, waits, COLUMNS) == (ends, late)
    return results, [value for *_, value in late]


def given(
    stream: Stream[Any],
    records: list[tuple[str, float, Any]],
    waits: bool,
    columns: Sequence[str] = (),
) -> Any:
    """The key, the result and the start of each window, in order; and the late records."""
    tasks = Tasks(stream, columns=columns)
    found, highest = [], 0.0
    for key, time, value in records:
        found += tasks.take([(key, ORIGIN + seconds(time), value)])  # type: ignore[list-item]
        highest = max(highest, time)
        if not waits:
            found += tasks.take([(ORIGIN + seconds(highest) - EPOCH) // timedelta(0, 0, 1) - 1])
    found += tasks.end()
    results = [
        (key, value, (start - ORIGIN).total_seconds())
        for part in found
        for key, value, start, _ in part
    ]
    return results, tasks.late


INTERSECTIONS = [  # length, offset, time, numbers of the windows that have it
    *((10, 5, 13, [1, 2]), (10, 5, -3, [-2, -1]), (10, 5, 3, [-1, 0]), (10, 5, 7, [0, 1])),
    *((10, 5, 15, [2, 3]), (10, 5, -5, [-2, -1]), (10, 5, 0, [-1, 0]), (10, 5, 10, [1, 2])),
    *((10, 3, 11, [1, 2, 3]), (10, 3, 11.5, [1, 2, 3]), (10, 3, -1, [-3, -2, -1])),
    *((10, 3, -1.5, [-3, -2, -1]), (10, 3, 5, [-1, 0, 1]), (10, 7, 14, [1, 2])),
    *((10, 7, -7, [-2, -1]), (10, 7, 0, [-1, 0]), (10, 7, 17, [2]), (10, 7, -4, [-1])),
    *((10, 7, 10, [1]), (10, 10, 15, [1]), (10, 10, -5, [-1]), (10, 10, 5, [0])),
    *((10, 10, 20, [2]), (10, 10, -10, [-1]), (10, 10, 0, [0]), (10, 10, 10, [1])),
]


@pytest.mark.parametrize(("length", "offset", "time", "numbers"), INTERSECTIONS)
def test_sliding_windower(length: int, offset: int, time: float, numbers: list[int]) -> None:
    assigner = Sliding(seconds(length), seconds(offset), ORIGIN - EPOCH)
    results, _ = results_of(assigner, [("ALL", time, "a")])
    assert [start for *_, start in results] == [offset * number for number in numbers]
    if length == offset:
        tumbling = Tumbling(seconds(length), ORIGIN - EPOCH)
        assert results_of(tumbling, [("ALL", time, "a")]) == (results, [])


@pytest.mark.parametrize(
    ("times", "start", "end"),
    [([0], 0, 0), ([0, 5], 0, 5), ([0, -5], -5, 0), ([0, 10 - 1e-6, 5], 0, 10 - 1e-6)],
)
def test_session_windower(times: list[float], start: float, end: float) -> None:
    tasks = Tasks(windows_of(Session(seconds(10))).collect())
    records: Any = [("ALL", ORIGIN + seconds(time), None) for time in times]
    (((_, collected, first, last),),) = tasks.take(records) + tasks.end()
    assert len(collected) == len(times)
    assert (first, last) == (ORIGIN + seconds(start), ORIGIN + seconds(end + 10))


@pytest.mark.parametrize(
    ("assigner", "records", "expected", "late"),
    [
        (
            Tumbling(seconds(10)),
            [(0, "login"), (4, "post"), (8, "post"), (16, "post")],
            [(["login", "post", "post"], 0), (["post"], 10)],
            [],
        ),
        (
            Session(seconds(5)),
            [(1, "a"), (5, "b"), (11, "c"), (12, "d"), (13, "e"), (14, "f"), (20, "g"), (1, "h")],
            [(["a", "b"], 1), (["c", "d", "e", "f"], 11), (["g"], 20)],
            ["h"],
        ),
        (
            Sliding(seconds(10), seconds(5)),
            [(1, "a"), (4, "b"), (8, "c"), (12, "d"), (13, "e"), (14, "f"), (16, "g"), (1, "h")],
            [
                *((["a", "b"], -5), (["a", "b", "c"], 0), (["c", "d", "e", "f"], 5)),
                *((["d", "e", "f", "g"], 10), (["g"], 15)),
            ],
            ["h"],
        ),
    ],
)
def test_fold_window(assigner: Any, records: Any, expected: Any, late: Any) -> None:
    came = [("ALL", time, value) for time, value in records]
    assert results_of(assigner, came) == ([("ALL", *each) for each in expected], late)


def test_collect_window() -> None:
    records = [("ALL", time, value) for time, value in ((0, 1), (8, 3), (4, 2), (13, 5), (12, 4))]
    results, late = results_of(Tumbling(seconds(10)), records, waits=True)
    # Bytewax sorts what it collects by time; here it stays in the order of arrival.
    assert results == [("ALL", [1, 3, 2], 0), ("ALL", [5, 4], 10)]
    assert late == []


def test_count_window() -> None:
    records = [("a", 0, 1), ("a", 4, 1), ("b", 8, 1), ("a", 12, 1), ("a", 13, 1)]
    results, _ = results_of(Tumbling(seconds(10)), records)
    counts = [(key, len(values), start) for key, values, start in results]
    assert counts == [("a", 2, 0), ("b", 1, 0), ("a", 2, 10)]


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        (max, [1, 9, 3, 10, 4], [9, 10]),
        (min, [1, 9, 3, 10, 4], [1, 4]),
        (lambda a, b: a + b, [1, 1, 1, 1, 1], [3, 2]),
    ],
)
def test_max_min_and_reduce_window(function: Any, values: list[int], expected: list[int]) -> None:
    records: Any = [
        ("a", ORIGIN + seconds(time), value)
        for time, value in zip((0, 4, 8, 12, 13), values, strict=True)
    ]
    reduced = windows_of(Tumbling(seconds(10))).reduce(lambda a, b: (*a[:2], function(a[2], b[2])))
    tasks = Tasks(reduced)
    results = tasks.take(records) + tasks.end()
    assert [value for given in results for _, (*_, value), _, _ in given] == expected
