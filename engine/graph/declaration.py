"""Declarations: what the fluent API leaves behind, and how it becomes a logical graph.

A declaration is one operator with the declarations it reads from; declaring does nothing else.
`logical_graph` walks from the sinks back to the sources, so only what reaches a sink takes part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from engine.errors import GraphError
from engine.graph.identity import identities
from engine.graph.logical import LogicalEdge, LogicalGraph, LogicalOperator
from engine.graph.operator import Operator, SinkOperator
from engine.graph.partitioner import Forward, Partitioner, label


@dataclass(frozen=True, eq=False)
class Declaration:
    """One operator as declared.

    `identity` survives `dataclasses.replace`, so that two settings of one operator are noticed.
    `named` tells a name the user gave from a default, which may get a suffix.
    """

    operator: Operator
    name: str
    inputs: tuple["Input", ...] = ()
    named: bool = False
    parallelism: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    nodes: tuple[int, ...] = ()
    pickle: bool = False
    identity: object = field(default_factory=object)


@dataclass(frozen=True, eq=False)
class Input:
    """An edge as declared: where the records come from and how they are divided."""

    source: Declaration
    partitioner: Partitioner
    input: int = 0
    """The number of the operator's input that it is of: 1 is the second, where it has two."""
    output: str | None = None
    """The side output that they come from; None is the main output."""


@runtime_checkable
class Sunk(Protocol):
    """What can be executed: something that ends in a sink."""

    @property
    def declaration(self) -> Declaration:
        """The sink's declaration."""


@runtime_checkable
class Open(Protocol):
    """A stream that something may still read from."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The edges the next operator would have."""


def shown(inputs: Sequence[Input]) -> str:
    """The way to these edges, for people: `text_files -> flat_map -> hash by 0`.

    Where several streams come together it begins with their last operators.
    """
    steps: list[str] = []
    while len(inputs) == 1:
        (declared,) = inputs
        if not isinstance(declared.partitioner, Forward):
            steps.append(label(declared.partitioner))
        if declared.output is not None:
            steps.append(f"side output {declared.output}")
        steps.append(declared.source.name)
        inputs = main_inputs(declared.source)
    if inputs:
        steps.append(f"({' | '.join(declared.source.name for declared in inputs)})")
    return " -> ".join(reversed(steps))


def main_inputs(declaration: Declaration) -> list[Input]:
    """The edges of its inputs, without those of a side input."""
    has_side = declaration.operator.properties.side_input
    return [edge for edge in declaration.inputs if not (has_side and edge.input)]


def logical_graph(pipelines: Sunk | Sequence[Sunk]) -> LogicalGraph:
    """The graph of everything that the pipelines' sinks read from, shared operators once.

    Raises `GraphError` if something is not a pipeline or has no sink.
    """
    sequence: Sequence[Any] = pipelines if isinstance(pipelines, list | tuple) else [pipelines]
    if not sequence:
        raise GraphError("there is no pipeline, expected at least one")
    declarations = _in_topological_order([_sink(pipeline) for pipeline in sequence])
    ids = {declaration.identity: number for number, declaration in enumerate(declarations)}
    operators = tuple(
        LogicalOperator(
            number,
            name,
            declaration.operator,
            declaration.parallelism,
            declaration.resources,
            declaration.nodes,
            declaration.pickle,
            identity,
        )
        for number, (declaration, name, identity) in enumerate(
            zip(declarations, _names(declarations), identities(declarations), strict=True)
        )
    )
    edges = tuple(
        LogicalEdge(
            ids[declared.source.identity],
            number,
            declared.partitioner,
            declared.input,
            declared.output,
        )
        for number, declaration in enumerate(declarations)
        for declared in declaration.inputs
    )
    return LogicalGraph(operators, edges)


def _sink(pipeline: object) -> Declaration:
    if isinstance(pipeline, Sunk) and isinstance(pipeline.declaration.operator, SinkOperator):
        return pipeline.declaration
    if isinstance(pipeline, Open):
        names = " and ".join(repr(declared.source.name) for declared in pipeline.inputs)
        raise GraphError(
            f"the stream after {names} has no sink, expected a pipeline",
            hint="end it with a sink, such as .sink(Collect())",
        )
    raise GraphError(
        f"got {type(pipeline).__name__}, expected a pipeline",
        hint="a pipeline is what .sink(...) returns",
    )


def _in_topological_order(sinks: list[Declaration]) -> list[Declaration]:
    ordered: dict[object, Declaration] = {}
    # Depth first with a stack of our own: a long pipeline must not meet the recursion limit.
    stack = [(sink, False) for sink in reversed(sinks)]
    while stack:
        declaration, inputs_done = stack.pop()
        known = ordered.get(declaration.identity)
        if known is not None:
            if known is not declaration:
                raise GraphError(
                    f"operator {known.name!r} is used with two different settings",
                    hint="call .named(), .with_parallelism() and .with_resources() before the "
                    "stream branches, and sink a stream once per .sink(...)",
                )
        elif inputs_done:
            ordered[declaration.identity] = declaration
        else:
            stack.append((declaration, True))
            stack += [(declared.source, False) for declared in reversed(declaration.inputs)]
    return list(ordered.values())


def _names(declarations: list[Declaration]) -> list[str]:
    taken = {declaration.name for declaration in declarations if declaration.named}
    names = []
    for declaration in declarations:
        name, number = declaration.name, 1
        while not declaration.named and name in taken:
            number += 1
            name = f"{declaration.name}-{number}"
        taken.add(name)
        names.append(name)
    return names
