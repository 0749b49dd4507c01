"""Which sources the master ends: those that nobody reads any more."""

from __future__ import annotations

from typing import Any

from engine.driver.needed import unneeded_sources
from engine.graph import chain, logical_graph
from engine.graph.execution import ExecutionGraph, expand
from operators import Pipeline, Stream, source
from operators.sinks import Collect
from operators.sources import Collection


def records(name: str) -> Stream[int]:
    return source(Collection([1])).named(name).with_parallelism(1)


def served(numbers: Stream[Any], models: Stream[Any], name: str) -> Stream[Any]:
    return numbers.map_batches_with_model(models, str, lambda model, batch: batch).named(name)


def graph(*pipelines: Pipeline, parallelism: int = 1) -> ExecutionGraph:
    return expand(chain(logical_graph(pipelines), parallelism))


def unneeded(of: ExecutionGraph, *finished: str) -> set[str]:
    """Names of the sources' tasks that are to end, where tasks with these names have."""
    ids = {task.id for task in of.vertices if task.name.startswith(finished or ("nothing",))}
    assert not finished or len(ids) >= len(finished)
    found = unneeded_sources(of, ids)
    return {task.name for task in of.vertices if task.id in found}


def test_a_source_is_needed_to_its_end_where_every_input_is_waited_for() -> None:
    plain = graph(records("numbers").rebalance().map(str).sink(Collect()), parallelism=2)
    assert unneeded(plain) == set()
    assert unneeded(plain, "numbers") == set()
    assert unneeded(plain, "numbers", "map") == set()


def test_models_are_needed_until_every_task_with_a_model_has_ended() -> None:
    models = records("models").broadcast()
    job = graph(served(records("numbers"), models, "served").sink(Collect()), parallelism=2)
    assert unneeded(job) == set()
    assert unneeded(job, "numbers") == set()
    assert unneeded(job, "numbers", "served -> collect[0]") == set()
    assert unneeded(job, "numbers", "served -> collect[0]", "served -> collect[1]") == {"models[0]"}
    assert unneeded(job, "numbers", "served", "models") == set()


def test_what_is_between_passes_on_that_nobody_reads() -> None:
    models = records("models").rebalance().map(str).named("made").with_parallelism(2).broadcast()
    job = graph(served(records("numbers"), models, "served").sink(Collect()))
    assert unneeded(job, "numbers", "served") == {"models[0]"}


def test_models_that_others_read_too_are_needed() -> None:
    models = records("models").broadcast()
    first = served(records("numbers"), models, "first").sink(Collect())
    second = served(records("others"), models, "second").sink(Collect())
    job = graph(first, second)
    assert unneeded(job, "numbers", "first") == set()
    assert unneeded(job, "numbers", "first", "others", "second") == {"models[0]"}
    kept = graph(first, models.map(str).named("kept").sink(Collect()))
    assert unneeded(kept, "numbers", "first") == set()


def test_two_steps_with_the_same_models_end_one_after_the_other() -> None:
    models = records("models").broadcast()
    first = served(records("numbers"), models, "first")
    job = graph(served(first.rebalance(), models, "second").sink(Collect()))
    assert unneeded(job, "numbers", "first") == set()
    assert unneeded(job, "numbers", "first", "second") == {"models[0]"}
