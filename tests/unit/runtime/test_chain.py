"""The chain of a task: input batch, operators, expected batch and counters."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.config import JobConfig
from engine.graph.logical import LogicalOperator
from engine.graph.operator import RecordOperator, TaskContext
from engine.runtime.chain import Chain
from engine.runtime.description import TaskDescription
from engine.runtime.failure import describe, shortened
from operators.keyed import Reduce
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
    assert Collect().merge([chain.close()["operator-1"]]) == ["1", "2"]


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
