"""What the tasks of `over` keep, and what comes too late for them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.state import KeyedState
from operators import Count, Max, Sum
from tests.rolling import NAMES, RollingTasks, over
from tests.windowing import us


def test_late_records_go_to_their_side() -> None:
    for form in ("records", "columns"):
        stream = over({"n": us(5)}).count()
        tasks = RollingTasks(stream, 2, columns=NAMES if form == "columns" else ())
        found = tasks.take([("a", 5, 0), 4, ("a", 4, 1), ("b", 5, 2), 9, ("b", 9, 3), ("c", 10, 4)])
        found += tasks.end()
        assert sorted(each[0] for given in found for each in given) == [
            ("a", 5, 0),
            ("b", 5, 2),
            ("c", 10, 4),
        ]
        assert sorted(tasks.late) == [("a", 4, 1), ("b", 9, 3)]
        assert sum(function.late for function in tasks.functions) == 2


@pytest.mark.parametrize("form", ["records", "columns"])
def test_keys_out_of_every_span_leave_nothing(form: str) -> None:
    tasks = RollingTasks(over({"n": us(9)}).count(), columns=NAMES if form == "columns" else ())
    tasks.take([(key, key, 0) for key in range(5000)], 100)
    tasks.take([4999])
    assert len(kept(tasks)) == 9
    tasks.take([5008])
    assert kept(tasks) == []
    tasks.take([(key, 5009, 0) for key in range(20)], 7)
    assert len(kept(tasks)) == 20  # which have other numbers now
    (given,) = tasks.take([5009])
    assert sorted(given) == [((key, 5009, 0), {"n": 1}) for key in range(20)] or sorted(given) == [
        ((key, 5009, 0), 1) for key in range(20)
    ]


def kept(tasks: RollingTasks) -> list[Any]:
    return [key for state in tasks.snapshot() for key, _ in state.items()]


def test_state_goes_on_with_the_same_spans_alone() -> None:
    stream = over({"n": us(9)}).aggregate(a=Sum(2), b=Max(2))
    swapped = over({"n": us(9)}).aggregate(b=Max(2), a=Sum(2))
    meanings = [
        each.inputs[0].source.operator.properties.meaning
        for each in (stream, swapped, over({"n": us(8)}).aggregate(a=Sum(2), b=Max(2)))
    ]
    assert meanings[0] == {
        "kind": "over",
        "key": 0,
        "spans": "n=0:00:00.000009",
        "time": 1,
        "unit": "us",
        "emit": "final",
        "value": "a=sum(2), b=max(2)",
    }
    assert len({str(meaning) for meaning in meanings}) == 3


def test_what_is_no_state_is_refused() -> None:
    tasks = RollingTasks(over({"n": us(9)}).count())
    for value in (
        1,
        (1, 2),
        ((None, ((1, 2), ((),), ())), ()),
        ((None, ((), (), ())), 1),
    ):
        with pytest.raises(Exception, match="a state that cannot go on here"):
            tasks.functions[0].restore(KeyedState.of([("a", value)]))


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("emit", ["final", "updates"])
def test_a_count_alone_goes_on(form: str, emit: str) -> None:
    columns = NAMES if form == "columns" else ()
    stream = over({"n": us(100)}, emit=emit).aggregate(a=Count())
    tasks = RollingTasks(stream, 1, columns=columns)
    tasks.take([("a", at, 0) for at in (*range(1, 8), 3)] + [8])
    tasks = RollingTasks(stream, 2, tasks.snapshot(), columns)
    found = [each for given in (*tasks.take([("a", 9, 0)]), *tasks.end()) for each in given]
    assert found == [(("a", 9, 0), {"n": 9})]
