"""`latest`: the last record of each key as a table, of records and of columns."""

from __future__ import annotations

import math
import random
from datetime import timedelta
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

SCHEMA = pa.schema(
    [("key", pa.string()), ("value", pa.int64()), ("at", pa.int64()), ("t", pa.int64())]
)
SEEDS = 30
"""Random programs; 2,000 by hand."""


class Tables:
    """The tasks of `latest` on such rows."""

    def __init__(self, columns: bool, by: Any, tasks: int, states: Any = (), **expiry: Any) -> None:
        self.columns = columns
        self.late: list[Any] = []
        self.functions: list[BatchFunction] = []
        table = source(Collection([])).key_by("key").latest(by=by, tombstone="value", **expiry)
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
            if own:
                taken: Any = pa.RecordBatch.from_pylist(own, SCHEMA) if self.columns else own
                found += self.changes(function.process(taken))
        return found

    def advance(self, watermark: int) -> list[tuple[str, Any]]:
        given = [batch for each in self.functions for batch in each.on_watermark(watermark) or ()]
        return [change for batch in given for change in self.changes(batch)]

    def changes(self, batch: Any) -> list[tuple[str, Any]]:
        if self.columns:
            return [(row.pop("kind"), row) for row in batch.to_pylist()]
        assert all(change.key == change.record["key"] for change in batch)
        return [(change.kind, change.record) for change in batch]


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
                "t": 0,
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


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("by", [None, "at"])
def test_rows_and_tombstones_expire(by: str | None, columns: bool) -> None:
    keep = 10
    expiry: dict[str, Any] = {"expire_after": timedelta(microseconds=keep), "time": "t"}
    for seed in range(SEEDS):
        chance = random.Random(seed)
        tables = Tables(columns, by, chance.randint(1, 3), **expiry)
        kept: dict[Any, tuple[Any, Any, int]] = {}  # what is wanted: by, row, time
        watermark, clock = -100, -50
        late: list[Any] = []
        wanted_late: list[Any] = []
        for _ in range(chance.randint(0, 12)):
            clock += chance.randint(0, 6)
            rows = [
                {
                    "key": chance.choice(["a", "b", "c", None]),
                    "value": chance.choice([None, 1, 2]),
                    "at": chance.randint(0, 9),
                    "t": clock - chance.randint(0, 15),
                }
                for _ in range(chance.randint(0, 4))
            ]
            wanted: list[tuple[str, Any]] = []
            for row in rows:
                highest, before, time = kept.get(row["key"], (None, None, row["t"]))
                is_older = by is not None and highest is not None and row["at"] < highest
                if row["t"] + keep <= watermark or is_older:
                    wanted_late.append(row)
                    continue
                is_gone = row["value"] is None
                if before:
                    wanted.append(("-D" if is_gone else "-U", before))
                if not is_gone:
                    wanted.append(("+U" if before else "+I", row))
                if is_gone and by is None:
                    kept.pop(row["key"], None)
                else:
                    own = None if is_gone else row
                    kept[row["key"]] = row["at"] if by else None, own, max(time, row["t"])
            assert sorted(map(repr, tables.process(rows))) == sorted(map(repr, wanted))
            if chance.random() < 0.3:
                late += tables.late
                states = [each for f in tables.functions if (each := f.snapshot()) is not None]
                tables = Tables(columns, by, chance.randint(1, 4), states, **expiry)
                assert tables.advance(watermark) == []
            watermark = max(watermark, clock - chance.randint(0, 12))
            due = [key for key, (*_, time) in kept.items() if time + keep <= watermark]
            gone = [("-D", row) for key in due if (row := kept.pop(key)[1])]
            assert sorted(map(repr, tables.advance(watermark))) == sorted(map(repr, gone))
        assert sorted(map(repr, [*late, *tables.late])) == sorted(map(repr, wanted_late))
        tables.advance(10**9)
        assert all(not len(f.snapshot().entries) for f in tables.functions)  # type: ignore[union-attr]


def test_what_expires_is_taken_back_behind_a_table() -> None:
    people = source(Collection([])).with_event_time(2).key_by(0)
    homes = people.latest(expire_after=timedelta(microseconds=10))
    cities = homes.changes().key_by(lambda change: change.record[1]).as_table().count()
    latest, count = (
        each.inputs[0].source.operator.open(TaskContext("t", 0, 1, 100, "job"))  # type: ignore[union-attr]
        for each in (homes, cities)
    )
    changes = latest.process([("ann", "Oslo", 1), ("bob", "Oslo", 3), ("cid", "Rome", 9)])
    count.process([(change.record[1], change) for change in changes])
    (gone,) = latest.on_watermark(11)
    (before, after) = count.process([(change.record[1], change) for change in gone])
    assert (before.record, after.record) == (("Oslo", 2), ("Oslo", 1))
    assert latest.process([("ann", "Oslo", 15)])[0].kind == "+I"


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


@pytest.mark.parametrize("columns", [False, True])
def test_a_row_behind_a_newer_one_is_not_late_in_event_time(columns: bool) -> None:
    expiry = {"expire_after": timedelta(microseconds=10), "time": "t"}
    tables = Tables(columns, "at", 1, **expiry)
    (latest,) = tables.functions

    def take(*rows: tuple[int, int]) -> tuple[int, list[int]]:
        tables.process([{"key": "a", "value": 1, "at": at, "t": time} for at, time in rows])
        return latest.late, [row["at"] for row in tables.late]

    assert take((5, 0), (4, 0), (3, 0), (6, 0)) == (0, [4, 3])
    list(latest.on_watermark(10) or ())
    assert take((7, 0), (8, 20)) == (1, [4, 3, 7])


def test_functions_get_rows_of_columns() -> None:
    rows = source(Collection([pa.record_batch({"a": [1]})]))
    table = rows.key_by("a").latest(by=lambda row: row["a"])
    assert run(table.changes().sink(Collect()))["collect"] == [Change("+I", {"a": 1}, 1)]


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
        (
            lambda left, right: left.latest(expire_after=5),
            "expire_after is 5, expected a timedelta",
        ),
        (lambda left, right: left.latest(expire_after=timedelta(0)), "expected more than 0"),
        (lambda left, right: left.latest(time="at"), "a time and no expire_after"),
        (lambda left, right: left.latest(expire_after=timedelta(1)), "needs the time of each"),
        (lambda left, right: left.join(right).side("right").side("no"), "side"),
    ],
)
def test_wrong_uses_are_told(wrong: Any, message: str) -> None:
    left, right = (source(Collection([])).key_by("id") for _ in range(2))
    with pytest.raises(GraphError, match=message):
        wrong(left, right)
