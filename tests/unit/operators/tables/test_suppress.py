"""`suppress`: which changes go on, and when."""

from __future__ import annotations

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
from engine.testing import VirtualClock, run
from operators import Change, source
from operators.sinks import Collect
from operators.sources import Collection

SCHEMA = pa.schema([("key", pa.string()), ("n", pa.int64()), ("kind", pa.string())])
SECOND_NS = 1_000_000_000


class Tasks:
    def __init__(self, columns: bool, tasks: int, limits: Any, states: Any = ()) -> None:
        self.columns = columns
        self.now_ns = 0
        self.functions: list[BatchFunction] = []
        given = source(Collection([]))
        keyed = (
            given.key_by("key") if columns else given.key_by(lambda change: change.record["key"])
        )
        operator = keyed.as_table().suppress(**limits).inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        for index in range(tasks):
            context = TaskContext("t", index, tasks, 3, "job", now_ns=lambda: self.now_ns)
            function = operator.open(context)
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
                found += self.rows(function.process(pa.RecordBatch.from_pylist(rows, SCHEMA)))
            elif own:
                pairs = [(row["key"], Change(kind, row)) for kind, row in own]
                found += self.rows(function.process(pairs))
        return found

    def wait(self, seconds: float) -> list[Any]:
        self.now_ns += int(seconds * SECOND_NS)
        found = []
        for function in self.functions:
            if function.next_timer is not None and function.next_timer <= self.now_ns:
                for batch in function.on_timer(self.now_ns) or ():
                    assert len(batch) <= 3
                    found += self.rows(batch)
        return found

    def end(self) -> list[Any]:
        return [row for f in self.functions for batch in f.on_end() for row in self.rows(batch)]

    def rows(self, given: Any) -> list[Any]:
        if isinstance(given, list):
            return [(change.kind, change.record) for _, change in given]
        return [(row.pop("kind"), row) for row in given.to_pylist()]


def row(key: Any, n: int) -> dict[str, Any]:
    return {"key": key, "n": n}


@pytest.mark.parametrize("columns", [False, True])
def test_only_what_is_left_goes_on(columns: bool) -> None:
    tasks = Tasks(columns, 1, {"until": timedelta(seconds=10)})
    assert tasks.process([("+I", row("a", 1)), ("-U", row("a", 1)), ("+U", row("a", 2))]) == []
    assert tasks.wait(5) == []
    assert tasks.process([("+I", row("b", 1)), ("-U", row("a", 2)), ("+U", row("a", 3))]) == []
    assert tasks.wait(5) == [("+I", row("a", 3))]
    assert tasks.process([("-U", row("a", 3)), ("+U", row("a", 4)), ("-D", row("b", 1))]) == []
    assert tasks.process([("-U", row("a", 4)), ("+U", row("a", 5))]) == []
    assert tasks.wait(9) == []
    assert tasks.wait(1) == [("-U", row("a", 3)), ("+U", row("a", 5))]
    assert tasks.process([("-U", row("a", 5)), ("+U", row("a", 6)), ("-D", row("a", 6))]) == []
    assert tasks.end() == [("-D", row("a", 5))]
    assert tasks.end() == []


@pytest.mark.parametrize("columns", [False, True])
def test_the_oldest_keys_go_on_when_there_are_too_many(columns: bool) -> None:
    tasks = Tasks(columns, 1, {"most_keys": 2})
    keys = "abcd"
    assert tasks.process([("+I", row(key, 1)) for key in keys]) == [
        ("+I", row("a", 1)),
        ("+I", row("b", 1)),
    ]
    nothing = Tasks(columns, 1, {"most_bytes": 0})
    assert nothing.process([("+I", row("a", 1))]) == [("+I", row("a", 1))]
    assert Tasks(columns, 1, {"most_bytes": 1 << 20}).process([("+I", row("a", 1))]) == []


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    "limits",
    [{"until": timedelta(seconds=5)}, {"most_keys": 1}, {"most_bytes": 40}, {"most_keys": 0}],
)
def test_random_changes_with_other_tasks_that_go_on(limits: Any, columns: bool) -> None:
    for seed in range(25):
        chance = random.Random(seed)
        tasks = Tasks(columns, chance.randint(1, 3), limits)
        table: dict[Any, Any] = {}
        found: list[Any] = []
        for _ in range(chance.randint(0, 12)):
            batch: list[tuple[Any, Any]] = []
            for _ in range(chance.randint(1, 5)):
                key, new = chance.choice(["a", "b", "c", None]), chance.choice([None, 1, 2, 3])
                old = table.pop(key, None)
                if old is not None:
                    batch.append(("-D" if new is None else "-U", old))
                if new is not None:
                    table[key] = row(key, new)
                    batch.append(("+I" if old is None else "+U", table[key]))
            found += tasks.process(batch)
            found += tasks.wait(chance.choice([0, 1, 3]))
            if chance.random() < 0.3:
                states = [each for f in tasks.functions if (each := f.snapshot()) is not None]
                tasks = Tasks(columns, chance.randint(1, 3), limits, states)
        found += tasks.end()
        there: dict[Any, Any] = {}
        for kind, each in found:
            if kind in ("-U", "-D"):
                assert there.pop(each["key"]) == each
            else:
                assert each["key"] not in there
                there[each["key"]] = each
        assert there == table


def test_a_job_with_a_clock() -> None:
    given = source(Collection([("a", n) for n in range(10)], rate=1)).with_parallelism(1)
    table = given.key_by(0).latest().suppress(timedelta(seconds=3))
    found = run(table.changes().sink(Collect()), clock=VirtualClock(), batch_size=1, parallelism=1)
    kinds = [change.kind for change in found["collect"]]
    numbers = [change.record[1] for change in found["collect"]]
    assert kinds == ["+I", *["-U", "+U"] * (len(kinds) // 2)]
    assert numbers[-1] == 9
    assert 2 <= len(kinds) // 2 <= 4


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "no limit"),
        ({"until": 5}, "until"),
        ({"most_keys": -1}, "most_keys"),
        ({"most_bytes": 1.5}, "most_bytes"),
    ],
)
def test_wrong_limits_are_told(limits: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        source(Collection([])).key_by(0).latest().suppress(**limits)
