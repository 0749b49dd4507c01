"""The chain of a task: input batch, operators, expected batch and counters."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.graph.operator import RecordOperator
from engine.task.chain import Chain
from operators.sinks import Collect

CONTEXT = TaskContext("task[0]", 0, 1, 100, "job")


def opened(*operators: Any) -> Chain:
    declared = tuple(
        LogicalOperator(at, f"operator-{at}", operator, None, {})
        for at, operator in enumerate(operators)
    )
    chain = Chain()
    chain.open(declared, CONTEXT, encoded=False)
    return chain


def committed(chain: Chain, sink: str) -> Any:
    chain.sinks.prepare()
    return Collect().commit(1, [chain.sinks.commit()[sink]])


def test_a_batch_goes_through_all_operators_and_is_counted() -> None:
    chain = opened(
        RecordOperator("map", lambda n: n * 2),
        RecordOperator("filter", lambda n: n > 2),
        RecordOperator("flat_map", lambda n: [n, n]),
    )
    assert chain.process([1, 2, 3]) == [4, 4, 6, 6]
    counted = [(s.records_in, s.records_out) for s in chain.statistics(3)]
    assert counted == [(3, 3), (3, 2), (2, 4)]


def test_a_sink_counts_what_it_took_and_gives_its_result() -> None:
    chain = opened(RecordOperator("map", str), Collect())
    chain.process([1, 2])
    assert chain.statistics(2)[-1].records_out == 2
    assert committed(chain, "operator-1") == ["1", "2"]


class Held(BatchOperator):
    """Holds all records back until the end."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def open(self, context: TaskContext) -> BatchFunction:
        return _Held(self.fails)


class _Held(BatchFunction):
    def __init__(self, fails: bool) -> None:
        self.held: list[Any] = []
        self.fails = fails

    def process(self, batch: list[Any]) -> list[Any]:
        self.held += batch
        return []

    def on_end(self) -> Iterator[list[Any]]:
        yield self.held
        if self.fails:
            raise ValueError("at the end")


def test_what_operators_hold_comes_at_the_end_through_those_behind() -> None:
    chain = opened(
        RecordOperator("map", lambda n: n * 2),
        Held(),
        RecordOperator("filter", lambda n: n > 2),
        Held(),
        Collect(),
    )
    assert chain.process([1, 2]) == []
    assert chain.process([3]) == []
    assert list(chain.end()) == [[], [4, 6]]
    counted = [(s.records_in, s.records_out) for s in chain.statistics(3)]
    assert counted == [(3, 3), (3, 3), (3, 2), (2, 2), (2, 2)]
    assert committed(chain, "operator-4") == [4, 6]


class Stuck(BatchOperator):
    """An operator that can neither be cancelled nor closed."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Stuck()


class _Stuck(BatchFunction):
    def process(self, batch: list[Any]) -> list[Any]:
        return batch

    def cancel(self) -> None:
        raise OSError("not now")

    def close(self) -> None:
        raise OSError("never")


def test_operators_that_are_stuck_are_told_of_one_by_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain = opened(Stuck(), Stuck())
    chain.cancel()
    chain.release()
    assert capsys.readouterr().err.splitlines() == [
        f"operator 'operator-{number}' could not be {what}"
        for what in ("cancelled: not now", "closed: never")
        for number in (0, 1)
    ]
