"""The resources that tasks without a node lack, and the tasks that would wait in vain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.errors import PlacementError
from engine.graph.execution import ExecutionGraph
from engine.graph.job import JobVertex
from engine.placement.nodes import Node, add_to, covers, listed, tasks_that_fit, there_is


def shortage(
    needed: Sequence[Mapping[str, float]], there_is: Sequence[Mapping[str, float]]
) -> tuple[int, dict[str, float]]:
    """The number of tasks that fit on the nodes, largest first, and the needs of the others.

    >>> shortage([{"cpus": 2.0}] * 3, [{"cpus": 3.0}, {"cpus": 1.0}])
    (1, {'cpus': 4.0})
    """
    left = [dict(node) for node in there_is]
    placed, lacking = 0, dict[str, float]()
    for need in sorted(needed, key=lambda each: -sum(each.values())):
        for room in left:
            if covers(room, need):
                add_to(room, need, -1.0)
                placed += 1
                break
        else:
            add_to(lacking, need)
    return placed, lacking


def waiting_for(lacking: Mapping[str, float]) -> str:
    """The missing resources as a text.

    >>> waiting_for({"cpus": 4.0, "gpus": 1.0, "memory": 2e9, "slot": 0.5})
    '4 CPUs, 1 GPU, 2 GB of memory, slot 0.5'
    """
    return ", ".join(_amount(name, amount) for name, amount in lacking.items() if amount) or "room"


def too_large(
    graph: ExecutionGraph, nodes: Sequence[Node], kinds: Sequence[Mapping[str, float]]
) -> PlacementError | None:
    """The error for a task that is larger than every node, so that no further one would help.

    `kinds` are the resources of nodes that the cluster can start by itself. If it can start none,
    and no node has any of a resource that the task needs, a node with it may still come.
    """
    own = [node.whole for node in nodes]
    could_be = [*own, *(Node("", "", kind) for kind in kinds)]
    for vertex in graph.job.vertices:
        if any(tasks_that_fit(node, vertex) for node in could_be):
            continue
        needed = {name: amount for name, amount in vertex.resources.items() if amount}
        largest = {
            name: max((node.resources.get(name, 0.0) for node in could_be), default=0.0)
            for name in needed
        }
        if kinds or all(largest.values()):
            return _error(vertex, needed, largest, own)
    return None


def _error(
    vertex: JobVertex,
    needed: Mapping[str, float],
    largest: Mapping[str, float],
    nodes: Sequence[Node],
) -> PlacementError:
    short = {name: amount for name, amount in largest.items() if amount < needed[name]}
    most = (
        f"the largest node has {listed(short)}"
        if short
        else f"no node has {listed(needed)} at once"
    )
    return PlacementError(
        f"a task of {vertex.name!r} takes {listed(needed)}, and {most}; there is: "
        f"{there_is(nodes)}",
        "ask for less by .with_resources(...) or the setting `resources`, or start nodes that are "
        "large enough before the job: more of these do not help",
    )


def _amount(name: str, amount: float) -> str:
    if name in ("cpus", "gpus"):
        return f"{amount:g} {name[:-1].upper()}{'s' * (amount != 1)}"
    if name == "memory":
        return f"{amount / 1e9:g} GB of memory"
    return f"{name} {amount:g}"
