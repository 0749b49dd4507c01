"""Joins' side outputs "left" and "right": the records without a partner."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import GraphError
from engine.testing import run
from operators import KeyedStream, Session, Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.windowing import us

LEFT = [("a", 1, 0), ("b", 2, 1), ("c", 30, 2), (None, 5, 3)]
RIGHT = [("a", 3, 4), ("d", 4, 5), ("c", 2, 6), (None, 6, 7)]
SCHEMA = pa.schema([("key", pa.string()), ("at", pa.int64()), ("n", pa.int64())])
HOWS = ["inner", "left", "right", "full"]

JOINS: dict[str, tuple[Any, set[int], set[int]]] = {
    # and the numbers of the records of the left and of the right without a partner
    "interval": (
        lambda left, right, how: left.interval_join(right, between=(us(-5), us(5)), how=how),
        {1, 2},
        {5, 6},
    ),
    "window": (
        lambda left, right, how: left.window_join(right, Tumbling(us(10)), how=how),
        {1, 2},
        {5, 6},
    ),
    "sessions": (
        lambda left, right, how: left.window_join(right, Session(us(100)), how=how),
        {1},
        {5},
    ),
    "unbounded": (lambda left, right, how: left.join(right, how=how), {1}, {5}),
    "expiring": (
        lambda left, right, how: left.join(right, how=how, expire_after=timedelta(days=1)),
        {1},
        {5},
    ),
}


def stream(rows: list[Any], columns: bool) -> KeyedStream[Any, Any]:
    wait = us(9)  # rows are not in the order of their times
    if not columns:
        return source(Collection(rows)).with_event_time(1, out_of_orderness=wait).key_by(0)
    dicts = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    batches = [pa.RecordBatch.from_pylist([each], SCHEMA) for each in dicts]
    given = source(Collection(batches or [pa.RecordBatch.from_pylist([], SCHEMA)]))
    return given.with_event_time("at", out_of_orderness=wait).key_by("key")


def lone(joined: Stream[Any], side: str, columns: bool) -> Any:
    found = joined.side(side)
    if columns:
        found = found.to_records().map(lambda row: tuple(row.values()))
    return found.sink(Collect()).named(side)


@pytest.mark.table(2)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", JOINS)
def test_records_without_a_partner(kind: str, how: str, columns: bool) -> None:
    join, *numbers = JOINS[kind]
    joined = join(stream(LEFT, columns), stream(RIGHT, columns), how)
    sinks = [joined.sink(Collect()).named("main")]
    sinks += [lone(joined, side, columns) for side in ("left", "right")]
    found = run(sinks, parallelism=2)
    for side, rows, own in zip(("left", "right"), (LEFT, RIGHT), numbers, strict=True):
        assert {row[2] for row in found[side]} == own
        assert all(row in rows for row in found[side])
        assert len(found[side]) == len(own)


@pytest.mark.parametrize("columns", [False, True])
def test_one_side_alone_is_read(columns: bool) -> None:
    joined = stream(LEFT, columns).join(stream(RIGHT, columns), how="inner")
    found = run([lone(joined, "left", columns)], parallelism=3)["left"]
    assert [row[2] for row in found] == [1]


@pytest.mark.parametrize("columns", [False, True])
def test_of_a_temporal_join_the_left(columns: bool) -> None:
    joined = stream(LEFT, columns).temporal_join(stream(RIGHT, columns))
    found = run([lone(joined, "left", columns)], parallelism=2)["left"]
    assert {row[2] for row in found} == {0, 1, 3}
    with pytest.raises(GraphError, match="expected a side output"):
        joined.side("right")


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("left_is_empty", "how"), [*product([False, True], HOWS)])
def test_a_side_that_is_empty(left_is_empty: bool, how: Any, columns: bool) -> None:
    left, right = ([], RIGHT) if left_is_empty else (LEFT, [])
    joined = stream(left, columns).join(stream(right, columns), how=how)
    side = "right" if left_is_empty else "left"
    sinks = [joined.sink(Collect()).named("main"), lone(joined, side, columns)]
    found = run(sinks, parallelism=2)
    assert sorted(row[2] for row in found[side]) == [row[2] for row in left or right]
    main = found["main"]
    if columns:
        main = [row for batch in main for row in batch.to_pylist()]
    assert len(main) == (4 if how in (side, "full") else 0)
