"""The job graph: chains of operators, each with its final parallelism and resources.

Invariant: vertex ids count from 0 in topological order; every edge crosses from one vertex to
another and carries records over the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.graph.logical import LogicalOperator
from engine.graph.sink import SinkOperator
from engine.graph.source import SourceOperator
from engine.partitioner import Partitioner


@dataclass(frozen=True)
class JobVertex:
    """One chain: operators that run in the same tasks, a batch going through all of them."""

    id: int
    operators: tuple[LogicalOperator, ...]
    parallelism: int
    resources: Mapping[str, float]
    nodes: tuple[int, ...] = ()
    """The nodes that its tasks are pinned to in turn, by number among the nodes that could run
    one."""

    @property
    def name(self) -> str:
        """The names of the chain's operators, joined by arrows."""
        return " -> ".join(operator.name for operator in self.operators)

    @property
    def is_source(self) -> bool:
        """True if the chain begins in a source; then it has no input."""
        return isinstance(self.operators[0].operator, SourceOperator)

    @property
    def is_sink(self) -> bool:
        """True if the chain ends in a sink; then it has no output."""
        return isinstance(self.operators[-1].operator, SinkOperator)


@dataclass(frozen=True)
class JobEdge:
    """Records flow from vertex `source` to vertex `target`; `id` counts the edges of the job."""

    id: int
    source: int
    target: int
    partitioner: Partitioner
    input: int = 0
    """The number of the target's input that it belongs to: 1 is the second of two."""
    output: tuple[str, str] | None = None
    """The operator of the chain and the side output that it begins in; None is the chain's end."""


@dataclass(frozen=True)
class JobGraph:
    """Vertices in topological order and the edges between them."""

    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]

    def inputs(self, vertex: JobVertex) -> tuple[JobEdge, ...]:
        """The edges that end at the vertex, in the order of declaration."""
        return tuple(edge for edge in self.edges if edge.target == vertex.id)

    def outputs(self, vertex: JobVertex) -> tuple[JobEdge, ...]:
        """The edges that begin at the vertex, in the order of declaration."""
        return tuple(edge for edge in self.edges if edge.source == vertex.id)
