"""A node of a Ray cluster that dies with the tasks on it: the job goes on on another."""

from __future__ import annotations

import os
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
def cluster(ray_cluster: Any) -> Iterator[Any]:
    """The tests' cluster with two nodes more, each of which has room for all tasks of the job."""
    added = [ray_cluster.add_node(num_cpus=4, resources={"doomed": 4}) for _ in range(2)]
    ray_cluster.wait_for_nodes()
    yield ray_cluster
    for node in added:
        if node in ray_cluster.worker_nodes:
            ray_cluster.remove_node(node)


def nodes(job: engine.JobHandle) -> set[str]:
    """Where its tasks are."""
    return {worker.node.id for worker in job._master._workers}


@pytest.mark.skipif("CHAOS_SEEDS" not in os.environ, reason="`make chaos` kills nodes of Ray")
@pytest.mark.ray
@pytest.mark.timeout(900)
def test_tasks_of_a_dead_node_go_on_on_another(cluster: Any, tmp_path: Path) -> None:
    with held(tmp_path):
        settings = {"runtime": "ray", "resources": {"*": {"doomed": 1}}}
        job = engine.submit(*checkpointed.job(tmp_path, RECORDS, **settings))
        wait_until(lambda: newest(tmp_path) >= 2)
        assert len(nodes(job)) == 2
        lost = min(nodes(job))
        (raylet,) = (each for each in cluster.worker_nodes if each.node_id == lost)
        cluster.remove_node(raylet, allow_graceful=False)
        wait_until(lambda: lost not in nodes(job), seconds=300)
        before = newest(tmp_path)
        wait_until(lambda: newest(tmp_path) >= before + 2)
    result = job.wait_finished(300)
    assert result.statistics.restarts >= 1
    assert found(tmp_path / "out") == expected(RECORDS)
    assert left_over(tmp_path / "out") == []
