"""Joins whose function runs in Rust: with every kind, as with the function itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from engine.config import JobConfig, Native
from engine.errors import OperatorError
from engine.job import JobHandle
from engine.plan import Plan
from engine.report.statistics import OperatorSummary
from engine.testing.threads import ThreadLauncher
from operators import KeyedStream, Session, Sliding, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.halves import Halves, run_half, run_rest
from tests.unit.operators.joins.test_crossings import DISORDER, SECOND, rows_of

Row = dict[str, Any]

KINDS: dict[str, Callable[..., Stream[Any]]] = {
    "interval": lambda left, right, function, how: left.interval_join(
        right, function, between=(-4 * SECOND, 6 * SECOND), how=how
    ),
    "tumbling": lambda left, right, function, how: left.window_join(
        right, Tumbling(20 * SECOND), function, how=how
    ),
    "sliding": lambda left, right, function, how: left.window_join(
        right, Sliding(20 * SECOND, 7 * SECOND), function, how=how
    ),
    "session": lambda left, right, function, how: left.window_join(
        right, Session(3 * SECOND), function, how=how
    ),
    "temporal": lambda left, right, function, how: left.temporal_join(right, function, how=how),
    "unbounded": lambda left, right, function, how: left.join(right, function, how=how),
}
HOWS = {"temporal": ("inner", "left"), "unbounded": ("inner",)}
joins = pytest.mark.parametrize(
    ("kind", "how"),
    [(kind, how) for kind in KINDS for how in HOWS.get(kind, ("inner", "left", "full"))],
)


def numbers(left: Any, right: Any) -> Any:
    return {"left": left["n"] if left else None, "right": right["n"] if right else None}


def merged(left: Any, right: Any) -> Any:
    return {**(left or {}), "other": right}


def partners(left: Any, right: Any) -> Any:
    return left, right


def some_give_up(left: Any, right: Any) -> Any:
    """It is understood, and gives up on integers of more than 64 bits."""
    return (left["n"] - 1060 if left else 0) ** 11, right["n"] if right else 0


def unknown(left: Any, right: Any) -> Any:
    return repr((left, right)).upper().translate({})


FUNCTIONS = {each.__name__: each for each in (numbers, merged, partners, some_give_up, unknown)}
IN_RUST = ("numbers", "merged", "partners", "some_give_up")


def stream_of(
    kind: str, how: str, function: Any, sides: Any, time: Any = "at", key: Any = "id"
) -> Stream[Any]:
    keyed = (
        (each if isinstance(each, Stream) else source(Collection(each)).with_parallelism(1))
        .with_event_time(time, unit="s", out_of_orderness=DISORDER * SECOND)
        .key_by(key)
        for each in sides
    )
    return KINDS[kind](*keyed, function, how).named("joined")


def done(
    streams: Any, native: Native, **settings: Any
) -> tuple[dict[str, Counter[str]], OperatorSummary]:
    """What each sink has got, and the figures of the join."""
    config = JobConfig.of({"progress": "none", "native": native, "batch_size": 20, **settings})
    result = JobHandle(Plan.of(streams, config), ThreadLauncher()).wait_finished()
    (join,) = (each for each in result.statistics.operators if each.name == "joined")
    return {name: Counter(map(repr, given)) for name, given in result.outputs.items()}, join


@pytest.fixture
def sides() -> list[list[Row]]:
    return [rows_of(side, ["a", "b", None, 7, ("c", 1.0)], DISORDER) for side in (1, 2)]


@joins
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_of_the_function(
    kind: str, how: str, function: str, sides: list[list[Row]]
) -> None:
    """With the records without a partner and the late ones in side outputs, or without."""
    for has_sides in (False, True):
        results = []
        for native in ("off", "auto", "check"):
            joined = stream_of(kind, how, FUNCTIONS[function], sides)
            sinks = [joined.sink(Collect())]
            if has_sides:
                names = ("late", "left") if kind == "temporal" else ("late", "left", "right")
                sinks += [joined.side(name).sink(Collect()).named(name) for name in names]
            found, join = done(sinks, native, parallelism=2)
            results.append(found)
            assert found["collect"]
            if function in IN_RUST and native != "off":
                assert join.native == join.records_in
                gives_up = function == "some_give_up"
                assert (join.fallbacks > 0) == gives_up, join.first_fallback
            else:
                assert join.native == 0
        assert results[0] == results[1] == results[2]


@joins
@pytest.mark.table(2)
@pytest.mark.parametrize(("first", "then"), [("auto", "off"), ("off", "auto"), ("auto", "auto")])
@pytest.mark.parametrize("function", ["numbers", "some_give_up"])
def test_a_job_goes_on_in_the_other_way(
    kind: str, how: str, first: Native, then: Native, function: str, tmp_path: Path
) -> None:
    sides = [rows_of(side, ["a", "b", None], 0) for side in (1, 2)]

    def pipeline(given: list[Any]) -> Any:
        streams = [source(each) for each in given]
        return stream_of(kind, how, FUNCTIONS[function], streams).sink(Collect())

    expected, _ = done(stream_of(kind, how, FUNCTIONS[function], sides).sink(Collect()), "off")
    halves = [Halves(rows, 60) for rows in sides]
    built = pipeline(halves)
    run_half(built, tmp_path, *halves, native=first, parallelism=1)
    rest = run_rest(built, tmp_path, native=then, parallelism=3)
    assert Counter(map(repr, rest["collect"])) == expected["collect"]


def moment(row: Row) -> datetime:
    return datetime.fromtimestamp(row["at"], timezone.utc)


TIMES: dict[str, tuple[Callable[[Row], Row], Any]] = {
    "integers": (lambda row: row, "at"),
    "floats": (lambda row: {**row, "at": float(row["at"])}, "at"),
    "datetimes": (lambda row: {**row, "at": moment(row)}, "at"),
    "a function": (lambda row: {**row, "times": [row["at"]]}, lambda row: row["times"][0]),
    "one that is not understood": (
        lambda row: {**row, "text": str(row["at"])},
        lambda row: float(Decimal(row["text"])),
    ),
}
KEYS: dict[str, Callable[[Row], Any]] = {
    "a function": lambda row: (row["id"], 1),
    "Decimal": lambda row: None if row["id"] is None else Decimal(ord(row["id"])),
    "NaN": lambda row: math.nan if row["id"] is None else row["id"],
    "complex": lambda row: None if row["id"] is None else complex(1, ord(row["id"])),
}


@joins
@pytest.mark.table(2)
@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("key", [None, *KEYS])
def test_times_and_keys_of_every_kind(kind: str, how: str, times: str, key: str | None) -> None:
    change, time = TIMES[times]
    sides = [[change(row) for row in rows_of(side, ["a", "b", None], DISORDER)] for side in (1, 2)]
    of = "id" if key is None else KEYS[key]
    found = []
    for native in get_args(Native):
        if native != "require":
            stream = stream_of(kind, how, numbers, sides, time, of)
            results, join = done(stream.sink(Collect()), native, parallelism=3)
            found.append(results)
            assert native == "off" or join.native > 0
    assert all(each == found[0] for each in found)


@joins
@pytest.mark.table(2)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("columns", ["all", "every second batch"])
def test_columns_are_records_for_a_function(
    kind: str, how: str, side: int, columns: str, sides: list[list[Row]]
) -> None:
    sides = [rows_of(number, ["a", "b", None], 0) for number in (1, 2)]
    batches = []
    for at, first in enumerate(range(0, len(sides[side]), 10)):
        rows = sides[side][first : first + 10]
        is_list = columns != "all" and at % 2
        batches.append(rows if is_list else pa.RecordBatch.from_pylist(rows))

    def given() -> list[Any]:
        mixed: Any = source(Function(lambda: iter(batches))).with_parallelism(1)
        return [mixed if at == side else rows for at, rows in enumerate(sides)]

    expected, _ = done(stream_of(kind, how, numbers, sides).sink(Collect()), "off")
    for native in ("off", "auto", "check"):
        found, _ = done(stream_of(kind, how, numbers, given()).sink(Collect()), native)
        assert found == expected


BAD: list[tuple[Row, str]] = [
    ({"id": "a", "at": "noon", "n": 1}, "the time of the record is 'noon'"),
    ({"id": "a", "n": 1}, "at"),
    ({"id": ["a"], "at": 30, "n": 1}, "not hashable"),
    ({"id": "a", "at": 30, "n": "x"}, "can only concatenate"),
    ({"id": "a", "at": 1 << 60, "n": 1}, "146,000 years"),
]


@joins
@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_fails_says_the_same_in_both_ways(kind: str, how: str, number: int) -> None:
    def total(left: Any, right: Any) -> Any:
        return (left["n"] if left else 0) + (right["n"] if right else 0)

    bad, message = BAD[number]
    told = []
    for native in ("off", "auto"):
        sides = [rows_of(side, ["a"], 0)[:40] for side in (1, 2)]
        sides[0].insert(25, bad)
        if kind == "unbounded" and "at" in bad and bad["at"] == 1 << 60:
            # It keeps records for ever, and does not look at their times.
            found, _ = done(stream_of(kind, how, total, sides).sink(Collect()), native)
            told.append(str(found))
            continue
        with pytest.raises(OperatorError, match=message) as caught:
            done(stream_of(kind, how, total, sides).sink(Collect()), native, batch_size=5)
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_a_state_is_left_in_the_middle() -> None:
    """A batch that is not read in Rust makes objects of all that has come, and nothing is lost."""
    hour = timedelta(hours=1)
    key = {"a": "a", "b": Odd("b")}
    sides = [rows_of(side, ["a", "b"], 0) for side in (1, 2)]
    for rows in sides:
        for at, row in enumerate(rows):
            row["id"] = key[row["id"]] if at > 60 else "a"
    found = []
    for native in ("off", "auto"):
        streams = [
            source(Collection(rows))
            .with_parallelism(1)
            .with_event_time("at", unit="s")
            .with_pickle()
            for rows in sides
        ]
        keyed: list[KeyedStream[Any, Any]] = [each.key_by("id") for each in streams]
        joined = keyed[0].interval_join(keyed[1], numbers, between=(-hour, hour)).named("joined")
        results, join = done(joined.sink(Collect()), native)
        found.append(results)
        assert join.fallbacks == (native == "auto")
    assert found[0] == found[1]


class Odd:
    """A key of which bytes tell nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Odd({self.name!r})"
