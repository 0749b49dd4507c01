"""Nodes: the resources that each has for the tasks of a job, what is left, and both in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.graph.execution import ExecutionVertex
from engine.graph.job import JobVertex


@dataclass(frozen=True)
class Node:
    """A machine: `resources` are what the job's tasks may use together, such as `{"cpus": 8.0}`.

    A resource that is not listed is not there; `math.inf` is one that does not run out.
    """

    id: str
    address: str
    resources: Mapping[str, float]
    title: str = ""
    """What people call it, where that is more than its address."""
    total: Mapping[str, float] | None = None
    """All that it has, for all its users; None: nobody but the job uses it."""
    doubtful: bool = False
    """Whether it was out of reach when something was last asked of it."""

    @property
    def whole(self) -> Node:
        """The node as it is when nobody else uses it."""
        return self if self.total is None else replace(self, resources=self.total, total=None)

    @property
    def name(self) -> str:
        """What to call it in a message: where it is, which says more than its id."""
        return self.title or self.address or self.id


class Room:
    """What nodes still have to give while tasks are placed on them, first fit."""

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
        """Whether that node has room for the task, which then takes it."""
        has_room = wanted in self.with_room(task)
        if has_room:
            self.give(task, wanted.id)
        return has_room

    def with_room(self, task: ExecutionVertex) -> list[Node]:
        """The nodes that have room for the task."""
        return [node for node, left in self._left if covers(left, needs(task))]

    def give(self, task: ExecutionVertex, node_id: str) -> None:
        """Give the task what it needs of that node, even if that is more than is left."""
        for node, left in self._left:
            if node.id == node_id:
                add_to(left, needs(task), -1.0)

    def left(self) -> list[Node]:
        """The nodes with what they still have to give."""
        return [replace(node, resources=left) for node, left in self._left]

    def take_together(self, tasks: Sequence[ExecutionVertex]) -> Node | None:
        """The first node that has room for all of the tasks, which take it; or None."""
        needed = total(needs(task) for task in tasks)
        for node, left in self._left:
            if covers(left, needed):
                add_to(left, needed, -1.0)
                return node
        return None


def tasks_that_fit(node: Node, vertex: JobVertex) -> int:
    """How many tasks of the vertex the node has room for, none of more than there are."""
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
    """What the task takes of its node."""
    return task.job_vertex.resources


def there_is(nodes: Sequence[Node]) -> str:
    """What nodes have for tasks, the first of them by name."""
    named = [f"{node.name} ({_free(node)})" for node in nodes[:_MOST_NAMED]]
    named += [f"{len(nodes) - _MOST_NAMED} more"] * (len(nodes) > _MOST_NAMED)
    in_all = listed(total(node.resources for node in nodes))
    return f"{', '.join(named) or 'no node'}, in all {in_all}"


def _free(node: Node) -> str:
    """What it has for tasks, and of how much, where others use it, too."""
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
    """Whether what there is is enough, but for the rounding of sums."""
    return all(there_is.get(name, 0.0) >= amount - _ROUNDING for name, amount in needed.items())


def add_to(amounts: dict[str, float], more: Mapping[str, float], times: float = 1.0) -> None:
    """Count these in, so many times, by the name of the resource."""
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0.0) + times * amount


def total(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The amounts together, by the name of the resource."""
    found: dict[str, float] = {}
    for each in amounts:
        add_to(found, each)
    return found


def listed(resources: Mapping[str, float]) -> str:
    """The amounts in words."""
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items()) or "nothing"


_MOST_NAMED = 8
_ROUNDING = 1e-9  # sums of fractions such as 10 x 0.1
