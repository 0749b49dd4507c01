"""Values in Python of windows that Rust decides: what is read, what is kept, what fails."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pytest

from engine.errors import GraphError
from engine.graph.context import TaskContext
from engine.network import EncodeError
from engine.state import KeyedState
from operators import CountWindow, Session, Sliding, Tumbling, source
from operators.sources import Collection
from tests.windowing import Tasks, us, windowed

TEN = Tumbling(us(10))
NAIVE = datetime(1970, 1, 1)
KEPT: dict[str, tuple[Any, Any, list[Any]]] = {
    "tumbling": (
        TEN,
        (3, [(0, 0, [1]), (10, NAIVE, [2])]),
        [("a", [1], 0, 10), ("a", [2], NAIVE + us(10), NAIVE + us(20))],
    ),
    "sliding": (
        Sliding(us(10), us(5)),
        (None, [(0, 0, [1]), (5, 0.0, [2])]),
        [("a", [1], -5, 5), ("a", [1, 2], 0, 10), ("a", [2], 5.0, 15.0)],
    ),
    "session": (
        Session(us(5)),
        (3, [(0, 7, 0, [1, 2]), (12, 17, 0.0, [3])]),
        [("a", [1, 2], 0, 7), ("a", [3], 12.0, 17.0)],
    ),
    "count": (CountWindow(4, 2), (5, [(2, [3, 4, 5]), (4, [5])]), []),
    "count, none open": (CountWindow(4), (8, []), []),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_a_savepoint_has_of_a_key_is_kept_so_and_read_so(kind: str) -> None:
    assigner, kept, results = KEPT[kind]
    collected = windowed(assigner).collect()
    tasks = Tasks(collected, 1, [KeyedState.of([("a", kept)])])
    (state,) = tasks.snapshot()
    assert list(state.items()) == [("a", kept)]
    assert [row for given in tasks.end() for row in given] == (
        results or [("a", values, start, kept[0]) for start, values in kept[1]]
    )


def test_each_window_has_the_form_of_its_first_time() -> None:
    east, west = (timezone(timedelta(hours=hours)) for hours in (9, -8))
    at = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    records: Any = [("a", at.astimezone(east), 0), ("b", at.astimezone(west), 1), ("c", 5.0, 2)]
    tasks = Tasks(windowed(Session(us(10))).collect())
    found = [row for given in tasks.take(records, 9) + tasks.end() for row in given]
    zones = {key: getattr(start, "tzinfo", type(start)) for key, _, start, _ in found}
    assert zones == {"a": east, "b": west, "c": float}
    tasks.take(records, 9)
    anew = Tasks(windowed(Session(us(10))).collect(), 1, tasks.snapshot())
    assert anew.snapshot() == tasks.snapshot()


class Named(NamedTuple):
    key: str
    time: int


@dataclass
class Fields:
    key: str
    time: int


RECORDS: list[tuple[Any, Any, Any]] = [
    (0, 1, ("a", 7)),
    (0, 1, ["a", 7]),
    (0, 1, Named("a", 7)),
    ("key", "time", Named("a", 7)),
    ("key", "time", Fields("a", 7)),
    ("key", "time", {"key": "a", "time": 7}),
    ("key", "time", OrderedDict(key="a", time=7)),
    (lambda record: "a", 1, {1: 7}),
    (lambda record: "a", 0, bytes([7])),
    (lambda record: "a", None, 7),
    (lambda record: "a", lambda record: record + 2, 5),
]


@pytest.mark.parametrize(("key", "time", "record"), RECORDS)
@pytest.mark.parametrize("assigner", [TEN, Session(us(3))])
def test_keys_and_times_are_found_in_records_of_all_kinds(
    key: Any, time: Any, record: Any, assigner: Any
) -> None:
    keyed = source(Collection([])).with_event_time(time).key_by(key)
    operator: Any = keyed.window(assigner).collect().inputs[0].source.operator
    given = ("a", record) if callable(key) else record
    for rescue in (None, refuse):
        task = operator.open(TaskContext("t", 0, 1, 1000, "job", rescue=rescue))
        assert task.process([given, given]) == []
        ((found,),) = task.on_end()
        start, end = (0, 10) if assigner is TEN else (7, 10)
        assert found == ("a", [record, record], start, end)


def refuse(record: Any, error: BaseException) -> None:
    raise error


class Odd:
    """A key that equals what is odd, as only Python knows."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and self.number % 2 == other.number % 2

    def __hash__(self) -> int:
        return self.number % 2


@pytest.mark.parametrize("assigner", [TEN, Session(us(10)), CountWindow(9)])
def test_keys_that_cannot_be_encoded_are_as_a_dict_tells_them_apart(assigner: Any) -> None:
    task = Tasks(windowed(assigner).collect()).functions[0]
    records = [(Odd(number), number, number) for number in range(5)]
    assert task.process(records) == []
    found = [row[1] for batch in task.on_end() for row in batch]
    assert sorted([record[2] for record in records] for records in found) == [[0, 2, 4], [1, 3]]


@pytest.mark.parametrize("assigner", [TEN, Session(us(10)), CountWindow(9)])
@pytest.mark.parametrize("numbers", list(permutations([1, Decimal(1), np.int64(1), 1.0])))
def test_numbers_of_all_kinds_that_are_equal_are_one_key(assigner: Any, numbers: Any) -> None:
    for keys in (numbers, [("a", number) for number in numbers]):
        tasks = Tasks(windowed(assigner).collect())
        tasks.take([(key, 1, at) for at, key in enumerate(keys)], 9)
        anew = Tasks(windowed(assigner).collect(), 1, tasks.snapshot())
        anew.take([(key, 1, at + 4) for at, key in enumerate(keys)], 9)
        ((_, records, *_),) = (row for given in anew.end() for row in given)
        assert [record[2] for record in records] == list(range(8))


@pytest.mark.parametrize("keys", [[math.nan, float("nan"), Decimal("NaN")], [(0, math.nan)] * 3])
def test_what_is_no_number_is_one_key(keys: list[Any]) -> None:
    task = Tasks(windowed(TEN).collect()).functions[0]
    task.process([(key, 1, 0) for key in keys])
    assert [len(row[1]) for batch in task.on_end() for row in batch] == [3]


def test_many_keys_are_told_apart() -> None:
    def key(number: int) -> Any:
        return (number, str(number), str(number).encode(), (number, "a"), Decimal(number))[
            number % 5
        ]

    tasks = Tasks(windowed(TEN).reduce(lambda before, record: (*before[:2], before[2] + record[2])))
    for _ in range(3):
        tasks.take([(key(number), 1, number) for number in range(20_000)], 9)
    found = {row[0]: row[1][2] for given in tasks.end() for row in given}
    assert found == {key(number): number * 3 for number in range(20_000)}


class Refused:
    """A key that cannot be compared."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise self.error

    error: Exception = LookupError("not comparable")


class RefusedByType(Refused):
    error = TypeError("not comparable")


@pytest.mark.parametrize(("kind", "error"), [(Refused, LookupError), (RefusedByType, TypeError)])
def test_a_key_that_cannot_be_compared_is_told(kind: Any, error: type[Exception]) -> None:
    task = Tasks(windowed(TEN).collect()).functions[0]
    with pytest.raises(error):
        task.process([(kind(), 1, 0), (kind(), 1, 1)])


@pytest.mark.parametrize("assigner", [TEN, Session(us(10)), CountWindow(9, 3)])
def test_a_record_that_fails_leaves_all_as_it_was(assigner: Any) -> None:
    def add(before: Any, record: Any) -> Any:
        if record[2] == 7:
            raise ValueError(7)
        return (*before[:2], before[2] + record[2])

    refused: list[Any] = []
    operator: Any = windowed(assigner).reduce(add).inputs[0].source.operator
    rescue = lambda record, error: refused.append((record, str(error)))  # noqa: E731
    tasks = [
        operator.open(TaskContext("t", 0, 1, 1000, "job", rescue=each)) for each in (None, rescue)
    ]
    records = [("ab"[at % 2], at // 4, at) for at in range(16)]
    plain, rescued = tasks
    plain.process([record for record in records if record[2] != 7])
    rescued.process(records)
    assert refused == [(("b", 1, 7), "7")]
    assert list(plain.on_end()) == list(rescued.on_end())


@pytest.mark.parametrize("assigner", [TEN, Session(us(10)), CountWindow(9)])
def test_a_value_that_cannot_be_kept_is_told_with_its_key(assigner: Any) -> None:
    task = Tasks(windowed(assigner).apply(lambda *_: 0)).functions[0]
    task.process([("the key", 1, object())])
    with pytest.raises(EncodeError, match="the key"):
        task.snapshot()


def test_windows_are_no_longer_than_times_can_be_apart() -> None:
    keyed = source(Collection([])).with_event_time(1).key_by(0)
    with pytest.raises(GraphError, match="expected at most 36,000 years"):
        keyed.window(Tumbling(timedelta.max)).collect()
    with pytest.raises(GraphError, match="expected at most 36,000 years"):
        keyed.window_join(keyed, Session(timedelta.max))


@pytest.mark.parametrize("time", [10**30, 1e300, -1e300, 2**62 + 2000])
def test_times_that_are_too_far_from_each_other_are_refused(time: Any) -> None:
    tasks = Tasks(windowed(TEN).collect())
    tasks.take([("a", 5, 0)])
    with pytest.raises(ValueError, match=r"146,000 years|too far from 1970"):
        tasks.take([("a", time, 1)])
