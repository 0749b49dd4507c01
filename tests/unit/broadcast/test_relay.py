"""Who hands models to whom: the cases that one draws on paper."""

import pytest

from engine.broadcast.relay import BlobRole, blob_roles, model_tasks
from engine.errors import GraphError
from engine.graph import (
    Broadcast,
    ExecutionGraph,
    Forward,
    JobEdge,
    JobGraph,
    JobVertex,
    LogicalOperator,
    Partitioner,
    expand,
)
from engine.placement.nodes import Node
from engine.placement.place import Placement
from tests.publishing import Publisher


def graph(
    loaders: int, via: str | None = "channels", partitioner: Partitioner | None = None
) -> ExecutionGraph:
    """One task that publishes, and those that load."""
    download, load = (
        JobVertex(number, (LogicalOperator(number, name, Publisher(way), None, {}),), tasks, {})
        for number, (name, way, tasks) in enumerate([("download", via, 1), ("load", None, loaders)])
    )
    edge = JobEdge(0, 0, 1, partitioner or Broadcast())
    return expand(JobGraph((download, load), (edge,)))


def roles(nodes: str, via: str = "channels") -> dict[int, BlobRole]:
    """Of tasks on these nodes, the one that publishes first: `roles("abb")`."""
    placement = Placement({task: Node(node, "", {}) for task, node in enumerate(nodes)})
    return blob_roles(graph(len(nodes) - 1, via), placement)


def test_one_loader_on_another_node() -> None:
    assert roles("ab") == {0: BlobRole(origin=True, chain=(1,)), 1: BlobRole(peers=(0,))}


def test_loaders_beside_the_origin_follow_it() -> None:
    assert roles("aaa") == {
        0: BlobRole(origin=True, followers=2),
        1: BlobRole(leaders=((0, 0),)),
        2: BlobRole(leaders=((0, 0),)),
    }


def test_a_chain_of_nodes_and_followers_on_one_of_them() -> None:
    assert roles("abcbd") == {
        0: BlobRole(origin=True, chain=(1, 2, 4)),
        1: BlobRole(peers=(0,), followers=1),
        2: BlobRole(peers=(0, 1)),
        3: BlobRole(leaders=((0, 1),)),
        4: BlobRole(peers=(0, 1, 2)),
    }


def test_models_that_do_not_travel_by_relay_need_no_role() -> None:
    assert roles("ab", "plasma") == {}
    assert model_tasks(graph(2, "plasma")) == {0, 1, 2}
    assert model_tasks(graph(2, None)) == set()


def test_models_for_some_tasks_only_are_refused() -> None:
    with pytest.raises(GraphError, match=r"'download' publishes .* of 'load' \(forward\)"):
        model_tasks(graph(1, partitioner=Forward()))
