"""Placement by hand; tests/property/test_placement.py has it for any graph and nodes."""

import math
from dataclasses import replace

import pytest

from engine.config import Strategy
from engine.errors import GraphError, PlacementError
from engine.graph import ExecutionGraph, chain, expand, logical_graph
from engine.placement.nodes import Node
from engine.placement.place import Placement, place, place_again
from engine.placement.shortage import too_large
from operators import source
from operators.sinks import Collect
from operators.sources import Collection


def two_vertices(parallelism: int, cpus: float = 1) -> ExecutionGraph:
    words = source(Collection(["a"])).with_resources(cpus=cpus).named("words")
    pipeline = words.key_by().count().with_resources(cpus=cpus).sink(Collect())
    return expand(chain(logical_graph(pipeline), parallelism))


def nodes(*cpus: float) -> list[Node]:
    return [Node(f"n{number}", "", {"cpus": amount}) for number, amount in enumerate(cpus)]


def hosts(graph: ExecutionGraph, placement: Placement) -> list[str]:
    return [placement.node(task).id for task in graph.vertices]


@pytest.mark.parametrize(
    ("parallelism", "cpus", "expected"),
    [
        (2, [4, 4, 4], ["n0", "n0", "n1", "n1"]),
        (3, [2, 2, 2, 2], ["n0", "n0", "n1", "n2", "n2", "n3"]),
        (2, [2, 1, 1], ["n0", "n0", "n1", "n2"]),
        (2, [1, 2, 1], ["n0", "n2", "n1", "n1"]),
        (4, [3, 4, 1], ["n0", "n0", "n0", "n2", "n1", "n1", "n1", "n1"]),
    ],
)
def test_operator_first(parallelism: int, cpus: list[float], expected: list[str]) -> None:
    graph = two_vertices(parallelism)
    placement = place(graph, nodes(*cpus), "operator_first")
    assert hosts(graph, placement) == expected
    assert placement.notes == ()


def test_operator_first_shares_a_single_node_with_a_note() -> None:
    graph = two_vertices(2)
    placement = place(graph, nodes(4))
    assert hosts(graph, placement) == ["n0"] * 4
    assert placement.notes == (
        "operator_first needs a node for each of 2 vertices; all of them share n0, the only node",
    )


def test_operator_first_strict_does_not_share() -> None:
    with pytest.raises(PlacementError, match="no node shared by two vertices; there is: n0"):
        place(two_vertices(2), nodes(4), strict=True)


def test_one_vertex_on_one_node_needs_no_note() -> None:
    graph = expand(chain(logical_graph(source(Collection([1])).sink(Collect())), 2))
    assert place(graph, nodes(2), strict=True).notes == ()


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [
        ([4, 4], ["n0", "n0", "n1", "n0", "n0", "n1"]),
        ([2, 2, 2], ["n0", "n1", "n2", "n0", "n1", "n2"]),
        ([1, 6], ["n1"] * 6),
    ],
)
def test_parallelism_first(cpus: list[float], expected: list[str]) -> None:
    graph = two_vertices(3)
    placement = place(graph, nodes(*cpus), "parallelism_first", strict=True)
    assert hosts(graph, placement) == expected


def test_parallelism_first_divides_what_fits_nowhere_with_a_note() -> None:
    graph = two_vertices(2)
    placement = place(graph, nodes(3, 1), "parallelism_first")
    assert hosts(graph, placement) == ["n0", "n0", "n0", "n1"]
    assert placement.notes == (
        "parallelism_first: the tasks of 1 of 2 indexes fit no node together and are divided "
        "over several",
    )
    with pytest.raises(PlacementError, match="tasks of one index on one node"):
        place(graph, nodes(3, 1), "parallelism_first", strict=True)


@pytest.mark.parametrize("strategy", ["operator_first", "parallelism_first"])
def test_infeasible_says_what_is_needed_and_what_there_is(strategy: Strategy) -> None:
    with pytest.raises(PlacementError) as caught:
        place(two_vertices(2), nodes(1, 2), strategy)
    needed = "needed: 2 x (words: cpus 1), 2 x (count -> collect: cpus 1), in all cpus 4"
    assert needed in str(caught.value)
    assert "there is: n0 (cpus 1), n1 (cpus 2), in all cpus 3\n\nhint: " in str(caught.value)


def test_nodes_are_called_by_their_addresses_and_many_are_not_listed() -> None:
    many = [Node(f"{n:056x}", f"10.0.0.{n}", {"cpus": 1, "gpus": 0.5}) for n in range(20)]
    with pytest.raises(PlacementError) as caught:
        place(two_vertices(11), many)
    message = caught.value.message
    assert "0000" not in message
    assert "there is: 10.0.0.0 (cpus 1, gpus 0.5), 10.0.0.1 (cpus 1, gpus 0.5), " in message
    assert message.endswith("10.0.0.7 (cpus 1, gpus 0.5), 12 more, in all cpus 20, gpus 10")
    (note,) = place(two_vertices(2), [replace(many[3], resources={"cpus": 9})]).notes
    assert note.endswith("all of them share 10.0.0.3, the only node")
    full = replace(many[0], resources={"cpus": 1})
    with pytest.raises(PlacementError, match=r"pinned to node 10\.0\.0\.1, which has no room"):
        place(pinned(2, (0,), (1,)), [full, replace(many[1], resources={"cpus": 1})])


@pytest.mark.parametrize("strategy", ["operator_first", "parallelism_first"])
def test_no_node(strategy: Strategy) -> None:
    with pytest.raises(PlacementError, match="there is: no node"):
        place(two_vertices(1), [], strategy)


@pytest.mark.parametrize("strategy", ["operator_first", "parallelism_first"])
def test_a_node_without_end(strategy: Strategy) -> None:
    graph = two_vertices(100)
    assert set(hosts(graph, place(graph, nodes(math.inf), strategy))) == {"n0"}


def test_fractions_of_a_cpu_add_up() -> None:
    graph = two_vertices(10, cpus=0.1)
    assert hosts(graph, place(graph, nodes(1, 1))) == ["n0"] * 10 + ["n1"] * 10


def test_a_custom_resource() -> None:
    stream = source(Collection([1])).map(abs).with_resources(fpga=1)
    graph = expand(chain(logical_graph(stream.sink(Collect())), 1))
    plain, with_fpga = Node("a", "", {"cpus": 8}), Node("b", "", {"cpus": 8, "fpga": 1})
    assert hosts(graph, place(graph, [plain, with_fpga])) == ["b"]
    with pytest.raises(PlacementError, match="fpga 1"):
        place(graph, [plain])


def test_many_nodes_of_one_kind_are_decided_at_once() -> None:
    graph = two_vertices(1000)
    assert len(set(hosts(graph, place(graph, nodes(*[10] * 200))))) == 200
    with pytest.raises(PlacementError):
        place(graph, nodes(*[10] * 199))


def test_bad_arguments() -> None:
    with pytest.raises(PlacementError, match=r"\['n0', 'n0'\], expected them to be unique"):
        place(two_vertices(1), nodes(1) + nodes(1))
    with pytest.raises(PlacementError, match="placement is 'best', expected 'operator_first'"):
        place(two_vertices(1), nodes(1), "best")  # type: ignore[arg-type]


def pinned(
    tasks: int, download: tuple[int, ...], load: tuple[int, ...], **more: float
) -> ExecutionGraph:
    models = source(Collection(["a"])).named("download").on_nodes(*download)
    loaded = models.broadcast().sink(Collect()).named("load").with_parallelism(tasks)
    pipeline = (loaded.with_resources(**more) if more else loaded).on_nodes(*load)
    return expand(chain(logical_graph(pipeline), 1))


@pytest.mark.parametrize("strategy", ["operator_first", "parallelism_first"])
@pytest.mark.parametrize(
    ("tasks", "download", "load", "expected"),
    [
        (3, (0,), (0,), ["n0", "n0", "n0", "n0"]),
        (3, (0,), (1,), ["n0", "n1", "n1", "n1"]),
        (3, (0,), (1, 2, 3), ["n0", "n1", "n2", "n3"]),
        (4, (2,), (2, 0), ["n2", "n2", "n0", "n2", "n0"]),
    ],
)
def test_pinned_tasks_are_where_they_say(
    tasks: int,
    download: tuple[int, ...],
    load: tuple[int, ...],
    expected: list[str],
    strategy: Strategy,
) -> None:
    graph = pinned(tasks, download, load)
    placement = place(graph, nodes(4, 4, 4, 4), strategy, strict=True)
    assert hosts(graph, placement) == expected
    assert placement.notes == ()


def test_pins_count_the_nodes_that_could_run_a_task() -> None:
    graph = pinned(2, (0,), (1,), cpus=2)
    assert hosts(graph, place(graph, nodes(0, 1, 4, 1, 4))) == ["n1", "n4", "n4"]


def test_pins_on_the_only_node_are_noted() -> None:
    graph = pinned(2, (0,), (1, 2))
    placement = place(graph, nodes(0, 8))
    assert hosts(graph, placement) == ["n1"] * 3
    assert placement.notes == ("'load' is pinned to several nodes; it shares n1",)
    with pytest.raises(PlacementError, match=r"task load\[0\] is pinned to node 1, counted"):
        place(graph, nodes(0, 8), strict=True)


def test_pins_without_their_node_or_its_room() -> None:
    with pytest.raises(PlacementError, match=r"load\[1\] is pinned to node 2, .* there are 2"):
        place(pinned(2, (0,), (1, 2)), nodes(4, 4))
    with pytest.raises(PlacementError, match=r"load\[2\] is pinned to node n1, which has no room"):
        place(pinned(3, (0,), (1,)), nodes(2, 2))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("operator_first", ["n1", "n0", "n0"]), ("parallelism_first", ["n1", "n0", "n0"])],
)
def test_what_is_not_pinned_goes_by_the_strategy(strategy: Strategy, expected: list[str]) -> None:
    words = source(Collection(["a"])).with_parallelism(1).on_nodes(1)
    graph = expand(chain(logical_graph(words.key_by().count().sink(Collect())), 2))
    placement = place(graph, nodes(4, 1 if strategy == "parallelism_first" else 4), strategy)
    assert hosts(graph, placement) == expected
    assert {node.resources["cpus"] for node in placement.nodes.values()} <= {1, 4}


def test_a_chain_is_pinned_once() -> None:
    two = source(Collection(["a"])).on_nodes(0).map(str).on_nodes(1).sink(Collect())
    with pytest.raises(GraphError, match="operators of one chain are to run on different nodes"):
        chain(logical_graph(two), 1)
    with pytest.raises(GraphError, match=r"on_nodes\(\) got -1, expected integers >= 0"):
        source(Collection(["a"])).on_nodes(-1)


@pytest.mark.parametrize(
    ("cpus", "expected", "note"),
    [
        ([2, 2], ["n0", "n0", "n1", "n1"], "auto took operator_first"),
        (
            [2, 1, 1],
            ["n0", "n0", "n1", "n2"],
            "auto took operator_first",
        ),
        (
            [4],
            ["n0"] * 4,
            "auto took parallelism_first: operator_first takes 2 nodes like the largest, and there "
            "is 1",
        ),
        (
            [3, 1],
            ["n0", "n0", "n0", "n1"],
            "auto took parallelism_first: operator_first takes 2 nodes like the largest, and there "
            "are 2, with too little free",
        ),
    ],
)
def test_auto_is_operator_first_where_it_can_be(
    cpus: list[float], expected: list[str], note: str
) -> None:
    graph = two_vertices(2)
    placement = place(graph, nodes(*cpus), "auto")
    assert hosts(graph, placement) == expected
    assert placement.notes[0] == note
    assert note != "auto took operator_first" or placement.notes == (note,)


def test_auto_strict_is_operator_first() -> None:
    with pytest.raises(PlacementError, match="no node shared by two vertices") as caught:
        place(two_vertices(2), nodes(4), "auto", strict=True)
    assert "it takes 2 nodes like the largest: add nodes" in str(caught.value)
    assert "placement='auto'" in str(caught.value)


def used(node: str, free: float, total: float, doubtful: bool = False) -> Node:
    return Node(node, "", {"cpus": free}, total={"cpus": total}, doubtful=doubtful)


@pytest.mark.parametrize("strategy", ["auto", "operator_first", "parallelism_first"])
def test_tasks_go_to_what_is_free_and_to_doubtful_nodes_last(strategy: Strategy) -> None:
    graph = two_vertices(1)
    there = [used("full", 0, 4), used("doubtful", 4, 4, True), used("a", 1, 4), used("b", 1, 4)]
    assert hosts(graph, place(graph, there, strategy)) == ["a", "b"]
    assert "doubtful" in hosts(graph, place(graph, there[:3], strategy))
    with pytest.raises(PlacementError, match=r"full \(cpus 0 free of 4\)"):
        place(graph, there[:1], strategy)


def test_pins_count_full_and_doubtful_nodes() -> None:
    graph = pinned(1, (2,), (2,), cpus=1)
    there = [used("full", 0, 4), used("doubtful", 4, 4, True), used("a", 4, 4)]
    assert hosts(graph, place(graph, there)) == ["a", "a"]
    with pytest.raises(PlacementError, match=r"pinned to node full, which has no room left"):
        place(pinned(1, (1,), (0,), cpus=1), there)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        # Where it was; what is free there is its own.
        ([used("n0", 4, 4), used("n1", 2, 2)], ["n1", "n1"]),
        # Doubtful: where the job has the fewest tasks.
        ([used("n0", 4, 4), used("n1", 2, 2, True), used("n2", 4, 4)], ["n2", "n2"]),
        # Nowhere else, since all that is free of n0 are the tasks that live there.
        ([used("n0", 2, 4), used("n1", 2, 2, True)], ["n1", "n1"]),
        # Another job has taken its place.
        ([used("n0", 3, 4), used("n1", 1, 2)], ["n1", "n0"]),
    ],
)
def test_a_task_that_lost_its_worker_is_placed_anew(there: list[Node], expected: list[str]) -> None:
    graph = two_vertices(2)
    kept = [(task, "n0") for task in graph.vertices[:2]]
    found = place_again(graph.vertices[2:], there, kept, {2: "n1", 3: "n1"})
    assert [found[2].id, found[3].id] == expected


def test_a_task_that_finds_no_room_again_says_what_is_left() -> None:
    graph = two_vertices(2)
    kept = [(task, "n0") for task in graph.vertices[:2]]
    with pytest.raises(PlacementError) as caught:
        place_again(graph.vertices[2:], [used("n0", 3, 4)], kept, {2: "n1", 3: "n1"})
    assert "no node has room for task count -> collect[1]; needed: cpus 1; " in str(caught.value)
    assert "there is: n0 (cpus 0 free of 4)" in str(caught.value)


@pytest.mark.parametrize(
    ("cpus", "there", "kinds", "told"),
    [
        (64, [4, 8], [], "takes cpus 64, and the largest node has cpus 8"),
        (64, [4, 8], [{"cpus": 16.0}], "takes cpus 64, and the largest node has cpus 16"),
        (64, [4, 8], [{"cpus": 64.0}], None),
        (4, [4, 8], [], None),
        (4, [0], [], None),  # its workers may be on their way
        (4, [], [], None),
        (4, [0], [{"cpus": 2.0}], "takes cpus 4, and the largest node has cpus 2"),
    ],
)
def test_a_task_that_is_larger_than_any_node_could_be(
    cpus: float, there: list[float], kinds: list[dict[str, float]], told: str | None
) -> None:
    error = too_large(two_vertices(1, cpus), nodes(*there), kinds)
    assert (error is None) == (told is None)
    assert error is None or f"{told}; there is: " in error.message


def test_a_task_of_which_each_node_lacks_something() -> None:
    there = [Node("a", "", {"cpus": 1, "gpus": 1}), Node("b", "", {"cpus": 8, "gpus": 0})]
    stream = source(Collection([1])).with_resources(gpus=1, cpus=4).sink(Collect())
    graph = expand(chain(logical_graph(stream), 1))
    error = too_large(graph, there, [])
    assert error is not None
    assert "and no node has cpus 4, gpus 1 at once; there is: a (" in error.message
