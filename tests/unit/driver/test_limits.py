"""Which sources are of no use once operators with a limit have emitted all that they will."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from engine.config import JobConfig
from engine.driver.limits import Limits
from engine.graph.batch_operator import BatchFunction, BatchOperator, PureFunction
from engine.graph.context import TaskContext
from engine.graph.execution import ExecutionGraph
from engine.graph.operator import Properties
from engine.plan import Plan
from operators import Stream, source
from operators.sinks import Discard
from operators.sources import Collection


def numbers(name: str = "numbers") -> Stream[int]:
    return source(Collection([1])).named(name)


def graph(*pipelines: Any, parallelism: int = 1) -> ExecutionGraph:
    return Plan.of(list(pipelines), JobConfig(parallelism=parallelism)).execution


def idle(execution: ExecutionGraph, *done: str) -> set[str]:
    """Names of the tasks that are of no use once these operators are done in all their tasks."""
    limits = Limits(execution)
    found: set[int] = set()
    for operator in done:
        for vertex in execution.vertices:
            if operator in [each.name for each in vertex.job_vertex.operators]:
                found = limits.reached(vertex.id, operator)
    return {vertex.name for vertex in execution.vertices if vertex.id in found}


@dataclass(frozen=True)
class TakeEach(BatchOperator):
    """Lets so many records through in each task."""

    limit: int

    @property
    def properties(self) -> Properties:
        return Properties(limit=self.limit)

    def open(self, context: TaskContext) -> BatchFunction:
        return PureFunction(lambda batch: batch[: self.limit])


def test_a_source_is_idle_when_the_limit_is_reached_in_all_tasks() -> None:
    each = numbers().rebalance().then(TakeEach(5)).named("each")
    limits = Limits(graph(each.sink(Discard()), parallelism=2))
    assert limits.reached(2, "each") == set()
    assert limits.reached(2, "each") == set()
    assert limits.reached(3, "each") == {0, 1}


@pytest.mark.parametrize(("parallelism", "sources"), [(1, 1), (3, 3)])
def test_the_sources_of_what_was_taken_are_idle(parallelism: int, sources: int) -> None:
    job = graph(numbers().map(str).take(5).sink(Discard()), parallelism=parallelism)
    assert len(idle(job, "take")) == sources


def test_a_source_that_leads_elsewhere_too_is_not_idle() -> None:
    stream = numbers()
    job = graph(stream.take(5).sink(Discard()), stream.map(str).sink(Discard()))
    assert idle(job, "take") == set()


def test_all_that_was_taken_from_one_source_must_be_there() -> None:
    stream = numbers()
    job = graph(
        stream.take(5).named("a").sink(Discard()), stream.take(9).named("b").sink(Discard())
    )
    assert idle(job, "a") == set()
    assert idle(job, "a", "b") == {"numbers[0]"}


def test_of_two_sources_the_one_that_is_not_wanted_is_idle() -> None:
    few = numbers("few").take(5)
    job = graph(few.union(numbers("many")).sink(Discard()))
    assert idle(job, "take") == {"few -> take[0]"}


def test_errors_that_are_read_before_the_limit_keep_the_source_wanted() -> None:
    stream = numbers().map(str, on_error="side")
    job = graph(stream.take(5).sink(Discard()), stream.side("errors").sink(Discard()))
    assert idle(job, "take") == set()


def test_errors_behind_the_limit_do_not() -> None:
    stream = numbers().take(5).map(str, on_error="side")
    job = graph(stream.sink(Discard()), stream.side("errors").sink(Discard()))
    assert idle(job, "take") == {"numbers -> take -> map -> discard[0]"}
