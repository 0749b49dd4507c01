"""The logical graph: operators and edges as declared, each operator once.

Invariant: names and ids are unique, edges run from lower to higher ids (so there is no cycle),
every path begins in a source and ends in a sink.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from engine.config import Native
from engine.errors import GraphError
from engine.graph.operator import Operator
from engine.graph.sink import SinkOperator
from engine.graph.source import SourceOperator
from engine.partitioner import Partitioner


@dataclass(frozen=True)
class LogicalOperator:
    """One declared operator. `parallelism` None is the job's; `resources` are those of one task."""

    id: int
    name: str
    operator: Operator
    parallelism: int | None
    resources: Mapping[str, float]
    nodes: tuple[int, ...] = ()
    """The nodes that its tasks are pinned to in turn; () leaves them to the placement strategy."""
    pickle: bool = False
    """Whether objects that cannot travel otherwise are pickled where they leave it."""
    native: Native | None = None
    """The way of its functions of records; None is the job's."""
    identity: str = ""
    """Its identity in every run of the program; see `engine.graph.identity`."""


@dataclass(frozen=True)
class LogicalEdge:
    """Records flow from operator `source` to operator `target`."""

    source: int
    target: int
    partitioner: Partitioner
    input: int = 0
    """The number of the target's input that it belongs to: 1 is the second of two."""
    output: str | None = None
    """The side output of the source that it begins in; None is the main output."""


@dataclass(frozen=True)
class LogicalGraph:
    """Operators in topological order and the edges between them; valid once it exists."""

    operators: tuple[LogicalOperator, ...]
    edges: tuple[LogicalEdge, ...]

    def __post_init__(self) -> None:
        _check_operators(self)
        _check_edges(self)

    def inputs(self, operator: LogicalOperator) -> tuple[LogicalEdge, ...]:
        """The edges that end at the operator, in the order of declaration."""
        return tuple(edge for edge in self.edges if edge.target == operator.id)

    def outputs(self, operator: LogicalOperator) -> tuple[LogicalEdge, ...]:
        """The edges that begin at the operator, in the order of declaration."""
        return tuple(edge for edge in self.edges if edge.source == operator.id)

    def takes_rows(self) -> frozenset[int]:
        """The ids of operators that get rows of columns, as far as it is known before they run.

        A function of batches is taken to give columns for columns, a source records unless it says
        otherwise.
        """
        with_columns: set[int] = set()
        found: set[int] = set()
        for operator in self.operators:
            properties = operator.operator.properties
            edges = (edge for edge in self.inputs(operator) if edge.output != properties.errors)
            comes = any(edge.source in with_columns for edge in edges)
            if comes and not properties.accepts_columns:
                found.add(operator.id)
            goes_on = properties.passes_records or properties.accepts_columns
            if properties.emits_columns or (comes and goes_on and not properties.emits_records):
                with_columns.add(operator.id)
        return frozenset(found)

    def validate_positions(self) -> None:
        """Raise `GraphError` for a source that cannot continue from a position."""
        for operator in self.operators:
            kind = operator.operator
            if isinstance(kind, SourceOperator) and not kind.properties.goes_on:
                raise GraphError(
                    f"{operator.name}: source {type(kind).__name__} does not tell where it is, "
                    "expected one that does in a job with checkpoints",
                    hint=TELLS_WHERE_IT_IS,
                )

    def validate_ends(self, here: bool = False) -> None:
        """Have every source and sink check its files and folders.

        With `here`, tasks will run on this machine. Raises `GraphError` naming the operator. Call
        it on the driver before the graph is pickled.
        """
        for operator in self.operators:
            if isinstance(operator.operator, SourceOperator | SinkOperator):
                with _naming(operator.name):
                    operator.operator.validate()
                    if here and isinstance(operator.operator, SourceOperator):
                        operator.operator.validate_here()
        sinks = [
            (operator.name, operator.operator)
            for operator in self.operators
            if isinstance(operator.operator, SinkOperator)
        ]
        for (name, sink), (other_name, other) in combinations(sinks, 2):
            with _naming(f"{name} and {other_name}"):
                sink.validate_beside(other)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except GraphError as error:
        raise GraphError(f"{name}: {error.message}", hint=error.hint) from None


def _check_operators(graph: LogicalGraph) -> None:
    if not graph.operators:
        raise GraphError("the graph is empty, expected at least a source and a sink")
    seen: set[str] = set()
    for expected, operator in enumerate(graph.operators):
        if operator.id != expected:
            raise GraphError(
                f"operator {operator.name!r} has id {operator.id}, expected {expected}"
            )
        if operator.name in seen:
            raise GraphError(
                f"two operators are named {operator.name!r}, expected names to be unique",
                hint="give one of them another name with .named('...')",
            )
        seen.add(operator.name)
        if operator.parallelism is not None and operator.parallelism < 1:
            raise GraphError(
                f"operator {operator.name!r} has parallelism {operator.parallelism}, expected >= 1"
            )
        if operator.operator.properties.alone and (operator.parallelism or 1) > 1:
            raise GraphError(
                f"operator {operator.name!r} has parallelism {operator.parallelism}, expected 1: "
                "without a key, one task has the whole",
                hint="leave with_parallelism() out, or call key_by() before it",
            )


def _check_edges(graph: LogicalGraph) -> None:
    for edge in graph.edges:
        if not 0 <= edge.source < edge.target < len(graph.operators):
            raise GraphError(
                f"edge {edge.source} -> {edge.target}, expected source < target "
                f"< {len(graph.operators)}"
            )
    for operator in graph.operators:
        _check_inputs(graph, operator)
        _check_errors(graph, operator)
        begins = isinstance(operator.operator, SourceOperator)
        if isinstance(operator.operator, SourceOperator):
            _check_followed(operator.name, operator.operator)
        ends = isinstance(operator.operator, SinkOperator)
        if bool(graph.inputs(operator)) == begins:
            found = "has an input, expected none" if begins else "has no input"
            raise GraphError(f"{'source' if begins else 'operator'} {operator.name!r} {found}")
        if bool(graph.outputs(operator)) == ends:
            found = "has an output, expected none" if ends else "has no sink"
            raise GraphError(f"{'sink' if ends else 'operator'} {operator.name!r} {found}")


def _check_inputs(graph: LogicalGraph, operator: LogicalOperator) -> None:
    properties = operator.operator.properties
    second = [edge.input == 1 for edge in graph.inputs(operator)]
    name = "side" if properties.side_input else "second"
    if any(second) != (properties.side_input or properties.two_inputs):
        found = f"has a {name} input, expected none" if any(second) else f"has no {name} input"
        raise GraphError(f"operator {operator.name!r} {found}")
    if second and all(second):
        raise GraphError(
            f"operator {operator.name!r} has a {name} input alone, expected records too"
        )


def _check_errors(graph: LogicalGraph, operator: LogicalOperator) -> None:
    properties = operator.operator.properties
    if properties.on_error != "side":
        return
    if all(edge.output != properties.errors for edge in graph.outputs(operator)):
        raise GraphError(
            f"operator {operator.name!r} sends records that fail to its side output "
            f"{properties.errors!r}, and nothing reads it",
            hint=f"give .side({properties.errors!r}) of its stream a sink and execute both "
            "pipelines, or say on_error='skip'",
        )


def _check_followed(name: str, source: SourceOperator[Any]) -> None:
    """Raise `GraphError` unless the source says itself what the operator behind it does."""
    if source.followed_by is None:
        return
    own, behind = source.properties, source.followed_by.properties
    for each in ("on_error", "side_outputs", "emits_columns"):
        if getattr(own, each) != getattr(behind, each):
            raise GraphError(
                f"source {name!r} has the property {each} {getattr(own, each)!r}, and the operator "
                f"that follows it {getattr(behind, each)!r}, expected the same",
                hint="take the properties from it: replace(self.followed_by.properties, rate=…)",
            )


TELLS_WHERE_IT_IS = (
    "a Function of (context, position) that yields At(position, records) does that; or leave "
    "checkpoints out"
)
"""A hint for a source without a position."""
