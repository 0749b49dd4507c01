"""Joins of two tables, by the table of Kafka Streams' documentation.

"Joining", KTable-KTable Join, in the developer guide of Kafka Streams (Apache-2.0), and the same in
its wiki ("Kafka Streams Join Semantics"), with which it was compared: of each record
that comes the result of an inner, a left and an outer join, all of one key. There a result of no
row is a tombstone where there was one before, and nothing otherwise.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from operators import Stream, source
from operators.sources import Collection
from tests.joining import Encoded

NOTHING: list[tuple[str, Any]] = []
LEFT, RIGHT = 0, 1
STEPS: list[tuple[int, str | None, Any, Any, Any]] = [
    # side, value, and the row that the inner, left and outer join has then
    (LEFT, None, None, None, None),
    (RIGHT, None, None, None, None),
    (LEFT, "A", None, ("A", None), ("A", None)),
    (RIGHT, "a", ("A", "a"), ("A", "a"), ("A", "a")),
    (LEFT, "B", ("B", "a"), ("B", "a"), ("B", "a")),
    (RIGHT, "b", ("B", "b"), ("B", "b"), ("B", "b")),
    (LEFT, None, None, None, (None, "b")),
    (RIGHT, None, None, None, None),
    (LEFT, "C", None, ("C", None), ("C", None)),
    (RIGHT, "c", ("C", "c"), ("C", "c"), ("C", "c")),
    (RIGHT, None, None, ("C", None), ("C", None)),
    (LEFT, None, None, None, None),
    (RIGHT, None, None, None, None),
    (RIGHT, "d", None, None, (None, "d")),
    (LEFT, "D", ("D", "d"), ("D", "d"), ("D", "d")),
]
HOWS = {"inner": 2, "left": 3, "full": 4}


def expected(at: int) -> list[tuple[str, Any]]:
    """The changes between one row and the next."""
    found: list[tuple[str, Any]] = []
    before = None
    for step in STEPS:
        now = step[at]
        if before is None and now is not None:
            found.append(("+I", now))
        elif before is not None and now is None:
            found.append(("-D", before))
        elif before is not None and now != before:
            found += [("-U", before), ("+U", now)]
        before = now
    return found


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("how", HOWS)
def test_kafkas_table(how: Any, columns: bool) -> None:
    """Records come one by one, so that the order of both sides is known."""
    context = TaskContext("t", 0, 1, 1000, "job")
    rows = source(Collection([]))
    rows = rows.to_columns(SCHEMA) if columns else rows
    left, right = (rows.key_by("key").latest(tombstone="value") for _ in range(2))
    tables = [opened(each.changes(), context) for each in (left, right)]
    join = opened(left.join(right, how=how), context)
    for side in (LEFT, RIGHT) if columns else ():  # in a job all tasks hear of columns
        none = pa.RecordBatch.from_pylist([], SCHEMA)
        join.process(Encoded(side, tables[side].process(none)))
    found: list[Any] = []
    for side, value, *_ in STEPS:
        row = {"key": "k", "value": value}
        batch = pa.RecordBatch.from_pylist([row], SCHEMA) if columns else [row]
        changes = tables[side].process(batch)
        if columns:
            given = join.process(Encoded(side, changes))
            for each in given.to_pylist() if len(given) else ():
                found.append((each["kind"], (each["value"], each["value_right"])))
        elif changes:
            keyed = Encoded(side, changes)
            for kind, pair, _ in join.process(keyed):
                found.append((kind, tuple(each and each["value"] for each in pair)))
    assert found == expected(HOWS[how])
    assert join.metrics()["state_records"] == 2


def opened(stream: Stream[Any], context: TaskContext) -> BatchFunction:
    operator = stream.inputs[0].source.operator
    assert isinstance(operator, BatchOperator)
    return operator.open(context)


SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])
