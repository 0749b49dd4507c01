"""Every join, of records and of columns, with keys, streams and orders of every kind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from engine.testing import VirtualClock, run
from operators import KeyedStream, Session, Sliding, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection, Function

Row = dict[str, Any]
Rows = list[Row]
SECOND = timedelta(seconds=1)
SIZE, SLIDE, GAP, LOW, HIGH = 20, 7, 3, -4, 6
DISORDER = 10
TEXT = "a text that is longer than a view holds in itself: "


def near(left: Rows, right: Rows) -> Iterator[tuple[Rows, Rows]]:
    for one in left:
        found = [other for other in right if LOW <= other["at"] - one["at"] <= HIGH]
        yield [one], found
    for other in right:
        if not any(LOW <= other["at"] - one["at"] <= HIGH for one in left):
            yield [], [other]


def windows(slide: int) -> Callable[[Rows, Rows], Iterator[tuple[Rows, Rows]]]:
    def found(left: Rows, right: Rows) -> Iterator[tuple[Rows, Rows]]:
        times = [row["at"] for row in (*left, *right)]
        first = (min(times) - SIZE) // slide * slide
        for start in range(first, max(times) + 1, slide):
            yield tuple(  # type: ignore[misc]
                [row for row in side if start <= row["at"] < start + SIZE] for side in (left, right)
            )

    return found


def sessions(left: Rows, right: Rows) -> Iterator[tuple[Rows, Rows]]:
    times = sorted({row["at"] for row in (*left, *right)})
    begin = 0
    for at in range(1, len(times) + 1):
        if at == len(times) or times[at] - times[at - 1] >= GAP:
            of = set(times[begin:at])
            begin = at
            yield tuple([row for row in side if row["at"] in of] for side in (left, right))  # type: ignore[misc]


def versions(left: Rows, right: Rows) -> Iterator[tuple[Rows, Rows]]:
    for one in left:
        behind = [other for other in right if other["at"] <= one["at"]]
        yield [one], sorted(behind, key=lambda row: row["at"])[-1:]


KINDS: dict[str, tuple[Any, Any]] = {
    "interval": (
        lambda left, right, how: left.interval_join(
            right, between=(LOW * SECOND, HIGH * SECOND), how=how
        ),
        near,
    ),
    "tumbling": (
        lambda left, right, how: left.window_join(right, Tumbling(SIZE * SECOND), how=how),
        windows(SIZE),
    ),
    "sliding": (
        lambda left, right, how: left.window_join(
            right, Sliding(SIZE * SECOND, SLIDE * SECOND), how=how
        ),
        windows(SLIDE),
    ),
    "session": (
        lambda left, right, how: left.window_join(right, Session(GAP * SECOND), how=how),
        sessions,
    ),
    "temporal": (lambda left, right, how: left.temporal_join(right, how=how), versions),
}
KEYS: dict[str, list[Any]] = {
    "texts": [f"{TEXT}{at}" for at in range(4)],
    "nulls": ["a", None, "b"],
    "integers and nulls": [1, None, 1 << 62, -(1 << 62)],
    "NaN": [0.5, math.nan, None, 7.0, -0.0],
}
TYPES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda column: column,
    "dictionaries": lambda column: column.dictionary_encode(),
    "views": lambda column: column.cast(pa.string_view()) if column.type == pa.string() else column,
}

SCHEMA = pa.schema([("id", pa.string()), ("at", pa.int64()), ("n", pa.int64())])


def rows_of(seed: int, keys: list[Any], disorder: int, count: int = 120) -> Rows:
    """Rows no later than so much, each with a time of its own on its side."""
    chance = random.Random(seed)
    rows = [{"id": chance.choice(keys), "at": at, "n": at + 1000 * seed} for at in range(count)]
    if disorder:
        rows.sort(key=lambda row: row["at"] + chance.randrange(disorder))
    return rows


def expected(kind: str, how: str, left: Rows, right: Rows) -> list[tuple[Any, Any]]:
    """The numbers of the rows of each pair, by a look at all rows of each key."""
    found: list[tuple[Any, Any]] = []
    for key in {plain(row["id"]) for row in (*left, *right)}:
        own = [[row for row in side if plain(row["id"]) == key] for side in (left, right)]
        for lefts, rights in KINDS[kind][1](*own):
            ours = lefts or ([None] if how in ("right", "full") else [])
            others = rights or ([None] if how in ("left", "full") else [])
            if lefts or rights:
                found += product(*([row and row["n"] for row in side] for side in (ours, others)))
    return in_order(found)


def plain(key: Any) -> Any:
    return "NaN" if isinstance(key, float) and math.isnan(key) else key


def in_order(pairs: Any) -> list[tuple[Any, Any]]:
    return sorted(pairs, key=lambda pair: tuple((each is None, each or 0) for each in pair))


def batches(rows: Rows, type_of: Callable[[pa.Array], pa.Array]) -> list[pa.RecordBatch]:
    """Small batches, each with dictionaries of its own."""
    kinds = {type(row["id"]) for row in rows} - {type(None)}
    kind = {str: pa.string(), int: pa.int64(), float: pa.float64()}[kinds.pop()]
    made = []
    for at in range(0, len(rows), 9):
        columns = {name: [row[name] for row in rows[at : at + 9]] for name in ("id", "at", "n")}
        keys = type_of(pa.array(columns.pop("id"), kind, from_pandas=False))
        values = {name: pa.array(each, pa.int64()) for name, each in columns.items()}
        made.append(pa.record_batch({"id": keys, **values}))
    return made


def pairs_of(results: list[Any], columns: bool) -> list[tuple[Any, Any]]:
    if columns:
        rows = (row for batch in results for row in batch.to_pylist())
        return in_order((row.get("n"), row.get("n_right")) for row in rows)
    return in_order(tuple(row and row["n"] for row in pair) for pair in results)


joins = pytest.mark.parametrize(
    ("kind", "how"),
    [
        (kind, how)
        for kind in KINDS
        for how in (("left",) if kind == "temporal" else ("inner", "full"))
    ],
)


def keyed(rows: Rows, columns: bool, types: str = "plain", **time: Any) -> KeyedStream[Any, Any]:
    given: Any = batches(rows, TYPES[types]) if columns else rows
    stream = source(Collection(given)).with_parallelism(1)
    return stream.with_event_time("at", unit="s", **time).key_by("id")


def check(stream: Stream[Any], columns: bool, wanted: Any, **settings: Any) -> None:
    results = run(stream.sink(Collect()), **settings)["collect"]
    assert pairs_of(results, columns) == wanted


@joins
@pytest.mark.table(9)
@pytest.mark.parametrize("disorder", [0, DISORDER])
@pytest.mark.parametrize(
    ("keys", "types"),
    [
        ("texts", "plain"),
        *((keys, None) for keys in KEYS),
        ("texts", "dictionaries"),
        ("nulls", "dictionaries"),
        ("texts", "views"),
        ("nulls", "views"),
    ],
)
def test_keys(kind: str, how: Any, keys: str, types: str | None, disorder: int) -> None:
    """Without types, they are records."""
    left, right = (rows_of(side, KEYS[keys], disorder) for side in (1, 2))
    time = {"out_of_orderness": disorder * SECOND}
    columns = types is not None
    sides = (keyed(rows, columns, types or "plain", **time) for rows in (left, right))
    stream = KINDS[kind][0](*sides, how)
    wanted = expected(kind, how, left, right)
    assert any(None not in pair for pair in wanted)
    check(stream, columns, wanted, parallelism=3, batch_size=20)


@pytest.mark.table(2)
@joins
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("empty", [0, 1])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_side_that_has_no_rows_or_one(
    kind: str, how: Any, columns: bool, empty: int, rows: int
) -> None:
    sides = [rows_of(side, KEYS["texts"], 0) for side in (1, 2)]
    sides[empty] = sides[empty][60 : 60 + rows]
    streams = []
    for each in sides:
        timed = source(Collection(each)).with_parallelism(1)
        timed = timed.to_columns(SCHEMA) if columns else timed
        streams.append(timed.with_event_time("at", unit="s").key_by("id"))
    stream = KINDS[kind][0](*streams, how)
    check(stream, columns, expected(kind, how, *sides), parallelism=2)


@pytest.mark.table(2)
@joins
@pytest.mark.parametrize("columns", [False, True])
def test_an_idle_side_holds_up_nobody_and_is_late_then(kind: str, how: Any, columns: bool) -> None:
    """The left brings a row, none for a minute, then one that is behind those of the right."""
    left, right = (rows_of(side, KEYS["texts"], 0) for side in (1, 2))
    first, late_one = left[0], left[60]

    def slow() -> Iterator[Any]:
        yield from ([first], [late_one])

    def fast() -> Iterator[Any]:
        yield from ([row] for row in right)

    streams = []
    for rows, rate in ((slow, 1 / 60), (fast, 3)):
        given: Stream[Any] = source(Function(rows, rate=rate)).with_parallelism(1)
        given = given.to_columns(SCHEMA) if columns else given
        timed = given.with_event_time("at", unit="s", idle_after=5 * SECOND)
        streams.append(timed.key_by("id"))
    stream = KINDS[kind][0](*streams, how)
    late = stream.side("late").to_records().sink(Collect()).named("late")
    found = run([stream.sink(Collect()), late], clock=VirtualClock(), batch_size=7)
    assert pairs_of(found["collect"], columns) == expected(kind, how, [first], right)
    assert found["late"] == [late_one]


@joins
def test_records_without_a_key_are_left_out(kind: str, how: Any) -> None:
    left, right = (rows_of(side, KEYS["texts"], 0) for side in (1, 2))
    streams = []
    for rows in (left, right):
        bad = [{"at": row["at"]} for row in rows[::10]]
        given = [each for pair in zip(rows[::10], bad, strict=True) for each in pair]
        given = sorted([*given, *(row for row in rows if row not in given)], key=lambda r: r["at"])
        timed = source(Collection(given)).with_parallelism(1).with_event_time("at", unit="s")
        streams.append(timed.key_by("id", on_error="skip"))
    stream = KINDS[kind][0](*streams, how)
    check(stream, False, expected(kind, how, left, right), parallelism=2)
