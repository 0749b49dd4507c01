"""The size of a job's cluster: as many pods as its tasks need, and not one more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import JobConfig
from engine.errors import PlacementError
from engine.placement.nodes import Node
from engine.placement.place import place
from engine.plan import Plan
from k8s.size import most_channels, pod_memory, pods_needed
from operators import Pipeline, source
from operators.sinks import Collect
from operators.sources import Collection
from pipelines.word_count import word_count
from tests.part import examples

GIB = 1024**3


def plan(parallelism: int, placement: str = "operator_first", **more: object) -> Plan:
    config = JobConfig.of({"parallelism": parallelism, "placement": placement, **more})
    return Plan.of(word_count(), config)


def shape(slots: int) -> dict[str, dict[str, float]]:
    return {"operators": {"cpus": float(slots)}}


@pytest.mark.parametrize(
    ("placement", "parallelism", "slots", "pods"),
    [
        ("operator_first", 4, 4, 2),  # source and count have pods of their own
        ("operator_first", 5, 4, 4),
        ("operator_first", 1, 8, 2),
        ("parallelism_first", 1, 8, 1),
        ("parallelism_first", 8, 8, 2),
        ("parallelism_first", 3, 2, 3),
    ],
)
def test_pods_that_a_word_count_needs(
    placement: str, parallelism: int, slots: int, pods: int
) -> None:
    assert pods_needed(plan(parallelism, placement), shape(slots)) == {"operators": pods}


def test_tasks_go_to_pods_that_have_what_they_ask_for() -> None:
    pipeline: Pipeline = (
        source(Collection([1]))
        .with_parallelism(1)
        .with_resources(download=1)
        .broadcast()
        .sink(Collect())
        .with_parallelism(5)
        .with_resources(loader_slot=1)
    )
    planned = Plan.of(pipeline, JobConfig(placement="parallelism_first"))
    shapes = {
        "operators": {"cpus": 4.0, "download": 1.0},
        "loaders": {"cpus": 4.0, "loader_slot": 2.0},
        "idle": {"cpus": 4.0},
    }
    assert pods_needed(planned, shapes) == {"operators": 1, "loaders": 3, "idle": 0}


def test_tasks_that_fit_no_pod_are_told() -> None:
    with pytest.raises(PlacementError, match="operator_slot"):
        pods_needed(plan(2, resources={"*": {"operator_slot": 1}}), shape(4))


@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 5), st.sampled_from(["operator_first", "parallelism_first"])
)
def test_the_tasks_fit_on_these_pods_and_not_on_fewer(
    parallelism: int, slots: int, placement: str
) -> None:
    planned = plan(parallelism, placement, strict_placement=placement == "operator_first")
    pods = pods_needed(planned, shape(slots))["operators"]

    def placed(count: int) -> None:
        nodes = [Node(str(number), "", {"cpus": float(slots)}) for number in range(count)]
        place(planned.execution, nodes, placement, planned.config.strict_placement)  # type: ignore[arg-type]

    placed(pods)
    with pytest.raises(PlacementError):
        placed(pods - 1)


def test_memory_grows_with_slots_channels_and_shared_memory() -> None:
    config = JobConfig()
    assert pod_memory(4, 4, config, 2 * GIB) == 5 * GIB
    assert pod_memory(8, 4, config, 2 * GIB) == 7 * GIB
    assert pod_memory(4, 4, config, 4 * GIB) == 7 * GIB
    assert pod_memory(4, 1000, config, 2 * GIB) > 8 * GIB


def test_channels_of_the_task_that_has_most() -> None:
    assert most_channels(plan(3).execution) == 3
    assert most_channels(plan(1).execution) == 1
