"""Chaining: LogicalGraph -> JobGraph, operators that need no network between them fused.

Two operators share a vertex if a forward edge is the only output of one and the only input of the
other and both have the same parallelism; so an operator with a side input begins a vertex, where
all that it reads comes over channels, which can be paused. A forward edge to more tasks than it
comes from becomes a rebalance, since some tasks would else receive nothing.
"""

from collections.abc import Mapping

from engine.errors import GraphError
from engine.graph.job import JobEdge, JobGraph, JobVertex
from engine.graph.logical import LogicalEdge, LogicalGraph, LogicalOperator
from engine.graph.partitioner import Forward, Partitioner, Rebalance


def chain(graph: LogicalGraph, parallelism: int) -> JobGraph:
    """Fuse what can run in one task; operators without a parallelism of their own get this one."""
    if parallelism < 1:
        raise GraphError(f"parallelism is {parallelism}, expected >= 1")
    tasks = {operator.id: operator.parallelism or parallelism for operator in graph.operators}
    chains = _chains(graph, tasks)
    vertices = tuple(
        JobVertex(
            number, tuple(members), tasks[members[0].id], _resources(members), _nodes(members)
        )
        for number, members in enumerate(chains)
    )
    vertex_of = {operator.id: vertex.id for vertex in vertices for operator in vertex.operators}
    crossing = [edge for edge in graph.edges if vertex_of[edge.source] != vertex_of[edge.target]]
    edges = tuple(
        JobEdge(
            number,
            vertex_of[edge.source],
            vertex_of[edge.target],
            _partitioner(edge, tasks),
            edge.side,
        )
        for number, edge in enumerate(crossing)
    )
    return JobGraph(vertices, edges)


def _chains(graph: LogicalGraph, tasks: Mapping[int, int]) -> list[list[LogicalOperator]]:
    chains: list[list[LogicalOperator]] = []
    chain_of: dict[int, list[LogicalOperator]] = {}
    for operator in graph.operators:
        inputs = graph.inputs(operator)
        if len(inputs) == 1 and _fuses(graph, inputs[0], tasks):
            members = chain_of[inputs[0].source]
        else:
            members = []
            chains.append(members)
        members.append(operator)
        chain_of[operator.id] = members
    return chains


def _fuses(graph: LogicalGraph, edge: LogicalEdge, tasks: Mapping[int, int]) -> bool:
    return (
        isinstance(edge.partitioner, Forward)
        and tasks[edge.source] == tasks[edge.target]
        and len(graph.outputs(graph.operators[edge.source])) == 1
    )


def _resources(members: list[LogicalOperator]) -> Mapping[str, float]:
    needed: dict[str, float] = {}
    for operator in members:
        for resource, amount in operator.resources.items():
            needed[resource] = max(amount, needed.get(resource, 0.0))
    return DEFAULT_RESOURCES | needed


def _nodes(members: list[LogicalOperator]) -> tuple[int, ...]:
    wanted = {operator.nodes: operator.name for operator in members if operator.nodes}
    if len(wanted) > 1:
        told = ", ".join(f"{name!r} on {nodes}" for nodes, name in wanted.items())
        raise GraphError(
            f"operators of one chain are to run on different nodes: {told}",
            "a chain runs in one task: pin one of its operators, or all alike",
        )
    return next(iter(wanted), ())


def _partitioner(edge: LogicalEdge, tasks: Mapping[int, int]) -> Partitioner:
    if isinstance(edge.partitioner, Forward) and tasks[edge.source] < tasks[edge.target]:
        return Rebalance()
    return edge.partitioner


DEFAULT_RESOURCES = {"cpus": 1.0}
