"""The chain of a task: input batch, operators, expected batch and counters."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.config import JobConfig
from engine.graph.logical import LogicalOperator
from engine.graph.operator import BatchOperator, EndingFunction, RecordOperator, TaskContext
from engine.runtime.chain import Chain
from engine.runtime.description import TaskDescription
from engine.runtime.failure import describe, shortened
from operators.reduce import Reduce
from operators.sinks import Collect

CONTEXT = TaskContext("task[0]", 0, 1, 100, "job")


def opened(*operators: Any) -> tuple[Chain, TaskDescription]:
    declared = tuple(
        LogicalOperator(at, f"operator-{at}", operator, None, {})
        for at, operator in enumerate(operators)
    )
    chain = Chain()
    chain.open(declared, CONTEXT, encoded=False)
    return chain, TaskDescription(0, "vertex", 0, 1, declared, {}, (), (), JobConfig())


def test_a_batch_goes_through_all_operators_and_is_counted() -> None:
    chain, _ = opened(
        RecordOperator("map", lambda n: n * 2),
        RecordOperator("filter", lambda n: n > 2),
        RecordOperator("flat_map", lambda n: [n, n]),
    )
    assert chain.process([1, 2, 3]) == [4, 4, 6, 6]
    counted = [(s.records_in, s.records_out) for s in chain.statistics(3)]
    assert counted == [(3, 3), (3, 2), (2, 4)]


def test_a_sink_counts_what_it_took_and_gives_its_result() -> None:
    chain, _ = opened(RecordOperator("map", str), Collect())
    chain.process([1, 2])
    assert chain.statistics(2)[-1].records_out == 2
    assert chain.close() == {"operator-1": ["1", "2"]}


def fail_on_three(n: int) -> Any:
    if n == 3:
        raise ValueError("three")
    return [n]


@pytest.mark.parametrize("form", ["map", "filter", "flat_map"])
def test_a_failure_names_operator_and_record(form: Any) -> None:
    chain, description = opened(RecordOperator("map", abs), RecordOperator(form, fail_on_three))
    failure = failure_of(lambda: chain.process([1, 2, 3, 4]), description, chain)
    assert (failure.kind, failure.operator, failure.record) == ("operator", "operator-1", "3")
    assert failure.error == "ValueError: three"
    assert "in fail_on_three" in failure.traceback
    assert "engine/runtime" not in failure.traceback


def test_a_failure_in_reduce_names_its_record() -> None:
    chain, description = opened(Reduce(lambda a, b: a + b, key=0))
    failure = failure_of(lambda: chain.process([("a", 1), ("a",), ["a"]]), description, chain)
    assert failure.record == "['a']"


class Held(BatchOperator):
    """Holds all records back until the end."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def open(self, context: TaskContext) -> EndingFunction:
        return _Held(self.fails)


class _Held(EndingFunction):
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
    chain, _ = opened(
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
    assert chain.close() == {"operator-4": [4, 6]}


@pytest.mark.parametrize(
    ("operators", "failed"),
    [
        ((Held(fails=True), Collect()), "operator-0"),
        ((Held(), RecordOperator("map", lambda n: 1 // n), Collect()), "operator-1"),
        (
            (RecordOperator("map", abs), Held(), RecordOperator("map", lambda n: 1 // n)),
            "operator-2",
        ),
    ],
)
def test_a_failure_at_the_end_names_the_operator(operators: Any, failed: str) -> None:
    chain, description = opened(*operators)
    chain.process([0])
    failure = failure_of(lambda: list(chain.end()), description, chain)
    assert failure.operator == failed
    assert failure.record == (None if failed == "operator-0" else "0")


def failure_of(work: Callable[[], Any], description: TaskDescription, chain: Chain) -> Any:
    with pytest.raises(Exception) as caught:
        work()
    return describe(caught.value, description, chain)


def test_a_long_record_is_shortened_and_a_broken_repr_survived() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert shortened("x" * 1000) == "'" + "x" * 198 + "…"
    assert shortened(Broken()) == "<Broken, whose repr raised RuntimeError>"
