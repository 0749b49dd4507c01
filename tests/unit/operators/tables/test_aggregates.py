"""Aggregates of tables: random changes against plain Python, with other tasks that go on."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.network import partition
from engine.state import KeyedState
from engine.testing import run
from operators import (
    Change,
    Count,
    CountDistinct,
    First,
    Max,
    Mean,
    Min,
    Quantile,
    Sum,
    Top,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection

SCHEMA = pa.schema(
    [("key", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("kind", pa.string())]
)
WANTED = {
    "rows": Count(),
    "n_sum": Sum("n"),
    "x_sum": Sum("x"),
    "x_mean": Mean("x"),
    "least": Min("n"),
    "most": Max("x"),
    "different": CountDistinct("n"),
}


def expected(rows: list[Any]) -> dict[Any, dict[str, Any]]:
    found = {}
    for key in {row["key"] for row in rows}:
        own = [row for row in rows if row["key"] == key]
        n = [row["n"] for row in own if row["n"] is not None]
        x = [row["x"] for row in own if row["x"] is not None]
        found[key] = {
            "rows": len(own),
            "n_sum": sum(n) if n else None,
            "x_sum": math.fsum(x) if x else None,
            "x_mean": math.fsum(x) / len(x) if x else None,
            "least": min(n, default=None),
            "most": max(x, default=None),
            "different": len(set(n)),
        }
    return found


class Tasks:
    def __init__(self, columns: bool, tasks: int, states: Any = ()) -> None:
        self.columns = columns
        self.functions: list[BatchFunction] = []
        given = source(Collection([]))
        keyed = (
            given.key_by("key") if columns else given.key_by(lambda change: change.record["key"])
        )
        operator = keyed.as_table().aggregate(**WANTED).inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        for index in range(tasks):
            function = operator.open(TaskContext("t", index, tasks, 1000, "job"))
            if states:
                function.restore(KeyedState.share(states, index, tasks))
            self.functions.append(function)

    def process(self, changes: list[tuple[Any, Any]]) -> list[Any]:
        found = []
        chosen = partition([row["key"] for _, row in changes], len(self.functions))
        for index, function in enumerate(self.functions):
            own = [each for each, at in zip(changes, chosen, strict=True) if at == index]
            if own and self.columns:
                rows = [{**row, "kind": kind} for kind, row in own]
                given = function.process(pa.RecordBatch.from_pylist(rows, SCHEMA))
                found += [(row.pop("kind"), row.pop("key"), row) for row in given.to_pylist()]
            elif own:
                given = function.process([(row["key"], Change(kind, row)) for kind, row in own])
                found += [(change.kind, change.key, change.record[1]) for change in given]
        return found


@pytest.mark.parametrize("columns", [False, True])
def test_random_changes_with_other_tasks_that_go_on(columns: bool) -> None:
    for seed in range(40):
        chance = random.Random(seed)
        tasks = Tasks(columns, chance.randint(1, 3))
        rows: list[Any] = []
        there: dict[Any, Any] = {}
        for _ in range(chance.randint(0, 12)):
            batch: list[tuple[Any, Any]] = []
            for _ in range(chance.randint(1, 6)):
                if rows and chance.random() < 0.45:
                    batch.append(("-D", rows.pop(chance.randrange(len(rows)))))
                    continue
                values = [1e16, 0.1, -3.5, 1e-9, 2.0]
                row = {
                    "key": chance.choice(["a", "b", None]),
                    "n": chance.choice([None, 1, 2, 3] if columns else [1, 2, 3]),
                    "x": chance.choice([None, *values] if columns else values),
                }
                rows.append(row)
                batch.append(("+I", row))
            for kind, key, values_of in tasks.process(batch):
                if kind in ("-U", "-D"):
                    assert there.pop(key) == values_of
                else:
                    assert key not in there
                    there[key] = values_of
            assert there == expected(rows), seed
            if chance.random() < 0.3:
                states = [each for f in tasks.functions if (each := f.snapshot()) is not None]
                tasks = Tasks(columns, chance.randint(1, 3), states)


@pytest.mark.parametrize(
    ("values", "left"),
    [
        ([1e300, 1.0, -1e300], [1.0]),
        ([math.inf, 2.0], [2.0]),
        ([math.nan, math.inf, 3.0], [3.0]),
        ([True, 2, 0.5], [0.5]),
        ([10**30, 1.5], [1.5]),
    ],
)
def test_what_has_gone_leaves_nothing_behind(values: list[Any], left: list[Any]) -> None:
    gone = [value for value in values if value not in left]
    changes = [Change("+I", ("a", value)) for value in values]
    changes += [Change("-D", ("a", value)) for value in gone]
    table = source(Collection(changes)).key_by(lambda change: "a").as_table()
    found = run(table.sum(1).changes().sink(Collect()), parallelism=1, batch_size=1)["collect"]
    assert found[-1].record == ("a", left[0])


@pytest.mark.parametrize("wrong", [First("x"), Quantile("x"), Top("x")])
def test_others_are_refused(wrong: Any) -> None:
    table = source(Collection([])).key_by("key").as_table()
    with pytest.raises(GraphError, match="expected Count, Sum, Mean, Min, Max or CountDistinct"):
        table.aggregate(wrong=wrong)
    with pytest.raises(GraphError, match="of a table, expected no where="):
        table.aggregate(wrong=Sum("x", where="y"))


@pytest.mark.parametrize("columns", [False, True])
def test_a_row_that_is_not_there_is_told(columns: bool) -> None:
    row = {"key": "a", "n": 1, "x": 1.0}
    given: Any = Change("-D", row)
    if columns:
        given = pa.RecordBatch.from_pylist([{**row, "kind": "-D"}], SCHEMA)
    rows = source(Collection([given]))
    keyed = rows.key_by("key") if columns else rows.key_by(lambda change: "a")
    with pytest.raises(Exception, match=r"takes away the row .*which is not there"):
        run(keyed.as_table().count().changes().sink(Collect()))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("value", "wanted"), [("x", Sum("v")), ("x", Mean("v")), ([1], Min("v")), (None, Max("v"))]
)
def test_a_value_that_cannot_be_used_is_told(value: Any, wanted: Any, columns: bool) -> None:
    row = {"key": "a", "v": value}
    rows = source(Collection([pa.RecordBatch.from_pylist([row])] if columns else [row]))
    table = rows.key_by("key").latest().aggregate(wrong=wanted)
    if columns and value is None:  # nulls of columns are left out
        assert run(table.changes().to_records().sink(Collect()))["collect"][0]["wrong"] is None
        return
    with pytest.raises(Exception, match=r"of a table got the row \{'key': 'a'") as raised:
        run(table.changes().sink(Collect()))
    assert "hint: filter such records out" in str(raised.value)


def test_none_is_one_of_the_values_of_records() -> None:
    rows = source(Collection([("a", None), ("b", None), ("c", 1)])).key_by(0).latest()
    all_rows = rows.changes().key_by(lambda change: "all").as_table()
    found = run(all_rows.count_distinct(1).changes().sink(Collect()))["collect"]
    assert found[-1].record == ("all", 2)
