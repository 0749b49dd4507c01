"""Which sources are of no use once operators with a limit have emitted all that they will."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.config import JobConfig
from engine.graph.execution import ExecutionGraph
from engine.job import Plan
from engine.runtime.description import OperatorStatistics, TaskStatistics
from engine.runtime.limits import Limits
from operators import Stream, source
from operators.sinks import Discard
from operators.sources import Collection


def numbers(name: str = "numbers") -> Stream[int]:
    return source(Collection([1])).named(name)


def graph(*pipelines: Any, parallelism: int = 1) -> ExecutionGraph:
    return Plan.of(list(pipelines), JobConfig(parallelism=parallelism)).execution


def told(execution: ExecutionGraph, emitted: Mapping[str, int]) -> list[TaskStatistics]:
    return [
        TaskStatistics(
            vertex.job_vertex.name,
            vertex.index,
            tuple(
                OperatorStatistics(operator.name, 0, emitted.get(operator.name, 0))
                for operator in vertex.job_vertex.operators
            ),
            *[0.0] * 5,
            None,
            None,
            None,
        )
        for vertex in execution.vertices
    ]


def idle(execution: ExecutionGraph, **emitted: int) -> set[str]:
    found = Limits(execution).idle_sources(told(execution, emitted))
    return {vertex.name for vertex in execution.vertices if vertex.id in found}


def test_a_job_without_limits_has_none() -> None:
    assert not Limits(graph(numbers().sink(Discard())))


@pytest.mark.parametrize(("parallelism", "sources"), [(1, 1), (3, 3)])
def test_the_sources_of_what_was_taken_are_idle(parallelism: int, sources: int) -> None:
    job = graph(numbers().map(str).take(5).sink(Discard()), parallelism=parallelism)
    assert Limits(job)
    assert idle(job, take=4) == set()
    assert len(idle(job, take=5)) == sources


def test_a_source_that_leads_elsewhere_too_is_not_idle() -> None:
    stream = numbers()
    job = graph(stream.take(5).sink(Discard()), stream.map(str).sink(Discard()))
    assert idle(job, take=5) == set()


def test_all_that_was_taken_from_one_source_must_be_there() -> None:
    stream = numbers()
    job = graph(
        stream.take(5).named("a").sink(Discard()), stream.take(9).named("b").sink(Discard())
    )
    assert idle(job, a=5) == set()
    assert idle(job, a=5, b=9) == {"numbers[0]"}


def test_of_two_sources_the_one_that_is_not_wanted_is_idle() -> None:
    few = numbers("few").take(5)
    job = graph(few.union(numbers("many")).sink(Discard()))
    assert idle(job, take=5) == {"few -> take[0]"}


def test_errors_that_are_read_before_the_limit_keep_the_source_wanted() -> None:
    stream = numbers().map(str, on_error="side")
    job = graph(stream.take(5).sink(Discard()), stream.side("errors").sink(Discard()))
    assert idle(job, take=5) == set()


def test_errors_behind_the_limit_do_not() -> None:
    stream = numbers().take(5).map(str, on_error="side")
    job = graph(stream.sink(Discard()), stream.side("errors").sink(Discard()))
    assert idle(job, take=5) == {"numbers -> take -> map -> discard[0]"}
