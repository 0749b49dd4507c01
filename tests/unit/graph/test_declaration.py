"""From what the fluent API declares to a logical graph."""

import pytest

from engine.errors import GraphError
from engine.graph import Broadcast, Forward, Hash, LogicalGraph, Rebalance, logical_graph
from operators import Stream, source
from operators.sinks import Collect, Counts, Discard
from operators.sources import Collection


def numbers() -> Stream[int]:
    return source(Collection([1, 2, 3]))


def edges(graph: LogicalGraph) -> list[tuple[str, str, object]]:
    names = [operator.name for operator in graph.operators]
    return [(names[edge.source], names[edge.target], edge.partitioner) for edge in graph.edges]


def test_word_count() -> None:
    pipeline = numbers().map(lambda n: (n, 1)).key_by(0).count().sink(Counts())
    graph = logical_graph(pipeline)
    assert [operator.name for operator in graph.operators] == [
        "collection",
        "map",
        "count",
        "counts",
    ]
    assert edges(graph) == [
        ("collection", "map", Forward()),
        ("map", "count", Hash(0)),
        ("count", "counts", Forward()),
    ]


def test_partitioners_belong_to_the_next_edge() -> None:
    graph = logical_graph(
        numbers().rebalance().map(str).broadcast().filter(bool).key_by().count().sink(Collect())
    )
    assert [edge.partitioner for edge in graph.edges] == [
        Rebalance(),
        Broadcast(),
        Hash(None),
        Forward(),
    ]


def test_union_reads_from_all() -> None:
    one, two = numbers().named("one"), numbers().named("two")
    graph = logical_graph(one.union(two.rebalance()).map(str).sink(Collect()))
    assert edges(graph)[:2] == [("one", "map", Forward()), ("two", "map", Rebalance())]


def test_a_stream_may_be_united_with_itself() -> None:
    stream = numbers()
    graph = logical_graph(stream.union(stream).sink(Collect()))
    assert len(graph.operators) == 2
    assert len(graph.edges) == 2


def test_a_shared_operator_is_in_the_graph_once() -> None:
    shared = numbers().map(str)
    graph = logical_graph([shared.sink(Collect()), shared.sink(Discard())])
    assert [operator.name for operator in graph.operators] == [
        "collection",
        "map",
        "collect",
        "discard",
    ]


def test_what_reaches_no_sink_is_not_in_the_graph() -> None:
    stream = numbers()
    stream.map(str)
    assert len(logical_graph(stream.sink(Collect())).operators) == 2


def test_default_names_get_suffixes() -> None:
    graph = logical_graph(numbers().map(str).map(int).map(str).named("map-2").sink(Collect()))
    assert [operator.name for operator in graph.operators] == [
        "collection",
        "map",
        "map-3",
        "map-2",
        "collect",
    ]


def test_given_names_must_be_unique() -> None:
    with pytest.raises(GraphError, match="two operators are named 'x'"):
        logical_graph(numbers().named("x").map(str).named("x").sink(Collect()))


def test_parallelism_and_resources() -> None:
    stream = numbers().with_parallelism(3).with_resources(cpus=2).with_resources(gpus=1)
    operator = logical_graph(stream.sink(Collect())).operators[0]
    assert operator.parallelism == 3
    assert operator.resources == {"cpus": 2.0, "gpus": 1.0}


def test_a_long_pipeline() -> None:
    stream = numbers()
    for _ in range(2000):
        stream = stream.map(abs)
    assert len(logical_graph(stream.sink(Collect())).operators) == 2002


def test_a_stream_without_sink() -> None:
    with pytest.raises(GraphError, match=r"(?s)the stream after 'map' has no sink.*hint: .*sink"):
        logical_graph(numbers().map(str))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="the stream after 'collection' has no sink"):
        logical_graph([numbers().key_by()])  # type: ignore[list-item]


def test_not_a_pipeline() -> None:
    with pytest.raises(GraphError, match="got int, expected a pipeline"):
        logical_graph(3)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="there is no pipeline"):
        logical_graph([])


def test_one_operator_with_two_settings() -> None:
    stream = numbers()
    with pytest.raises(GraphError, match="'collection' is used with two different settings"):
        logical_graph(stream.union(stream.with_parallelism(2)).sink(Collect()))
