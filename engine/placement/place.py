"""Placement decides which node runs which task, before anything starts.

Invariant: every task has exactly one node and no node gives more of a resource than it has. Both
strategies are pure: the same graph and nodes give the same placement.

- `operator_first`: a node hosts tasks of one job vertex only, so that all traffic between
  vertices crosses the network.
- `parallelism_first`: tasks of the same index share a node where they fit, so that traffic stays
  local.
- `auto`: `operator_first` where there are nodes enough for it, else `parallelism_first`.

All fill a node before they take the next, nodes in the order given, doubtful ones last. Tasks that
are pinned (`Stream.on_nodes`) are placed first, where they say; a strategy then places the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.config import Strategy
from engine.errors import PlacementError
from engine.graph.execution import ExecutionGraph, ExecutionVertex
from engine.graph.job import JobVertex
from engine.placement.nodes import Node, Room, listed, needs, tasks_that_fit, there_is, total


@dataclass(frozen=True)
class Placement:
    """The node of every task, and notes for the user where the strategy was not kept."""

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
    `parallelism_first` divides tasks of one index that fit no node together; both with a note. With
    it, `auto` is `operator_first`; its note says which it took. Raises `PlacementError` with the
    needed and the available resources.
    """
    names = [node.id for node in nodes]
    if len(set(names)) < len(names):
        raise PlacementError(f"node ids are {names}, expected them to be unique")
    sound = [node for node in nodes if not node.doubtful]
    if 0 < len(sound) < len(nodes) and not any(vertex.nodes for vertex in graph.job.vertices):
        try:
            return place(graph, sound, strategy, strict or strategy == "operator_first")
        except PlacementError:
            pass
    if strategy == "auto":
        return _auto(graph, nodes, strict)
    if strategy not in _STRATEGIES:
        expected = "'operator_first', 'parallelism_first' or 'auto'"
        raise PlacementError(f"placement is {strategy!r}, expected {expected}")
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
    # After the pinned tasks, whose nodes are counted in the given order.
    rest = _STRATEGIES[strategy](graph, sorted(nodes, key=lambda node: node.doubtful), strict)
    # A task is placed on the node itself, not on the copy with fewer resources.
    loose_nodes = {task: whole[node.id] for task, node in rest.nodes.items()}
    return Placement({**pinned, **loose_nodes}, (*notes, *rest.notes))


def place_again(
    tasks: Sequence[ExecutionVertex],
    nodes: Sequence[Node],
    kept: Sequence[tuple[ExecutionVertex, str]],
    before: Mapping[int, str],
) -> dict[int, Node]:
    """Nodes for tasks of a job whose others keep theirs, by the task's id.

    `kept` are the other tasks with the ids of their nodes, `before` the former nodes of these
    tasks. A task stays on its node, unless that is doubtful. Otherwise it goes to the node with the
    fewest tasks of the job among those with room. Raises PlacementError if a task has no place.
    """
    room = Room(nodes)
    count = Counter(node_id for _, node_id in kept)
    for task, node_id in kept:
        room.give(task, node_id)
    placed: dict[int, Node] = {}
    for task in sorted(tasks, key=lambda task: -sum(needs(task).values())):
        fits = room.with_room(task)
        if not fits:
            raise PlacementError(
                f"no node has room for task {task.name}; needed: {listed(needs(task))}; "
                f"there is: {there_is(room.left())}",
                _MORE_ROOM,
            )
        node = min(
            fits, key=lambda node: (node.doubtful, node.id != before.get(task.id), count[node.id])
        )
        room.give(task, node.id)
        count[node.id] += 1
        placed[task.id] = node
    return placed


def _auto(graph: ExecutionGraph, nodes: Sequence[Node], strict: bool) -> Placement:
    try:
        placement = place(graph, nodes, "operator_first", strict=True)
    except PlacementError:
        if strict:
            raise
        placement = place(graph, nodes, "parallelism_first")
        needed, there = _nodes_for_operator_first(graph, nodes) or 0, len(nodes)
        why = f"operator_first takes {needed} nodes like the largest, and there "
        why += (
            "is 1" if there == 1 else f"are {there}" + ", with too little free" * (there >= needed)
        )
        return replace(placement, notes=(f"auto took parallelism_first: {why}", *placement.notes))
    return replace(placement, notes=("auto took operator_first", *placement.notes))


def _nodes_for_operator_first(graph: ExecutionGraph, nodes: Sequence[Node]) -> int | None:
    """How many nodes like the largest `operator_first` needs; None if a task fits none."""
    needed = 0
    for vertex in graph.job.vertices:
        most = max((tasks_that_fit(node.whole, vertex) for node in nodes), default=0)
        if not most:
            return None
        needed += math.ceil(vertex.parallelism / most)
    return needed


def _pinned(
    graph: ExecutionGraph, nodes: Sequence[Node], strict: bool
) -> tuple[dict[int, Node], Sequence[Node], tuple[str, ...]]:
    """The nodes of the pinned tasks, the resources that are left, and notes.

    Number k is the k-th of the nodes that could run a task of that vertex.
    """
    room, placed, notes = Room(nodes), {}, []
    for vertex in graph.job.vertices:
        if not vertex.nodes:
            continue
        # By all their resources: a node keeps its number, however much others use of it.
        able = [node for node in nodes if tasks_that_fit(node.whole, vertex)]
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
                    f"{len(able)} that could run it ({listed(vertex.resources)} needed)",
                    "add nodes, or ask for less by .with_resources(...)",
                )
            if not room.take(task, able[number]):
                raise PlacementError(
                    f"task {task.name} is pinned to node {able[number].name}, which has no room "
                    f"left for it; needed: {listed(vertex.resources)}",
                    _MORE_ROOM,
                )
            placed[task.id] = able[number]
    return placed, room.left(), tuple(notes)


def _operator_first(graph: ExecutionGraph, nodes: Sequence[Node], strict: bool) -> Placement:
    vertices = graph.job.vertices
    if len(nodes) == 1 and len(vertices) > 1 and not strict:
        shared = Room(nodes).fill(graph.vertices)
        if shared is None:
            raise _error("operator_first", graph, nodes, "", _MORE_ROOM)
        note = f"operator_first needs a node for each of {len(vertices)} vertices; all of them "
        return Placement(shared, (f"{note}share {nodes[0].name}, the only node",))
    hosts = _Division(vertices, nodes).hosts()
    if hosts is None:
        own = ", no node shared by two vertices"
        raise _error("operator_first", graph, nodes, own, _more_nodes(graph, nodes))
    placed: dict[int, Node] = {}
    for vertex, its_nodes in zip(vertices, hosts, strict=True):
        tasks = [task for task in graph.vertices if task.job_vertex.id == vertex.id]
        placed |= Room(its_nodes).fill(tasks) or {}
    return Placement(placed)


def _parallelism_first(graph: ExecutionGraph, nodes: Sequence[Node], strict: bool) -> Placement:
    groups: dict[int, list[ExecutionVertex]] = {}
    for task in graph.vertices:
        groups.setdefault(task.index, []).append(task)
    room = Room(nodes)
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
        largest_first = sorted(graph.vertices, key=lambda task: -sum(needs(task).values()))
        singly = Room(nodes).fill(largest_first)
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


class _Division:
    """The search for nodes of each vertex, no node for two vertices.

    Nodes of equal resources are interchangeable. So it decides how many nodes of each kind each
    vertex gets, most first. One kind needs no search; several kinds need backtracking, which gives
    up after `_SEARCH_STEPS`.
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
            [tasks_that_fit(kind[0], vertex) for vertex in vertices] for kind in self._kinds
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
        """Decide how many more nodes of `kind` the vertex gets, then go on with the next.

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
        """True if the waiting tasks need more nodes than are left, even on the best ones."""
        nodes = sum(len(later) for later in self._kinds[kind:]) - used
        for number, tasks in enumerate(waiting):
            # Vertices before this one have had their choice of this kind.
            first = kind + 1 if number < vertex else kind
            room = max((rooms[number] for rooms in self._rooms[first:]), default=0)
            if tasks and not room:
                return True
            nodes -= math.ceil(tasks / room) if tasks else 0
        return nodes < 0


def _error(
    strategy: Strategy, graph: ExecutionGraph, nodes: Sequence[Node], also: str, hint: str
) -> PlacementError:
    needed = ", ".join(
        f"{vertex.parallelism} x ({vertex.name}: {listed(vertex.resources)})"
        for vertex in graph.job.vertices
    )
    in_all = listed(total(needs(task) for task in graph.vertices))
    return PlacementError(
        f"{strategy} found no place for all tasks; needed: {needed}, in all {in_all}{also}; "
        f"there is: {there_is(nodes)}",
        hint=hint,
    )


def _more_nodes(graph: ExecutionGraph, nodes: Sequence[Node]) -> str:
    needed = _nodes_for_operator_first(graph, nodes)
    if needed is None:
        return _MORE_ROOM
    return (
        f"it takes {needed} nodes like the largest: add nodes, lower the parallelism, or use "
        "placement='auto' (--placement auto), which places what fits"
    )


_MORE_ROOM = "lower the parallelism, ask for less by .with_resources(...), or add nodes"
_NOT_STRICT = "lower the resources of a task, or allow dividing with strict_placement=False"

_STRATEGIES = {"operator_first": _operator_first, "parallelism_first": _parallelism_first}
_SEARCH_STEPS = 20_000
