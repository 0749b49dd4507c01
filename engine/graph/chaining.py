"""Chaining: LogicalGraph -> JobGraph, operators that need no network between them fused.

Two operators share a vertex if a forward edge is the only main output of one and the only input of
the other and both have the same parallelism. An operator with a side input begins a vertex: all its
inputs come over channels, which can be paused. An operator that takes encoded batches begins a
vertex, too. A side output always leaves the vertex. A forward edge to a higher parallelism becomes
a rebalance, since some tasks would else receive nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.errors import GraphError
from engine.graph.job import JobEdge, JobGraph, JobVertex
from engine.graph.logical import LogicalEdge, LogicalGraph, LogicalOperator
from engine.graph.operator import Properties
from engine.partitioner import Forward, Hash, Partitioner, Rebalance


def chain(
    graph: LogicalGraph,
    parallelism: int,
    resources: Mapping[str, Mapping[str, float]] | None = None,
) -> JobGraph:
    """Fuse what can run in one task; operators without a parallelism of their own get this one.

    `resources` are those of the job's settings, by operator name. The pipeline's own settings of an
    operator win over those for all operators.
    """
    if parallelism < 1:
        raise GraphError(f"parallelism is {parallelism}, expected >= 1")
    configured = resources or {}
    _check_names(graph, configured)
    tasks = {operator.id: operator.parallelism or parallelism for operator in graph.operators}
    chains = _chains(graph, tasks)
    vertices = tuple(
        JobVertex(
            number,
            tuple(members),
            tasks[members[0].id],
            _resources(members, configured),
            _nodes(members),
        )
        for number, members in enumerate(chains)
    )
    _check_beside_sources(vertices)
    vertex_of = {operator.id: vertex.id for vertex in vertices for operator in vertex.operators}
    crossing = [edge for edge in graph.edges if vertex_of[edge.source] != vertex_of[edge.target]]
    edges = tuple(
        JobEdge(
            number,
            vertex_of[edge.source],
            vertex_of[edge.target],
            _partitioner(edge, tasks, graph.operators[edge.target].operator.properties),
            edge.input,
            None if edge.output is None else (graph.operators[edge.source].name, edge.output),
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
    outputs = graph.outputs(graph.operators[edge.source])
    return (
        isinstance(edge.partitioner, Forward)
        and tasks[edge.source] == tasks[edge.target]
        and not graph.operators[edge.target].operator.properties.accepts_encoded
        and [each for each in outputs if each.output is None] == [edge]
    )


def _resources(
    members: list[LogicalOperator], configured: Mapping[str, Mapping[str, float]]
) -> Mapping[str, float]:
    needed: dict[str, float] = {}
    for operator in members:
        own = {**operator.resources, **configured.get(operator.name, {})}
        for resource, amount in own.items():
            needed[resource] = max(float(amount), needed.get(resource, 0.0))
    everywhere = {name: float(amount) for name, amount in configured.get("*", {}).items()}
    return DEFAULT_RESOURCES | everywhere | needed


def _check_beside_sources(vertices: Sequence[JobVertex]) -> None:
    for vertex in vertices:
        for operator in vertex.operators:
            if operator.operator.properties.beside_source and not vertex.is_source:
                raise GraphError(
                    f"operator {operator.name!r} reads over channels from other tasks, expected "
                    "it in those of its source, since it tells whether that is idle, or holds it",
                    hint="call it right behind the source, before its stream is united with "
                    "others, dealt out, or read by a second operator",
                )


def _check_names(graph: LogicalGraph, configured: Mapping[str, Mapping[str, float]]) -> None:
    names = [operator.name for operator in graph.operators]
    for name in configured:
        if name != "*" and name not in names:
            raise GraphError(
                f"resources are given for the operator {name!r}, which the pipeline does not have",
                hint=f"its operators are {', '.join(names)}; '*' stands for all of them",
            )


def _nodes(members: list[LogicalOperator]) -> tuple[int, ...]:
    wanted = {operator.nodes: operator.name for operator in members if operator.nodes}
    if len(wanted) > 1:
        told = ", ".join(f"{name!r} on {nodes}" for nodes, name in wanted.items())
        raise GraphError(
            f"operators of one chain are to run on different nodes: {told}",
            "a chain runs in one task: pin one of its operators, or all alike",
        )
    return next(iter(wanted), ())


def _partitioner(edge: LogicalEdge, tasks: Mapping[int, int], behind: Properties) -> Partitioner:
    if isinstance(edge.partitioner, Forward) and tasks[edge.source] < tasks[edge.target]:
        return Rebalance()
    if isinstance(edge.partitioner, Hash) and not behind.accepts_columns:
        return replace(edge.partitioner, rows=True)
    return edge.partitioner


DEFAULT_RESOURCES = {"cpus": 1.0}
