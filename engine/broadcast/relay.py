"""The paths of large values: from ExecutionGraph + Placement to a BlobRole for each task.

A task that publishes models is an *origin*. On its way to the tasks that receive them, each model
crosses the network once to each node: along a chain of *leaders*, one per node, in which every one
relays chunks while more come in. On a node the leader gives the one copy to the other receiving
tasks there, its *followers*. On its own node the origin itself leads.

Invariant: for each origin, every task that receives from it either leads its node, or follows the
task that does; the chain has every node of such a task once, except the origin's own. Planning is
pure: the same graph and placement give the same roles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.broadcast.backend import Publisher
from engine.errors import GraphError
from engine.graph.execution import ExecutionGraph
from engine.partitioner import Broadcast
from engine.placement.place import Placement


@dataclass(frozen=True)
class BlobRole:
    """The role of one task for the large values of its job; tasks are named by their ids."""

    origin: bool = False
    """Whether it publishes."""
    chain: tuple[int, ...] = ()
    """Where an origin relays to: the leaders of the other nodes, in order."""
    leaders: tuple[tuple[int, int], ...] = ()
    """For each origin that it follows: the origin, and the leader on this node."""
    peers: tuple[int, ...] = ()
    """Tasks that may send to it over the network: those before it in a chain, origins included."""
    followers: int = 0
    """How many tasks of its node follow it."""


def blob_roles(graph: ExecutionGraph, placement: Placement) -> dict[int, BlobRole]:
    """The role of each task that hands models on or is handed them; others have none.

    Raises `GraphError` where published models do not go to every task that reads them.
    """
    origins: set[int] = set()
    chains: dict[int, tuple[int, ...]] = {}
    leaders: dict[int, list[tuple[int, int]]] = {}
    peers: dict[int, set[int]] = {}
    followers: dict[int, set[int]] = {}
    for origin, receivers in _published(graph, lambda publishing: publishing.relays):
        by_node = _by_node(receivers, placement)
        own = by_node.pop(placement.nodes[origin].id, [])
        chain = tuple(sorted(tasks[0] for tasks in by_node.values()))
        origins.add(origin)
        chains[origin] = chain
        for leader, following in [
            (origin, own),
            *((each[0], each[1:]) for each in by_node.values()),
        ]:
            followers.setdefault(leader, set()).update(following)
            for task in following:
                leaders.setdefault(task, []).append((origin, leader))
        for place, task in enumerate(chain):
            peers.setdefault(task, set()).update((origin, *chain[:place]))
    return {
        task: BlobRole(
            task in origins,
            chains.get(task, ()),
            tuple(leaders.get(task, ())),
            tuple(sorted(peers.get(task, ()))),
            len(followers.get(task, ())),
        )
        for task in sorted({*origins, *leaders, *peers})
    }


def model_tasks(graph: ExecutionGraph) -> set[int]:
    """The tasks that publish models or receive them, whichever way."""
    return {task for origin, receivers in _published(graph) for task in (origin, *receivers)}


def _published(
    graph: ExecutionGraph, has: Callable[[Publisher], bool] = lambda _publishing: True
) -> Iterator[tuple[int, list[int]]]:
    """Each task that publishes in such a way, and those that it sends to, by id."""
    for vertex in graph.vertices:
        wanted = (
            each.operator.properties.wanted(Publisher) for each in vertex.job_vertex.operators
        )
        if not any(each is not None and has(each) for each in wanted):
            continue
        receivers: set[int] = set()
        for edge, channels in graph.outputs(vertex):
            if not isinstance(edge.partitioner, Broadcast):
                raise GraphError(
                    f"{vertex.job_vertex.name!r} publishes models to some of the tasks of "
                    f"{graph.job.vertices[edge.target].name!r} ({edge.partitioner.name}), expected "
                    "all of them",
                    hint="read models right after .broadcast(via=...), and divide what comes of it",
                )
            receivers.update(channel.target for channel in channels)
        yield vertex.id, sorted(receivers)


def _by_node(tasks: list[int], placement: Placement) -> dict[str, list[int]]:
    hosted: dict[str, list[int]] = {}
    for task in tasks:
        hosted.setdefault(placement.nodes[task].id, []).append(task)
    return hosted
