"""Who hands models to whom, for any graph and placement."""

from hypothesis import given
from hypothesis import strategies as some

from engine import broadcast
from engine.broadcast.relay import BlobRole, blob_roles, model_tasks
from engine.graph import (
    Broadcast,
    ExecutionGraph,
    JobEdge,
    JobGraph,
    JobVertex,
    LogicalOperator,
    expand,
)
from engine.placement.nodes import Node
from engine.placement.place import Placement
from tests.publishing import Publisher


@some.composite
def graphs(draw: some.DrawFn) -> ExecutionGraph:
    parallelisms = draw(some.lists(some.integers(1, 4), min_size=2, max_size=4))
    ways = some.sampled_from([None, "channels", "channels", "plasma", "s3"])
    vertices = tuple(
        JobVertex(
            number,
            (LogicalOperator(number, f"o{number}", Publisher(draw(ways)), None, {}),),
            parallelism,
            {},
        )
        for number, parallelism in enumerate(parallelisms)
    )
    pairs = [(a, b) for a in range(len(vertices)) for b in range(a + 1, len(vertices))]
    chosen = draw(some.lists(some.sampled_from(pairs), unique=True, max_size=5))
    edges = tuple(JobEdge(number, a, b, Broadcast()) for number, (a, b) in enumerate(chosen))
    return expand(JobGraph(vertices, edges))


@some.composite
def placed(draw: some.DrawFn) -> tuple[ExecutionGraph, Placement]:
    graph = draw(graphs())
    nodes = [Node(f"n{number}", "", {}) for number in range(draw(some.integers(1, 4)))]
    return graph, Placement({task.id: draw(some.sampled_from(nodes)) for task in graph.vertices})


def receivers(graph: ExecutionGraph, ways: tuple[str, ...]) -> dict[int, set[int]]:
    """For each origin, the tasks at the other ends of its channels."""
    found: dict[int, set[int]] = {}
    for task in graph.vertices:
        wanted = task.job_vertex.operators[0].operator.properties.wanted(broadcast.Publisher)
        if wanted is not None and wanted.via in ways:
            ends = {channel.target for channel in graph.channels if channel.source == task.id}
            found[task.id] = ends
    return found


@given(placed())
def test_every_task_that_receives_has_one_who_hands_it_over(
    case: tuple[ExecutionGraph, Placement],
) -> None:
    graph, placement = case
    roles = blob_roles(graph, placement)
    node = {task: each.id for task, each in placement.nodes.items()}
    followed: dict[int, set[int]] = {task: set() for task in roles}
    for origin, tasks in receivers(graph, ("channels", "s3")).items():
        chain = roles[origin].chain
        assert roles[origin].origin
        # The blob crosses the network once to each other node, and never to its own.
        assert sorted(node[leader] for leader in chain) == sorted(
            {node[task] for task in tasks} - {node[origin]}
        )
        leader_of = {node[leader]: leader for leader in chain} | {node[origin]: origin}
        for task in tasks:
            follows = dict(roles[task].leaders).get(origin)
            if task in chain:
                assert follows is None
                assert node[task] != node[origin]
            else:
                assert follows == leader_of[node[task]]
                assert follows != task
                followed[leader_of[node[task]]].add(task)
        assert set(chain) <= tasks
        for place, leader in enumerate(chain):
            assert {origin, *chain[:place]} <= set(roles[leader].peers)
    assert {task: role.followers for task, role in roles.items()} == {
        task: len(following) for task, following in followed.items()
    }


@given(placed())
def test_tasks_that_take_no_part_have_no_role(case: tuple[ExecutionGraph, Placement]) -> None:
    graph, placement = case
    roles = blob_roles(graph, placement)
    published = receivers(graph, ("channels", "s3"))
    assert set(roles) <= {*published, *(task for tasks in published.values() for task in tasks)}
    every = receivers(graph, ("channels", "s3", "plasma"))
    assert model_tasks(graph) == {*every, *(task for tasks in every.values() for task in tasks)}
    for task, role in roles.items():
        assert role != BlobRole()
        assert role.origin == (task in published)
        assert task not in role.peers
        assert len(set(role.chain)) == len(role.chain)
        # Only those who take part with it speak to it.
        assert set(role.peers) <= set(roles)


@given(placed())
def test_the_same_placement_gives_the_same_roles(case: tuple[ExecutionGraph, Placement]) -> None:
    assert blob_roles(*case) == blob_roles(*case)
