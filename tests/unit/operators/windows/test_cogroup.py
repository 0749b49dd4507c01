"""`cogroup`: what a function of both sides gets, of each key and window."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from engine.errors import GraphError
from engine.testing import run
from operators import Session, Sliding, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection

SECOND = timedelta(seconds=1)
LEFT = [("a", 1), ("a", 5), ("b", 2), ("a", 12), ("c", 31)]
RIGHT = [("a", 3), ("b", 14), ("d", 2), ("a", 4)]


def both(key: Any, lefts: list[Any], rights: list[Any], start: Any, end: Any) -> Any:
    return sorted(lefts), sorted(rights)


def timed(records: list[Any], unit: Any = "s") -> Stream[Any]:
    return source(Collection(records)).with_parallelism(1).with_event_time(1, unit=unit)


def results(stream: Stream[Any], parallelism: int = 1) -> list[Any]:
    return sorted(run(stream.sink(Collect()), parallelism=parallelism)["collect"])


def expected(size: int, slide: int) -> list[Any]:
    found = []
    for key in "abcd":
        for start in range(-size, 50, slide):
            sides = [
                sorted(row for row in rows if row[0] == key and start <= row[1] < start + size)
                for rows in (LEFT, RIGHT)
            ]
            if any(sides):
                found.append((key, tuple(sides), start, start + size))
    return sorted(found)


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("with_function", [False, True])
@pytest.mark.parametrize(("size", "slide"), [(10, 10), (10, 5)])
def test_windows(size: int, slide: int, with_function: bool, parallelism: int) -> None:
    key: Any = (lambda row: row[0]) if with_function else 0
    left, right = timed(LEFT).key_by(key), timed(RIGHT).key_by(0)
    assigner = Tumbling(size * SECOND) if size == slide else Sliding(size * SECOND, slide * SECOND)
    assert results(left.cogroup(right, assigner, both), parallelism) == expected(size, slide)


def test_sessions_are_of_both_sides() -> None:
    left, right = timed([("a", 1), ("a", 9)]).key_by(0), timed([("a", 5)]).key_by(0)
    found = results(left.cogroup(right, Session(5 * SECOND), both))
    assert found == [("a", ([("a", 1), ("a", 9)], [("a", 5)]), 1, 14)]


def test_times_of_two_units_are_microseconds() -> None:
    left, right = timed([("a", 1)]).key_by(0), timed([("a", 2000)], "ms").key_by(0)
    found = results(left.cogroup(right, Tumbling(10 * SECOND), both))
    assert found == [("a", ([("a", 1)], [("a", 2000)]), 0, 10_000_000)]


def test_times_keep_their_form() -> None:
    at = datetime(2026, 1, 1, 0, 0, 3, tzinfo=timezone.utc)
    left, right = timed([("a", at)]).key_by(0), timed([]).key_by(0)
    ((key, value, start, _),) = results(left.cogroup(right, Tumbling(10 * SECOND), both))
    assert (key, value, start) == ("a", ([("a", at)], []), at.replace(second=0))


def test_late_records_tell_their_side() -> None:
    left = timed([("a", 1), ("a", 50), ("a", 2)]).key_by(0)
    right = timed([("a", 60)]).key_by(0)
    found = left.cogroup(right, Tumbling(10 * SECOND), both)
    sinks = [found.sink(Collect()).named("out"), found.side("late").sink(Collect()).named("late")]
    late = run(sinks, parallelism=1, batch_size=1)["late"]
    assert late in ([], [("left", "a", ("a", 2))])  # as far as the watermark of both had come


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda k: k.cogroup(5, Tumbling(SECOND), both), "expected a keyed stream"),
        (lambda k: k.cogroup(k, Tumbling(SECOND), lambda key, rows: rows), "5"),
        (lambda k: k.cogroup(k, 5, both), "cogroup|window"),
    ],
)
def test_wrong_uses_are_told(wrong: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        wrong(timed(LEFT).key_by(0))
