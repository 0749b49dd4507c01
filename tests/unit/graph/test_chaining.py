"""Which operators share a vertex."""

import pytest

from engine.errors import GraphError
from engine.graph import Broadcast, Forward, Hash, JobGraph, Rebalance, chain, logical_graph
from operators import Pipeline, Stream, source
from operators.sinks import Collect, Counts, Discard
from operators.sources import Collection


def numbers() -> Stream[int]:
    return source(Collection([1, 2, 3])).named("numbers")


def planned(*pipelines: Pipeline, parallelism: int = 2) -> JobGraph:
    return chain(logical_graph(pipelines), parallelism)


def names(job: JobGraph) -> list[str]:
    return [vertex.name for vertex in job.vertices]


def test_forward_edges_fuse() -> None:
    job = planned(numbers().map(str).filter(bool).sink(Collect()))
    assert names(job) == ["numbers -> map -> filter -> collect"]
    assert job.edges == ()
    assert job.vertices[0].is_source
    assert job.vertices[0].is_sink
    assert job.vertices[0].parallelism == 2


def test_word_count_is_two_vertices() -> None:
    job = planned(numbers().map(lambda n: (n, 1)).key_by(0).count().sink(Counts()))
    assert names(job) == ["numbers -> map", "count -> counts"]
    assert [(edge.source, edge.target, edge.partitioner) for edge in job.edges] == [(0, 1, Hash(0))]
    assert not job.vertices[0].is_sink
    assert not job.vertices[1].is_source


def test_a_key_function_runs_before_the_network() -> None:
    stream = numbers().with_parallelism(3)
    job = planned(stream.key_by(lambda n: n % 2).count().sink(Counts()))
    assert names(job) == ["numbers -> key_by", "count -> counts"]
    assert [vertex.parallelism for vertex in job.vertices] == [3, 2]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_other_partitioners_do_not_fuse(parallelism: int) -> None:
    job = planned(
        numbers().rebalance().map(str).broadcast().filter(bool).sink(Collect()),
        parallelism=parallelism,
    )
    assert names(job) == ["numbers", "map", "filter -> collect"]
    assert [edge.partitioner for edge in job.edges] == [Rebalance(), Broadcast()]


def test_other_parallelism_does_not_fuse() -> None:
    job = planned(numbers().map(str).sink(Collect()).with_parallelism(1))
    assert names(job) == ["numbers -> map", "collect"]
    assert job.edges[0].partitioner == Forward()


def test_forward_to_more_tasks_becomes_a_rebalance() -> None:
    job = planned(numbers().with_parallelism(1).map(str).sink(Collect()))
    assert names(job) == ["numbers", "map -> collect"]
    assert job.edges[0].partitioner == Rebalance()


def test_a_branch_does_not_fuse() -> None:
    shared = numbers().map(str)
    job = planned(shared.sink(Collect()), shared.filter(bool).sink(Discard()))
    assert names(job) == ["numbers -> map", "collect", "filter -> discard"]


def test_a_union_does_not_fuse() -> None:
    job = planned(numbers().union(source(Collection([4]))).map(str).sink(Collect()))
    assert names(job) == ["numbers", "collection", "map -> collect"]


def test_resources_are_the_most_that_one_operator_asks_for() -> None:
    stream = numbers().with_resources(cpus=0.5, gpus=1).map(str).with_resources(cpus=2)
    assert planned(stream.sink(Collect())).vertices[0].resources == {"cpus": 2.0, "gpus": 1.0}
    assert planned(numbers().sink(Collect())).vertices[0].resources == {"cpus": 1.0}


def test_a_task_may_take_less_than_a_cpu() -> None:
    stream = numbers().with_resources(cpus=0.25)
    assert planned(stream.sink(Collect())).vertices[0].resources == {"cpus": 0.25}


def test_resources_of_the_settings_are_by_operator_and_star_is_all_of_them() -> None:
    pipeline = numbers().map(str).with_resources(gpus=1).rebalance().sink(Collect())
    settings = {
        "*": {"slot": 1, "gpus": 2, "cpus": 2},
        "collect": {"slot": 0, "cpus": 4, "disk": 1},
    }
    first, last = chain(logical_graph([pipeline]), 1, settings).vertices
    assert first.resources == {
        "cpus": 2.0,
        "slot": 1.0,
        "gpus": 1.0,
    }  # the pipeline's own number wins
    assert last.resources == {"cpus": 4.0, "slot": 0.0, "gpus": 2.0, "disk": 1.0}


def test_resources_of_an_operator_that_is_not_there_are_refused() -> None:
    with pytest.raises(GraphError, match="'colect', which the pipeline does not have") as caught:
        chain(logical_graph([numbers().sink(Collect())]), 1, {"colect": {"slot": 1}})
    assert "numbers, collect" in str(caught.value.hint)


@pytest.mark.parametrize("parallelism", [0, -1])
def test_parallelism_below_one(parallelism: int) -> None:
    with pytest.raises(GraphError, match=f"parallelism is {parallelism}, expected >= 1"):
        planned(numbers().sink(Collect()), parallelism=parallelism)
