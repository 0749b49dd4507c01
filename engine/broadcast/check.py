"""Refuses models that cannot work, before any worker starts."""

from __future__ import annotations

from collections.abc import Iterable

from engine.broadcast.backend import Publisher
from engine.config import JobConfig
from engine.errors import ConfigError, GraphError
from engine.graph.logical import TELLS_WHERE_IT_IS, LogicalEdge, LogicalGraph, LogicalOperator


def check(operators: Iterable[LogicalOperator], config: JobConfig) -> None:
    """Raise ConfigError if models cannot be moved in such a job as its operators say."""
    for operator in operators:
        wanted = operator.operator.properties.wanted(Publisher)
        if wanted is not None and wanted.via == "plasma" and config.runtime != "ray":
            raise ConfigError(
                f"operator {operator.name!r} broadcasts via 'plasma', Ray's object store, and "
                f"runtime is {config.runtime!r}, expected 'ray'",
                "runtime='ray', or broadcast(via='channels'), which needs no Ray",
            )


def check_given_again(graph: LogicalGraph) -> None:
    """Raise GraphError for models that no task would have after it has gone on."""
    for operator in graph.operators:
        kind = operator.operator
        if kind.properties.gives_again and not all(
            _publishes(graph, edge) for edge in graph.outputs(operator)
        ):
            raise GraphError(
                f"{operator.name}: source {type(kind).__name__} does not tell where it is but to "
                "broadcast(via=…), expected that right behind it in a job with checkpoints",
                hint=TELLS_WHERE_IT_IS,
            )
        if not (kind.properties.goes_on or _is_given_again(graph, operator)):
            raise GraphError(
                f"{operator.name}: {type(kind).__name__} does not keep its model, expected models "
                "that are published again in a job with checkpoints",
                hint="source(Models(…)).broadcast(via=…) does that; or leave checkpoints out",
            )


def _publishes(graph: LogicalGraph, edge: LogicalEdge) -> bool:
    """Whether it leads to an operator that publishes models."""
    target = graph.operators[edge.target].operator
    return target.properties.wanted(Publisher) is not None


def _is_given_again(graph: LogicalGraph, operator: LogicalOperator) -> bool:
    """Whether the side input of the operator is what one such source has published."""
    sides = [edge for edge in graph.inputs(operator) if edge.input == 1]
    published = [edge for side in sides for edge in graph.inputs(graph.operators[side.source])]
    sources = [graph.operators[edge.source].operator for edge in published]
    return len(sides) == len(sources) == 1 and sources[0].properties.gives_again
