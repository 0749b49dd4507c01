"""Placement for any graph and nodes, against a search of all placements."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as some

from engine.config import Strategy
from engine.errors import PlacementError
from engine.graph import ExecutionGraph, JobGraph, JobVertex, expand
from engine.placement.nodes import Node
from engine.placement.place import Placement, place

amounts = some.sampled_from([0.0, 0.5, 1.0, 2.0])
needs = some.fixed_dictionaries({"cpus": amounts}, optional={"gpu": amounts})


@some.composite
def graphs(draw: some.DrawFn, most_vertices: int = 4, most_tasks: int = 6) -> ExecutionGraph:
    tasks = some.integers(1, most_tasks)
    parallelisms = draw(some.lists(tasks, min_size=1, max_size=most_vertices))
    vertices = [
        JobVertex(number, (), parallelism, draw(needs))
        for number, parallelism in enumerate(parallelisms)
    ]
    return expand(JobGraph(tuple(vertices), ()))


@some.composite
def clusters(draw: some.DrawFn, most_nodes: int = 6) -> list[Node]:
    has = some.fixed_dictionaries(
        {"cpus": some.sampled_from([0.0, 1.0, 2.0, 4.0])}, optional={"gpu": amounts}
    )
    resources = draw(some.lists(has, max_size=most_nodes))
    return [Node(f"n{number}", "", each) for number, each in enumerate(resources)]


strategies = some.sampled_from(["operator_first", "parallelism_first"])


def is_within(graph: ExecutionGraph, nodes: dict[int, Node]) -> bool:
    used: dict[tuple[str, str], float] = {}
    for task in graph.vertices:
        node = nodes[task.id]
        for name, amount in task.job_vertex.resources.items():
            used[node.id, name] = used.get((node.id, name), 0.0) + amount
            if used[node.id, name] > node.resources.get(name, 0.0) + 1e-6:
                return False
    return True


def keeps_vertices_apart(graph: ExecutionGraph, nodes: dict[int, Node]) -> bool:
    vertex_of: dict[str, int] = {}
    return all(
        vertex_of.setdefault(nodes[task.id].id, task.job_vertex.id) == task.job_vertex.id
        for task in graph.vertices
    )


def placed(
    graph: ExecutionGraph, nodes: list[Node], strategy: Strategy, strict: bool
) -> Placement | None:
    try:
        return place(graph, nodes, strategy, strict)
    except PlacementError:
        return None


@given(graphs(), clusters(), strategies, some.booleans())
def test_every_task_is_placed_once_and_no_node_is_over_its_resources(
    graph: ExecutionGraph, nodes: list[Node], strategy: Strategy, strict: bool
) -> None:
    placement = placed(graph, nodes, strategy, strict)
    if placement is not None:
        assert sorted(placement.nodes) == [task.id for task in graph.vertices]
        assert is_within(graph, dict(placement.nodes))
        assert placement == placed(graph, nodes, strategy, strict)


@given(graphs(), clusters(), some.booleans())
def test_operator_first_keeps_vertices_apart(
    graph: ExecutionGraph, nodes: list[Node], strict: bool
) -> None:
    placement = placed(graph, nodes, "operator_first", strict)
    if placement is not None and (strict or len(nodes) > 1):
        assert keeps_vertices_apart(graph, dict(placement.nodes))
        assert not placement.notes


@given(graphs(), clusters(), some.booleans())
def test_parallelism_first_keeps_indexes_together_or_says_so(
    graph: ExecutionGraph, nodes: list[Node], strict: bool
) -> None:
    placement = placed(graph, nodes, "parallelism_first", strict)
    if placement is not None:
        together: dict[int, set[str]] = {}
        for task in graph.vertices:
            together.setdefault(task.index, set()).add(placement.node(task).id)
        divided = any(len(hosts) > 1 for hosts in together.values())
        assert divided == bool(placement.notes)
        assert not (divided and strict)


@given(graphs(most_vertices=3, most_tasks=2), clusters(most_nodes=4))
def test_operator_first_finds_a_placement_if_there_is_one(
    graph: ExecutionGraph, nodes: list[Node]
) -> None:
    choices = (dict(enumerate(choice)) for choice in product(nodes, repeat=len(graph.vertices)))
    possible = any(
        is_within(graph, choice) and keeps_vertices_apart(graph, choice) for choice in choices
    )
    assert (placed(graph, nodes, "operator_first", strict=True) is not None) == possible
