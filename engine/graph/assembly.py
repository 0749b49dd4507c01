"""From declarations to a logical graph.

It walks from the sinks back to the sources, so only what reaches a sink takes part.
"""

from collections.abc import Sequence
from typing import Any

from engine.errors import GraphError
from engine.graph.declaration import Declaration, Executable, OpenStream
from engine.graph.identity import identities
from engine.graph.logical import LogicalEdge, LogicalGraph, LogicalOperator
from engine.graph.sink import SinkOperator


def logical_graph(pipelines: Executable | Sequence[Executable]) -> LogicalGraph:
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
            declaration.native,
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
    if isinstance(pipeline, Executable) and isinstance(pipeline.declaration.operator, SinkOperator):
        return pipeline.declaration
    if isinstance(pipeline, OpenStream):
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
