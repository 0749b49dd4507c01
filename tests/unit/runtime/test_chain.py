"""The chain of a task: input batch, operators, expected batch and counters."""

from typing import Any

from engine.graph.logical import LogicalOperator
from engine.graph.operator import RecordOperator, TaskContext
from engine.runtime.chain import Chain
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
    assert chain.close() == {"operator-1": ["1", "2"]}
