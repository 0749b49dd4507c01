"""`latest`: the last record of each key as a table, of records and of columns."""

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
from operators import Change, source
from operators.sinks import Collect
from operators.sources import Collection

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64()), ("at", pa.int64())])


class Tables:
    """The tasks of `latest` on such rows."""

    def __init__(self, columns: bool, by: Any, tasks: int, states: Any = ()) -> None:
        self.columns = columns
        self.late: list[Any] = []
        self.functions: list[BatchFunction] = []
        table = source(Collection([])).key_by("key").latest(by=by, tombstone="value")
        operator = table.inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        for index in range(tasks):
            sides = {
                "late": lambda late: self.late.extend(late if not columns else late.to_pylist())
            }
            function = operator.open(
                TaskContext("t", index, tasks, 1000, "job", side_outputs=sides)
            )
            if states:
                function.restore(KeyedState.share(states, index, tasks))
            self.functions.append(function)

    def process(self, rows: list[Any]) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        chosen = partition([row["key"] for row in rows], len(self.functions))
        for index, function in enumerate(self.functions):
            own = [row for row, at in zip(rows, chosen, strict=True) if at == index]
            if own and self.columns:
                for row in function.process(pa.RecordBatch.from_pylist(own, SCHEMA)).to_pylist():
                    found.append((row.pop("kind"), row))
            elif own:
                for change in function.process(own):
                    assert change.key == change.record["key"]
                    found.append((change.kind, change.record))
        return found


def expected(rows: list[Any], by: str | None) -> tuple[dict[Any, Any], list[Any]]:
    """The table behind these rows, and those that are older than others before them."""
    table: dict[Any, Any] = {}
    highest: dict[Any, int] = {}
    late = []
    for row in rows:
        if by is not None and row[by] < highest.get(row["key"], row[by]):
            late.append(row)
            continue
        if by is not None:
            highest[row["key"]] = row[by]
        if row["value"] is None:
            table.pop(row["key"], None)
        else:
            table[row["key"]] = row
    return table, late


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("by", [None, "at"])
def test_random_rows_with_other_tasks_that_go_on(by: str | None, columns: bool) -> None:
    for seed in range(40):
        chance = random.Random(seed)
        rows = [
            {
                "key": chance.choice(["a", "b", "c", None]),
                "value": chance.choice([None, 1, 2]),
                "at": chance.randint(0, 9),
            }
            for _ in range(chance.randint(0, 30))
        ]
        tables = Tables(columns, by, chance.randint(1, 3))
        late: list[Any] = []
        there: dict[Any, Any] = {}
        at = 0
        while at < len(rows):
            size = chance.randint(1, 6)
            for kind, row in tables.process(rows[at : at + size]):
                if kind in ("+I", "+U"):
                    assert (kind == "+I") == (row["key"] not in there)
                    there[row["key"]] = row
                elif kind == "-D":
                    assert there.pop(row["key"]) == row
                else:
                    assert there[row["key"]] == row
            at += size
            assert there == expected(rows[:at], by)[0]
            if chance.random() < 0.3:
                late += tables.late
                states = [each for f in tables.functions if (each := f.snapshot()) is not None]
                tables = Tables(columns, by, chance.randint(1, 3), states)
        wanted = expected(rows, by)[1]
        assert sorted(map(repr, [*late, *tables.late])) == sorted(map(repr, wanted))


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("columns", [False, True])
def test_a_job_of_two_tables(columns: bool, parallelism: int) -> None:
    people: list[Any] = [{"id": n, "name": f"p{n}"} for n in range(20)]
    homes: list[Any] = [{"of": n % 25, "city": f"c{n}"} for n in range(50)]
    if columns:
        people, homes = ([pa.RecordBatch.from_pylist(rows)] for rows in (people, homes))
    left = source(Collection(people)).with_parallelism(1).key_by("id").latest()
    right = source(Collection(homes)).with_parallelism(1).key_by("of").latest()
    joined = left.join(right, how="full")
    changes = run(joined.sink(Collect()), parallelism=parallelism)["collect"]
    there: set[Any] = set()
    if columns:
        changes = [row for batch in changes for row in batch.to_pylist()]
        changes = [(row["kind"], (row["name"], row["city"])) for row in changes]
    else:
        changes = [
            (kind, (left and left["name"], right and right["city"]))
            for kind, (left, right), _ in changes
        ]
    for kind, pair in changes:
        if kind in ("+I", "+U"):
            assert pair not in there
            there.add(pair)
        else:
            there.remove(pair)
    pairs = {(f"p{n}", f"c{25 + n}") for n in range(20)}
    assert there == pairs | {(None, f"c{25 + n}") for n in range(20, 25)}


@pytest.mark.parametrize("given", [[None], [math.nan], [1, "x"]])
def test_a_value_without_an_order_is_told(given: list[Any]) -> None:
    rows = source(Collection([("a", value) for value in given])).with_parallelism(1)
    table = rows.key_by(0).latest(by=1)
    with pytest.raises(Exception, match="by=1 that has an order, in ") as raised:
        run(table.changes().sink(Collect()))
    assert "hint: filter such records out" in str(raised.value)


def test_columns_of_functions_are_refused() -> None:
    rows = source(Collection([pa.record_batch({"a": [1]})]))
    with pytest.raises(Exception, match="name columns"):
        run(rows.key_by("a").latest(by=lambda row: row).changes().sink(Collect()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("a", 1)], "a table got tuple .*expected a Change"),
        ([Change("I", ("a", 1))], "kind 'I', expected one of"),  # type: ignore[arg-type]
        ([Change("-D", ("a", 1))], "takes away the row .*which is not there"),
    ],
)
def test_what_is_no_change_is_told(given: Any, message: str) -> None:
    table = source(Collection(given)).key_by(lambda change: "a").as_table()
    other = source(Collection([("a", 1)])).key_by(0)
    with pytest.raises(Exception, match=message):
        run(table.join(other).sink(Collect()))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda left, right: left.join(source(Collection([]))),
            "expected a keyed stream or a table",
        ),
        (lambda left, right: left.join(right, how="outer"), "how='outer'"),
        (lambda left, right: left.join(right, expire_after=5), "expire_after"),
        (lambda left, right: left.join(right, time="at"), "no expire_after"),
        (lambda left, right: left.latest(by=-1), "expected an index >= 0"),
        (lambda left, right: left.join(right).side("right").side("no"), "side"),
    ],
)
def test_wrong_uses_are_told(wrong: Any, message: str) -> None:
    left, right = (source(Collection([])).key_by("id") for _ in range(2))
    with pytest.raises(GraphError, match=message):
        wrong(left, right)
