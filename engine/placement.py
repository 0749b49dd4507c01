"""Placement: which node runs which task, decided before anything starts.

Invariant: every task has exactly one node and no node gives more of a resource than it has. Both
strategies are pure: the same graph and nodes give the same placement.

- `operator_first`: a node hosts tasks of one job vertex only, so that all traffic between
  vertices crosses the network.
- `parallelism_first`: tasks of the same index share a node where they fit, so that traffic stays
  local.

Both fill a node before they take the next, nodes in the order given. Tasks that are pinned
(`Stream.on_nodes`) are placed first, where they say; a strategy then places the others.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from engine.errors import PlacementError
from engine.graph.execution import ExecutionGraph, ExecutionVertex
from engine.graph.job import JobVertex

Strategy: TypeAlias = Literal["operator_first", "parallelism_first"]


@dataclass(frozen=True)
class Node:
    """A machine: `resources` are what tasks may use in all, such as `{"cpus": 8.0}`.

    A resource that is not listed is not there; `math.inf` is one that does not run out.
    """

    id: str
    address: str
    resources: Mapping[str, float]
    title: str = ""
    """What people call it, where that is more than its address."""

    @property
    def name(self) -> str:
        """What to call it in a message: where it is, which says more than its id."""
        return self.title or self.address or self.id


@dataclass(frozen=True)
class Placement:
    """The node of every task, and notes for the user where the strategy could not be kept."""

    nodes: Mapping[int, Node]
    notes: tuple[str, ...] = ()

    def node(self, task: ExecutionVertex) -> Node:
        """The node that runs the task."""
        return self.nodes[task.id]


def place(
    graph: ExecutionGraph,
    nodes: Sequence[Node],
    strategy: Strategy = "operator_first",
    strict: bool = False,
) -> Placement:
    """Give every task a node.

    Without `strict`, `operator_first` on a single node places everything there, and
    `parallelism_first` divides tasks of one index that fit no node together; both with a note.
    Raises `PlacementError` that says what is needed and what there is.
    """
    names = [node.id for node in nodes]
    if len(set(names)) < len(names):
        raise PlacementError(f"node ids are {names}, expected them to be unique")
    if strategy not in _STRATEGIES:
        raise PlacementError(
            f"placement is {strategy!r}, expected 'operator_first' or 'parallelism_first'"
        )
    whole = {node.id: node for node in nodes}
    pinned, left, notes = _pinned(graph, nodes, strict)
    if pinned:
        loose = [task for task in graph.vertices if task.id not in pinned]
        vertices = tuple(vertex for vertex in graph.job.vertices if not vertex.nodes)
        graph = replace(graph, job=replace(graph.job, vertices=vertices), vertices=tuple(loose))
        if not loose:
            return Placement(pinned, notes)
        taken = {node.id for node in pinned.values()}
        free = [node for node in left if node.id not in taken]
        nodes = free if strategy == "operator_first" and free else left
    rest = _STRATEGIES[strategy](graph, nodes, strict)
    # What a task is placed on is the node itself, not one that has less left.
    loose_nodes = {task: whole[node.id] for task, node in rest.nodes.items()}
    return Placement({**pinned, **loose_nodes}, (*notes, *rest.notes))


def _pinned(
    graph: ExecutionGraph, nodes: Sequence[Node], strict: bool
) -> tuple[dict[int, Node], Sequence[Node], tuple[str, ...]]:
    """The nodes of the pinned tasks, what all nodes have left then, and notes.

    Number k is the k-th of the nodes that could run a task of that vertex.
    """
    room, placed, notes = _Room(nodes), {}, []
    for vertex in graph.job.vertices:
        if not vertex.nodes:
            continue
        able = [node for node in nodes if _tasks_that_fit(node, vertex)]
        alone = len(able) == 1 and not strict
        if alone and max(vertex.nodes):
            notes.append(f"{vertex.name!r} is pinned to several nodes; it shares {able[0].name}")
        for task in graph.vertices:
            if task.job_vertex.id != vertex.id:
                continue
            number = 0 if alone else vertex.nodes[task.index % len(vertex.nodes)]
            if number >= len(able):
                raise PlacementError(
                    f"task {task.name} is pinned to node {number}, counted from 0; there are "
                    f"{len(able)} that could run it ({_listed(vertex.resources)} needed)",
                    "add nodes, or ask for less by .with_resources(...)",
                )
            if not room.take(task, able[number]):
                raise PlacementError(
                    f"task {task.name} is pinned to node {able[number].name}, which has no room "
                    f"left for it; needed: {_listed(vertex.resources)}",
                    _MORE_ROOM,
                )
            placed[task.id] = able[number]
    return placed, room.left(), tuple(notes)


def _operator_first(graph: ExecutionGraph, nodes: Sequence[Node], strict: bool) -> Placement:
    vertices = graph.job.vertices
    if len(nodes) == 1 and len(vertices) > 1 and not strict:
        shared = _Room(nodes).fill(graph.vertices)
        if shared is None:
            raise _error("operator_first", graph, nodes, "", _MORE_ROOM)
        note = f"operator_first needs a node for each of {len(vertices)} vertices; all of them "
        return Placement(shared, (f"{note}share {nodes[0].name}, the only node",))
    hosts = _Division(vertices, nodes).hosts()
    if hosts is None:
        own = ", no node shared by two vertices"
        raise _error("operator_first", graph, nodes, own, _MORE_NODES)
    placed: dict[int, Node] = {}
    for vertex, its_nodes in zip(vertices, hosts, strict=True):
        tasks = [task for task in graph.vertices if task.job_vertex.id == vertex.id]
        placed |= _Room(its_nodes).fill(tasks) or {}
    return Placement(placed)


def _parallelism_first(graph: ExecutionGraph, nodes: Sequence[Node], strict: bool) -> Placement:
    groups: dict[int, list[ExecutionVertex]] = {}
    for task in graph.vertices:
        groups.setdefault(task.index, []).append(task)
    room = _Room(nodes)
    placed: dict[int, Node] = {}
    divided: list[ExecutionVertex] = []
    for group in groups.values():
        node = room.take_together(group)
        if node is None:
            divided += group
        else:
            placed |= {task.id: node for task in group}
    if divided and strict:
        together = ", tasks of one index on one node"
        raise _error("parallelism_first", graph, nodes, together, _NOT_STRICT)
    rest = room.fill(divided)
    if rest is not None:
        placed |= rest
    else:
        largest_first = sorted(graph.vertices, key=lambda task: -sum(_needs(task).values()))
        singly = _Room(nodes).fill(largest_first)
        if singly is None:
            raise _error("parallelism_first", graph, nodes, "", _MORE_ROOM)
        placed = singly
    apart = [
        index for index, group in groups.items() if len({placed[task.id].id for task in group}) > 1
    ]
    if not apart:
        return Placement(placed)
    note = f"parallelism_first: the tasks of {len(apart)} of {len(groups)} indexes fit no node "
    return Placement(placed, (f"{note}together and are divided over several",))


class _Room:
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
        for node, left in self._left:
            if node is wanted and all(
                left.get(name, 0.0) >= amount - _ROUNDING for name, amount in _needs(task).items()
            ):
                for name, amount in _needs(task).items():
                    left[name] = left.get(name, 0.0) - amount
                return True
        return False

    def left(self) -> list[Node]:
        """The nodes with what they still have to give."""
        return [replace(node, resources=left) for node, left in self._left]

    def take_together(self, tasks: Sequence[ExecutionVertex]) -> Node | None:
        """The first node that has room for all of the tasks, which take it; or None."""
        needed: dict[str, float] = {}
        for task in tasks:
            for resource, amount in _needs(task).items():
                needed[resource] = needed.get(resource, 0.0) + amount
        for node, left in self._left:
            if all(left.get(name, 0.0) >= amount - _ROUNDING for name, amount in needed.items()):
                for name, amount in needed.items():
                    left[name] = left.get(name, 0.0) - amount
                return node
        return None


class _Division:
    """The search for nodes of each vertex, no node for two vertices.

    Nodes of equal resources are interchangeable, so it decides for each kind of node how many of
    them each vertex gets, most first. One kind of node is decided at once; several need
    backtracking, which gives up after `_SEARCH_STEPS`.
    """

    def __init__(self, vertices: Sequence[JobVertex], nodes: Sequence[Node]) -> None:
        self._vertices = vertices
        self._kinds: list[list[Node]] = []
        for node in nodes:
            for kind in self._kinds:
                if kind[0].resources == node.resources:
                    kind.append(node)
                    break
            else:
                self._kinds.append([node])
        self._rooms = [
            [_tasks_that_fit(kind[0], vertex) for vertex in vertices] for kind in self._kinds
        ]
        self._failed: set[tuple[int, int, int, tuple[int, ...]]] = set()

    def hosts(self) -> list[list[Node]] | None:
        """The nodes of each vertex, or None if there is no such division."""
        hosts: list[list[Node]] = [[] for _ in self._vertices]
        if not self._kinds or not self._search(
            0, 0, 0, tuple(vertex.parallelism for vertex in self._vertices), hosts
        ):
            return None
        return hosts

    def _search(
        self, kind: int, vertex: int, used: int, waiting: tuple[int, ...], hosts: list[list[Node]]
    ) -> bool:
        """Decide for `vertex` how many more nodes of `kind` it gets, then go on with the next.

        `used` nodes of this kind are taken, `waiting` tasks of each vertex have no node yet.
        """
        if not any(waiting):
            return True
        if vertex == len(self._vertices):
            kind, vertex, used = kind + 1, 0, 0
        state = (kind, vertex, used, waiting)
        if kind == len(self._kinds) or state in self._failed or self._hopeless(*state):
            return False
        if len(self._failed) >= _SEARCH_STEPS:
            return False
        nodes, room = self._kinds[kind], self._rooms[kind][vertex]
        useful = math.ceil(waiting[vertex] / room) if room else 0
        for count in range(min(useful, len(nodes) - used), -1, -1):
            left = max(0, waiting[vertex] - count * room)
            after = (*waiting[:vertex], left, *waiting[vertex + 1 :])
            hosts[vertex] += nodes[used : used + count]
            if self._search(kind, vertex + 1, used + count, after, hosts):
                return True
            del hosts[vertex][len(hosts[vertex]) - count :]
        self._failed.add(state)
        return False

    def _hopeless(self, kind: int, vertex: int, used: int, waiting: tuple[int, ...]) -> bool:
        """True if even the best rooms that are left need more nodes than are left."""
        nodes = sum(len(later) for later in self._kinds[kind:]) - used
        for number, tasks in enumerate(waiting):
            # Vertices before this one have had their choice of this kind.
            first = kind + 1 if number < vertex else kind
            room = max((rooms[number] for rooms in self._rooms[first:]), default=0)
            if tasks and not room:
                return True
            nodes -= math.ceil(tasks / room) if tasks else 0
        return nodes < 0


def _tasks_that_fit(node: Node, vertex: JobVertex) -> int:
    fits = min(
        (
            (node.resources.get(name, 0.0) + _ROUNDING) / amount
            for name, amount in vertex.resources.items()
            if amount > 0
        ),
        default=math.inf,
    )
    return int(min(fits, vertex.parallelism))


def _needs(task: ExecutionVertex) -> Mapping[str, float]:
    return task.job_vertex.resources


def _error(
    strategy: Strategy, graph: ExecutionGraph, nodes: Sequence[Node], also: str, hint: str
) -> PlacementError:
    needed = ", ".join(
        f"{vertex.parallelism} x ({vertex.name}: {_listed(vertex.resources)})"
        for vertex in graph.job.vertices
    )
    in_all = _listed(_sum(_needs(task) for task in graph.vertices))
    there_is = [f"{node.name} ({_listed(node.resources)})" for node in nodes[:_MOST_NAMED]]
    there_is += [f"{len(nodes) - _MOST_NAMED} more"] * (len(nodes) > _MOST_NAMED)
    return PlacementError(
        f"{strategy} found no place for all tasks; needed: {needed}, in all {in_all}{also}; "
        f"there is: {', '.join(there_is) or 'no node'}, in all "
        f"{_listed(_sum(node.resources for node in nodes))}",
        hint=hint,
    )


def _sum(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _listed(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items()) or "nothing"


_MORE_ROOM = "lower the parallelism, ask for less by .with_resources(...), or add nodes"
_MORE_NODES = "add nodes, lower the parallelism, or use placement='parallelism_first'"
_NOT_STRICT = "lower the resources of a task, or allow dividing with strict_placement=False"

_STRATEGIES = {"operator_first": _operator_first, "parallelism_first": _parallelism_first}
_MOST_NAMED = 8
_ROUNDING = 1e-9  # sums of fractions such as 10 x 0.1
_SEARCH_STEPS = 20_000
