"""Tasks and channels."""

from engine.graph import ExecutionGraph, chain, expand, logical_graph
from operators import Pipeline, Stream, source
from operators.sinks import Collect, Discard
from operators.sources import Collection


def numbers() -> Stream[int]:
    return source(Collection([1, 2, 3])).named("numbers")


def expanded(*pipelines: Pipeline, parallelism: int = 2) -> ExecutionGraph:
    return expand(chain(logical_graph(pipelines), parallelism))


def pairs(graph: ExecutionGraph) -> list[tuple[str, str]]:
    return [
        (graph.vertices[channel.source].name, graph.vertices[channel.target].name)
        for channel in graph.channels
    ]


def test_every_task_talks_to_every_task() -> None:
    graph = expanded(numbers().key_by().count().sink(Collect()))
    assert [task.name for task in graph.vertices] == [
        "numbers[0]",
        "numbers[1]",
        "count -> collect[0]",
        "count -> collect[1]",
    ]
    assert [(channel.id, channel.source, channel.target) for channel in graph.channels] == [
        (0, 0, 2),
        (1, 0, 3),
        (2, 1, 2),
        (3, 1, 3),
    ]


def test_forward_to_fewer_tasks_keeps_one_target_each() -> None:
    graph = expanded(numbers().sink(Collect()).with_parallelism(2), parallelism=5)
    assert pairs(graph) == [
        ("numbers[0]", "collect[0]"),
        ("numbers[1]", "collect[0]"),
        ("numbers[2]", "collect[0]"),
        ("numbers[3]", "collect[1]"),
        ("numbers[4]", "collect[1]"),
    ]


def test_outputs_are_by_edge_and_in_order_of_the_targets() -> None:
    shared = numbers()
    graph = expanded(shared.key_by().count().sink(Collect()), shared.sink(Discard()))
    (hashed, to_count), (forward, to_discard) = graph.outputs(graph.vertices[1])
    assert hashed.partitioner.name == "hash"
    assert [graph.vertices[channel.target].name for channel in to_count] == [
        "count -> collect[0]",
        "count -> collect[1]",
    ]
    assert forward.partitioner.name == "forward"
    assert [graph.vertices[channel.target].name for channel in to_discard] == ["discard[1]"]


def test_inputs() -> None:
    graph = expanded(numbers().key_by().count().sink(Collect()))
    assert [channel.source for channel in graph.inputs(graph.vertices[2])] == [0, 1]
    assert graph.inputs(graph.vertices[0]) == ()


def test_two_edges_between_the_same_vertices_have_channels_of_their_own() -> None:
    stream = numbers()
    graph = expanded(stream.union(stream.rebalance()).sink(Collect()), parallelism=1)
    assert len(graph.channels) == 2
    assert [len(channels) for _, channels in graph.outputs(graph.vertices[0])] == [1, 1]
