"""Nodes: the resources that each has for the tasks of a job, what is left, and texts of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.graph.execution import ExecutionVertex
from engine.graph.job import JobVertex


@dataclass(frozen=True)
class Node:
    """A machine: `resources` are what the job's tasks may use together, such as `{"cpus": 8.0}`.

    A node has none of a resource that is not listed; `math.inf` is an unlimited one.
    """

    id: str
    address: str
    resources: Mapping[str, float]
    title: str = ""
    """Its name in messages, if that is not its address."""
    total: Mapping[str, float] | None = None
    """Its resources for all users; None if the job is the only user."""
    doubtful: bool = False
    """Whether it did not answer the last request."""

    @property
    def whole(self) -> Node:
        """The node without other users."""
        return self if self.total is None else replace(self, resources=self.total, total=None)

    @property
    def name(self) -> str:
        """Its name in messages: its address, which says more than its id."""
        return self.title or self.address or self.id


class Room:
    """The free resources of nodes while tasks are placed on them, first fit."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._left = [(node, dict(node.resources)) for node in nodes]

    def fill(self, tasks: Sequence[ExecutionVertex]) -> dict[int, Node] | None:
        """A node for every task, or None."""
        placed: dict[int, Node] = {}
        for task in tasks:
            node = self.take_together([task])
            if node is None:
                return None
            placed[task.id] = node
        return placed

    def take(self, task: ExecutionVertex, wanted: Node) -> bool:
        """Whether that node has room for the task; if so, the task takes it."""
        has_room = wanted in self.with_room(task)
        if has_room:
            self.give(task, wanted.id)
        return has_room

    def with_room(self, task: ExecutionVertex) -> list[Node]:
        """The nodes that have room for the task."""
        return [node for node, left in self._left if covers(left, needs(task))]

    def give(self, task: ExecutionVertex, node_id: str) -> None:
        """Take the task's needs from that node, even if that is more than is left."""
        for node, left in self._left:
            if node.id == node_id:
                add_to(left, needs(task), -1.0)

    def left(self) -> list[Node]:
        """The nodes with their free resources."""
        return [replace(node, resources=left) for node, left in self._left]

    def take_together(self, tasks: Sequence[ExecutionVertex]) -> Node | None:
        """The first node with room for all the tasks, which then take it; or None."""
        needed = total(needs(task) for task in tasks)
        for node, left in self._left:
            if covers(left, needed):
                add_to(left, needed, -1.0)
                return node
        return None


def tasks_that_fit(node: Node, vertex: JobVertex) -> int:
    """The number of the vertex's tasks that the node has room for."""
    fits = min(
        (
            (node.resources.get(name, 0.0) + _ROUNDING) / amount
            for name, amount in vertex.resources.items()
            if amount > 0
        ),
        default=math.inf,
    )
    return int(min(fits, vertex.parallelism))


def needs(task: ExecutionVertex) -> Mapping[str, float]:
    """The task's needs."""
    return task.job_vertex.resources


def there_is(nodes: Sequence[Node]) -> str:
    """The nodes' resources as a text, with the first nodes by name."""
    named = [f"{node.name} ({_free(node)})" for node in nodes[:_MOST_NAMED]]
    named += [f"{len(nodes) - _MOST_NAMED} more"] * (len(nodes) > _MOST_NAMED)
    in_all = listed(total(node.resources for node in nodes))
    return f"{', '.join(named) or 'no node'}, in all {in_all}"


def _free(node: Node) -> str:
    """The node's free resources as a text, with the whole where others use it, too."""
    return (
        ", ".join(
            f"{name} {amount:g}"
            if abs((whole := node.whole.resources.get(name, 0.0)) - amount) <= _ROUNDING
            or whole == amount
            else f"{name} {amount:g} free of {whole:g}"
            for name, amount in node.resources.items()
        )
        or "nothing"
    )


def covers(there_is: Mapping[str, float], needed: Mapping[str, float]) -> bool:
    """Whether the resources are enough, up to the rounding of sums."""
    return all(there_is.get(name, 0.0) >= amount - _ROUNDING for name, amount in needed.items())


def add_to(amounts: dict[str, float], more: Mapping[str, float], times: float = 1.0) -> None:
    """Add these amounts `times` times, by the name of the resource."""
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0.0) + times * amount


def total(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sum of the amounts, by the name of the resource."""
    found: dict[str, float] = {}
    for each in amounts:
        add_to(found, each)
    return found


def listed(resources: Mapping[str, float]) -> str:
    """The amounts as a text."""
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items()) or "nothing"


_MOST_NAMED = 8
_ROUNDING = 1e-9  # sums of fractions such as 10 x 0.1
