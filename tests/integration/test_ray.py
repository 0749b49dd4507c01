"""The Ray runtime on real Ray, several raylets on this machine: placement, counts, refusals."""

from __future__ import annotations

import time
from collections import Counter

import pytest

import engine
from operators import source
from operators.sinks import Collect, Counts
from operators.sources import Collection
from pipelines.word_count import count, random_word_count, word_count
from tests.integration.test_word_count import expected_counts

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "nothing_left")]


def node_id(_record: object) -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def nodes_of_two_vertices(placement: str) -> tuple[set[str], set[str]]:
    """Nodes that the tasks of the source's chain and those of the sink's chain ran on."""
    pipeline = (
        source(Collection(range(40)))
        .map(node_id)
        .rebalance()
        .map(lambda sender: (sender, node_id(sender)))
        .sink(Collect())
    )
    found = engine.execute(pipeline, runtime="ray", parallelism=2, placement=placement).output
    assert len(found) == 40
    return {sender for sender, _ in found}, {receiver for _, receiver in found}


def test_operator_first_gives_each_vertex_nodes_of_its_own() -> None:
    senders, receivers = nodes_of_two_vertices("operator_first")
    assert not senders & receivers


def test_parallelism_first_keeps_both_vertices_on_the_same_nodes() -> None:
    senders, receivers = nodes_of_two_vertices("parallelism_first")
    assert senders == receivers


@pytest.mark.parametrize("parallelism", [1, 8])
@pytest.mark.parametrize("api", ["per_record", "native"])
def test_counts_of_a_real_text_over_tcp_between_nodes(parallelism: int, api: str) -> None:
    result = engine.execute(word_count(api=api), runtime="ray", parallelism=parallelism)
    assert result.output == expected_counts()


@pytest.mark.parametrize("transport", ["shm", "ipc", "tcp"])
@pytest.mark.parametrize("batch_size", [1, 10_000])
def test_any_channel_on_one_node(transport: str, batch_size: int) -> None:
    words = ["a", "b", "a", "c"] * 500
    result = engine.execute(
        count(source(Collection(words)), "per_record").sink(Counts()),
        runtime="ray",
        parallelism=2,
        batch_size=batch_size,
        transport=transport,
        placement="parallelism_first",
    )
    assert result.output == Counter(words)


def test_shared_memory_between_nodes_is_refused() -> None:
    with pytest.raises(engine.ConfigError, match="expected one node"):
        engine.execute(word_count(), runtime="ray", transport="shm")


def test_a_cluster_that_is_too_small_is_named_before_anything_starts() -> None:
    with pytest.raises(engine.PlacementError) as caught:
        engine.execute(word_count(), runtime="ray", parallelism=50)
    assert "hint:" in str(caught.value)
    assert "50" in str(caught.value)


def test_custom_resources_pin_tasks() -> None:
    words = source(Collection(range(4))).map(node_id).with_resources(slot=2)
    nodes = engine.execute(words.sink(Collect()), runtime="ray", parallelism=3).output
    assert len(set(nodes)) == 3
    too_many = source(Collection(range(4))).map(node_id).with_resources(slot=3).sink(Collect())
    with pytest.raises(engine.PlacementError, match="slot"):
        engine.execute(too_many, runtime="ray")


def test_resources_of_the_settings_pin_tasks() -> None:
    pipeline = source(Collection(range(4))).map(node_id).rebalance().sink(Collect())
    nodes = engine.execute(
        pipeline,
        runtime="ray",
        parallelism=3,
        placement="parallelism_first",
        resources={"*": {"slot": 2}, "collect": {"slot": 0}},
    ).output
    assert len(set(nodes)) == 3


def test_an_empty_job_starts_and_ends_quickly() -> None:
    empty = source(Collection([])).key_by().count().sink(Counts())
    engine.execute(empty, runtime="ray")
    started = time.monotonic()
    engine.execute(empty, runtime="ray")
    assert time.monotonic() - started < 20  # 3 s on a quiet machine


def test_latency_crosses_ray_nodes() -> None:
    result = engine.execute(random_word_count(1.0, 8, rate=5000.0, api="native"), runtime="ray")
    assert result.latency.count > 10
    assert sum(result.output.values()) == result.statistics.source_records


@pytest.mark.parametrize("after", [0.0, 0.3, 0.6, 0.9, 1.2])
def test_a_job_cancelled_while_it_starts_leaves_nothing(after: float) -> None:
    handle = engine.submit(
        random_word_count(60, 8, api="native"), runtime="ray", placement="parallelism_first"
    )
    time.sleep(after)
    handle.cancel()
    with pytest.raises(engine.JobCancelled):
        handle.wait_finished(10)
    handle.wait_stopped()
