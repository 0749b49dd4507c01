"""Patterns: declarations, the order of events, time, errors, and what is kept."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import engine.testing
from engine.errors import GraphError, OperatorError
from engine.graph.context import TaskContext
from engine.state import KeyedState
from operators import source
from operators.patterns import (
    FollowedBy,
    FollowedByAny,
    Next,
    NotFollowedBy,
    NotNext,
    SkipToFirst,
    Stage,
    Then,
)
from operators.sinks import Collect
from operators.sources import Collection
from tests.patterns import flat, matches, search
from tests.windowing import Event, Tasks, us

NAN = float("nan")


def is_(number: int) -> Any:
    return lambda event: event[2] == number


AB = Then(Stage("a", is_(1)), FollowedBy("b", is_(2)))
ANY_AB = Then(Stage("a", is_(1)), FollowedByAny("b", is_(2)))
NOT_B = Then(Stage("a", is_(1)), NotFollowedBy("b", is_(2)))
NOT_NEXT_B = Then(Stage("a", is_(1)), NotNext("b", is_(2)))


def given(tasks: Tasks, events: list[Event], batch_size: int = 3) -> list[Any]:
    """The times of the events of each match, per batch and watermark that gave any."""
    return [
        [tuple(event[1] for _, event in flat(match)) for match in batch]
        for batch in tasks.take(events, batch_size)
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stage(""), "got the name ''"),
        (lambda: Stage(3), "got the name 3"),  # type: ignore[arg-type]
        (lambda: Stage("a", 3), "expected a function"),  # type: ignore[arg-type]
        (lambda: Stage("a", lambda: True), "expected a function of 1 argument"),
        (lambda: Stage("a", lambda a, b, c: True), "expected a function of 1 argument"),
        (lambda: Stage("a", times=0), "got times=0"),
        (lambda: Stage("a", times=True), "got times=True"),
        (lambda: Stage("a", times=(2, 1)), r"got times=\(2, 1\)"),
        (lambda: Stage("a", times=(0, 0)), r"got times=\(0, 0\)"),
        (lambda: Stage("a", times="3"), "got times='3'"),  # type: ignore[arg-type]
        (lambda: Stage("a", contiguity="strict"), "contiguity='strict'"),  # type: ignore[arg-type]
        (lambda: Stage("a", until=is_(1)), "expected a repetition"),
        (lambda: Stage("a", greedy=True), "expected several lengths"),
        (lambda: NotNext("a", times=2), "expected a name and a condition"),
        (lambda: Then(is_(1)), "expected stages"),
        (lambda: Then(Stage("a"), Next("a")), "'a' twice"),
        (lambda: Then(NotNext("a")), "begins with not_next"),
        (lambda: Then(Stage("a", optional=True)), "may all be left out"),
        (lambda: Then(Stage("a"), Next("b", times=(0, 1)), NotNext("c")), "may be left out"),
        (lambda: Then(Stage("a", times=(1, None), greedy=True)), "ends with the greedy stage"),
        (lambda: matches(is_(1)), "expected a Then"),
        (lambda: matches(NOT_B), "expected within="),
        (lambda: matches(AB, within=5), "within is 5"),
        (lambda: matches(AB, within=timedelta(0)), "expected more than 0"),
        (lambda: matches(AB, after_match="skip"), "after_match='skip'"),
        (lambda: matches(AB, after_match=SkipToFirst("c")), "a stage that has events: a, b"),
        (lambda: matches(AB, emit="now"), "emit='now'"),
        (lambda: matches(AB, max_matches=0), "max_matches"),
        (lambda: matches(AB, on_error="no"), "on_error"),
        (lambda: source(Collection([])).key_by(0).pattern(AB), "needs the time of each record"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


def test_events_come_in_the_order_of_time_when_the_watermark_has_come_to_them() -> None:
    events: list[Event] = [("k", 5, 2), ("k", 9, 2), ("k", 3, 1), 4, ("k", 4, 1), 5, 20]
    tasks = Tasks(matches(AB))
    assert given(tasks, events) == [[(3, 5)]]
    assert tasks.late == [("k", 4, 1)]


def test_events_of_one_time_come_in_the_order_of_arrival() -> None:
    events: list[Event] = [("k", 5, 2), ("k", 5, 1), ("k", 5, 2), 5]
    assert given(Tasks(matches(AB)), events) == [[(5, 5)]]


def test_at_once_events_come_in_the_order_of_arrival() -> None:
    tasks = Tasks(matches(AB, emit="updates"))
    assert given(tasks, [("k", 9, 1), ("k", 3, 2)], 1) == [[(9, 3)]]
    assert given(tasks, [10, ("k", 10, 1), ("k", 12, 1), ("k", 13, 2)]) == [[(12, 13)]]
    assert tasks.late == [("k", 10, 1)]


@pytest.mark.parametrize("emit", ["final", "updates"])
def test_events_of_a_match_are_less_than_within_from_its_first(emit: Any) -> None:
    events: list[Event] = [("k", 0, 1), ("k", 1, 1), ("k", 10, 2), ("k", 11, 2), 30]
    assert given(Tasks(matches(ANY_AB, emit=emit, within=us(10))), events, 9) == [[(1, 10)]]


@pytest.mark.parametrize("emit", ["final", "updates"])
def test_the_watermark_proves_that_an_event_did_not_follow(emit: Any) -> None:
    tasks = Tasks(matches(NOT_B, emit=emit, within=us(10)))
    assert given(tasks, [("k", 0, 1), ("j", 1, 1), ("j", 10, 2), ("i", 3, 1), 8]) == []
    assert given(tasks, [9]) == [[(0,)]]
    assert given(tasks, [11]) == []
    assert given(tasks, [12]) == [[(3,)]]
    assert tasks.snapshot()[0] == KeyedState.of([])


def test_an_event_that_must_not_be_next_is_looked_for_in_the_next_alone() -> None:
    events: list[Event] = [("k", 0, 1), ("k", 1, 2), ("j", 2, 1), ("j", 3, 3), ("i", 4, 1), 5]
    tasks = Tasks(matches(NOT_NEXT_B))
    assert given(tasks, events) == [[(2,)]]
    assert [flat(match) for match in tasks.end()[0]] == [(("a", ("i", 4, 1)),)]


def test_without_events_nothing_comes() -> None:
    for emit in ("final", "updates"):
        tasks = Tasks(matches(NOT_B, emit=emit, within=us(1)))
        assert given(tasks, [5]) == []
        assert tasks.end() == []
        assert tasks.snapshot()[0] == KeyedState.of([])


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "b"],
        [1, 2],
        [None, 0],
        [NAN, 1.5],
        [("x", NAN), ("x", 1)],
        [b"x", "x"],
        [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=timezone.utc)],
    ],
    ids=str,
)
@pytest.mark.parametrize("emit", ["final", "updates"])
def test_keys_of_all_kinds(keys: list[Any], emit: Any) -> None:
    """Each has its own matches, also behind a snapshot, where keys are other objects."""
    tasks = Tasks(matches(AB, emit=emit), 2)
    assert given(tasks, [(key, 1, 1) for key in keys]) == []
    tasks = Tasks(matches(AB, emit=emit), 3, tasks.snapshot())
    found = given(tasks, [(key, 2, 2) for key in [*keys, "other"]] + [2])
    assert [each for batch in found for each in batch] == [(1, 2)] * len(keys)


@pytest.mark.parametrize("key", [[1], {}, {1}])
def test_a_key_that_is_not_hashable_fails_the_job(key: Any) -> None:
    events = [(key, 1, 1)]
    stream = source(Collection(events)).with_event_time(1).key_by(0).pattern(AB)
    with pytest.raises(OperatorError, match="not hashable"):
        engine.testing.run(stream.sink(Collect()))


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
@pytest.mark.parametrize("after_match", ["no_skip", "skip_to_next", "skip_past_last_event"])
def test_a_job_finds_what_a_task_finds(parallelism: int, after_match: Any) -> None:
    events = [(f"k{n % 7}", n, n * n % 5) for n in range(200)]
    pattern = Then(Stage("a", is_(1), times=(1, 3)), FollowedBy("b", is_(4)))
    timed = source(Collection(events)).with_event_time(1)
    found = timed.key_by(0).pattern(pattern, within=us(60), after_match=after_match)
    alone = Tasks(matches(pattern, within=us(60), after_match=after_match))
    wanted = [each for batch in alone.take([*events, 400], 200) for each in batch]
    assert wanted
    results = engine.testing.run(found.sink(Collect()), parallelism=parallelism)["collect"]
    assert sorted(map(flat, results)) == sorted(map(flat, wanted))


def test_a_key_from_a_function_and_a_time_from_another_place() -> None:
    events = [{"at": 2.5, "n": 2}, {"at": 1.5, "n": 1}, {"at": 99, "n": 2}]
    pattern = Then(Stage("a", lambda e: e["n"] == 1), Next("b", lambda e: e["n"] == 2))
    keyed = source(Collection(events)).key_by(lambda _: "k")
    found = keyed.pattern(pattern, time="at", unit="s", within=timedelta(seconds=9))
    results = engine.testing.run(found.sink(Collect()))["collect"]
    assert results == [{"a": [events[1]], "b": [events[0]]}]


def test_the_rows_of_columns_are_events() -> None:
    rows = pa.record_batch({"key": ["k", "l"], "time": [1, 2]})
    stream = source(Collection([rows])).with_event_time("time").key_by("key")
    found = engine.testing.run(stream.pattern(Then(Stage("a"))).sink(Collect()))["collect"]
    assert found == [{"a": [row]} for row in rows.to_pylist()]


def failing(event: Any) -> bool:
    if event[2] == 7:
        raise ValueError("seven")
    return bool(event[2] == 1)


@pytest.mark.parametrize("emit", ["final", "updates"])
def test_a_record_that_fails_changes_nothing(emit: Any) -> None:
    pattern = Then(Stage("a", failing), Next("b", is_(2)))
    events = [("k", 1, 1), ("k", 2, 7), ("k", None, 1), ("k", 3, 2)]
    keyed = source(Collection(events)).key_by(0)
    found = keyed.pattern(pattern, time=1, emit=emit, on_error="side")
    sinks = [
        found.sink(Collect()).named("found"),
        found.side("errors").sink(Collect()).named("errors"),
    ]
    results = engine.testing.run(sinks)
    assert results["found"] == [{"a": [("k", 1, 1)], "b": [("k", 3, 2)]}]
    assert [record for record, _ in results["errors"]] == [("k", None, 1), ("k", 2, 7)]


def test_a_condition_that_fails_is_told_with_its_record() -> None:
    stream = source(Collection([("k", 1, 7)])).with_event_time(1).key_by(0)
    with pytest.raises(OperatorError, match="seven") as failed:
        engine.testing.run(stream.pattern(Then(Stage("a", failing))).sink(Collect()))
    assert "('k', 1, 7)" in str(failed.value)


def test_a_condition_fails_only_where_a_match_asks_it() -> None:
    pattern = Then(Stage("a", is_(2)), FollowedBy("b", failing))
    tasks = Tasks(matches(pattern))
    assert given(tasks, [("k", 1, 7), ("k", 2, 2), ("k", 3, 1), ("k", 4, 7), 9]) == [[(2, 3)]]
    with pytest.raises(ValueError, match="seven"):
        given(tasks, [("k", 10, 2), ("k", 11, 7), 19])


def test_events_that_concern_no_stage_do_not_wait() -> None:
    function = matches(AB).inputs[0].source.operator.open(TaskContext("t", 0, 1, 100, "job"))
    function.process([("k", 3, 3), ("l", 2, 3), ("k", 1, 1), ("k", 2, 9)])
    assert [key for key, _ in function.snapshot().items()] == ["k"]


@pytest.mark.parametrize(
    ("stages", "waits"),
    [
        ([FollowedBy("b", is_(2), times=(1, None)), FollowedBy("d", is_(5))], False),
        ([FollowedBy("b", is_(2), optional=True), FollowedBy("d", is_(5))], False),
        ([FollowedBy("b", is_(2), (1, 3)), NotFollowedBy("c", is_(4)), Stage("d", is_(5))], False),
        ([FollowedByAny("b", is_(2), times=(2, None)), FollowedByAny("d", is_(5))], False),
        ([FollowedBy("b", is_(2), (1, None), contiguity="next"), Stage("d", is_(5))], True),
        ([FollowedBy("b", is_(2), times=(1, None)), Next("d", is_(5))], True),
        ([FollowedBy("b", is_(2), times=(1, None)), Stage("d", lambda e: e[2] != 9)], True),
    ],
)
def test_events_may_be_missed_in_a_repetition(stages: list[Stage], waits: bool) -> None:
    pattern = Then(Stage("a", is_(1)), *stages)
    stream: Any = matches(pattern)
    function = stream.inputs[0].source.operator.open(TaskContext("t", 0, 1, 100, "job"))
    function.process([("l", 2, 3), ("k", 1, 1)])
    assert {key for key, _ in function.snapshot().items()} == ({"k", "l"} if waits else {"k"})
    kinds = [1, 3, 2, 3, 3, 2, 4, 3, 2, 3, 5, 1, 2, 3, 2, 2, 5, 3]
    events = [("k", at, kind) for at, kind in enumerate(kinds)]
    wanted = search(pattern, events, None)
    batches: Any = Tasks(stream).take([*events, 99])
    found = [flat(each) for batch in batches for each in batch]
    assert Counter(map(repr, found)) == Counter(map(repr, wanted))
    assert found


def test_a_key_with_too_many_matches_fails_the_job() -> None:
    events = [("k", n, 1) for n in range(200)]
    stream = source(Collection(events)).with_event_time(1).key_by(0)
    with pytest.raises(OperatorError, match="under way for the key 'k', expected at most max_mat"):
        engine.testing.run(stream.pattern(AB, max_matches=100).sink(Collect()))
    with pytest.raises(OperatorError, match="expected at most max_matches=9"):
        engine.testing.run(stream.pattern(AB, max_matches=9).sink(Collect()))
    kept = stream.pattern(AB, max_matches=100, within=us(50))
    assert engine.testing.run(kept.sink(Collect()))["collect"] == []


def test_matches_that_cannot_become_complete_leave_nothing() -> None:
    tasks = Tasks(matches(AB, within=us(10)))
    events = [(f"k{n}", n, 1) for n in range(100)]
    assert given(tasks, [*events, 99]) == []
    assert tasks.functions[0].metrics() == {"partial_matches": 9}
    assert given(tasks, [200]) == []
    assert tasks.functions[0].metrics() == {"partial_matches": 0}
    assert tasks.snapshot()[0] == KeyedState.of([])


def test_a_snapshot_has_each_event_once() -> None:
    """A thousand matches that end alike differ in one event each."""
    pattern = Then(Stage("a"), FollowedByAny("b"), Next("c", is_(-1)))
    tasks = Tasks(matches(pattern))
    events: list[Event] = [("k", n, 10**12 + n) for n in range(60)]
    tasks.take([*events, 100])
    (state,) = tasks.snapshot()
    assert tasks.functions[0].metrics()["partial_matches"] == 60 + 59  # waiting for b, and for c
    ((_, kept),) = state.items()
    assert len(kept[2]) == 60


@pytest.mark.parametrize("emit", ["final", "updates"])
@pytest.mark.parametrize("until", [1, 2, 3])
def test_late_records_are_late_behind_a_restore_too(emit: Any, until: int) -> None:
    tasks = Tasks(matches(AB, emit=emit))
    tasks.take([("k", 50, 1), 20])
    tasks = Tasks(matches(AB, emit=emit), until, tasks.snapshot())
    tasks.take([("k", 20, 1)])
    assert tasks.late == [("k", 20, 1)]
    assert given(tasks, [("k", 60, 2), 60]) == [[(50, 60)]]


def test_the_stages_are_in_the_meaning_of_the_state() -> None:
    first, second = (matches(each).inputs[0].source.operator.properties for each in (AB, ANY_AB))
    assert first.meaning != second.meaning
    assert first.meaning["stages"] == [
        "followed_by 'a': 1 to 1",
        "followed_by 'b': 1 to 1",
    ]
