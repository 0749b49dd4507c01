"""What a logical graph refuses to be."""

from pathlib import Path

import pytest

from engine.errors import GraphError
from engine.graph import (
    Forward,
    LogicalEdge,
    LogicalGraph,
    LogicalOperator,
    Operator,
    RecordOperator,
    logical_graph,
)
from operators import source
from operators.sinks import Collect
from operators.sources import Collection, TextFiles

SOURCE, MAP, SINK = Collection([1]), RecordOperator("map", abs), Collect()


def graph(operators: list[Operator], *edges: tuple[int, int]) -> LogicalGraph:
    return LogicalGraph(
        tuple(
            LogicalOperator(number, f"operator-{number}", operator, None, {})
            for number, operator in enumerate(operators)
        ),
        tuple(LogicalEdge(begin, end, Forward()) for begin, end in edges),
    )


def test_valid() -> None:
    valid = graph([SOURCE, MAP, SINK], (0, 1), (1, 2))
    assert valid.inputs(valid.operators[1]) == (valid.edges[0],)
    assert valid.outputs(valid.operators[1]) == (valid.edges[1],)


@pytest.mark.parametrize(
    ("operators", "edges", "message"),
    [
        ([], [], "the graph is empty"),
        ([SOURCE, MAP], [(0, 1)], "operator 'operator-1' has no sink"),
        ([SOURCE, SINK, MAP, SINK], [(0, 1), (2, 3)], "operator 'operator-2' has no input"),
        ([SOURCE, SOURCE, SINK], [(0, 1), (1, 2)], "source 'operator-1' has an input"),
        ([SOURCE, SINK, SINK], [(0, 1), (1, 2)], "sink 'operator-1' has an output"),
        ([SOURCE, MAP, SINK], [(0, 1), (1, 1)], "edge 1 -> 1, expected source < target"),
        ([SOURCE, SINK], [(0, 5)], "edge 0 -> 5"),
    ],
)
def test_invalid(operators: list[Operator], edges: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        graph(operators, *edges)


def test_parallelism_below_one() -> None:
    operator = LogicalOperator(0, "x", SOURCE, 0, {})
    with pytest.raises(GraphError, match="'x' has parallelism 0, expected >= 1"):
        LogicalGraph((operator,), ())


def test_a_missing_file_fails_by_name_before_the_job(tmp_path: Path) -> None:
    missing = tmp_path / "missing.txt"
    stream = source(TextFiles(missing)).named("text")
    planned = logical_graph(stream.sink(Collect()))
    with pytest.raises(GraphError, match=r"text: file does not exist: '.*missing.txt'"):
        planned.validate_ends()
