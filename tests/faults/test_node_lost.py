"""A node of a Ray cluster that dies with the tasks on it: the job goes on on another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from tests.integration import checkpointed
from tests.integration.checkpointed import expected, found, held, left_over, newest
from tests.waiting import wait_until

RECORDS = 4000


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head without CPUs, and two nodes each of which has room for all tasks of the job."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=4)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level="WARNING")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def nodes(job: engine.JobHandle) -> set[str]:
    """Where its tasks are."""
    return {worker.node.id for worker in job._master._workers}


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_tasks_of_a_dead_node_go_on_on_another(cluster: Any, tmp_path: Path) -> None:
    import ray

    ours = ray.get_runtime_context().get_node_id()
    with held(tmp_path):
        settings = {
            "runtime": "ray",
            "placement": "operator_first",
            "restarts": 10,
            "progress": "line",
        }
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS, **settings))
        wait_until(lambda: newest(tmp_path) >= 2, seconds=60)
        lost = next(node for node in nodes(job) if node != ours)
        (raylet,) = (each for each in cluster.worker_nodes if each.node_id == lost)
        cluster.remove_node(raylet, allow_graceful=False)
        wait_until(lambda: lost not in nodes(job), seconds=120)
        before = newest(tmp_path)
        wait_until(lambda: newest(tmp_path) >= before + 2, seconds=60)
    result = job.wait_finished(60)
    assert result.statistics.restarts >= 1
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []
