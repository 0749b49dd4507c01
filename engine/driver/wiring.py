"""The description of each worker's task and of its peers: pure, from a graph and a placement."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from engine.config import JobConfig
from engine.deployment.description import OutputDescription, TaskDescription
from engine.deployment.scheduling import is_bulk
from engine.deployment.services import plan_services
from engine.graph.execution import ExecutionGraph
from engine.placement.place import Placement
from engine.service import Peer

Endpoints = Mapping[int, Mapping[str, str]]
"""Where each task's worker listens, by kind."""


def describe_tasks(
    graph: ExecutionGraph, placement: Placement, config: JobConfig
) -> list[TaskDescription]:
    """The descriptions of all tasks, by id. Raises GraphError where a service cannot be planned."""
    services = plan_services(graph, placement)
    neighbours = Counter(node.id for node in placement.nodes.values())
    columns = any(
        operator.operator.properties.emits_columns
        for vertex in graph.job.vertices
        for operator in vertex.operators
    )
    bulk = is_bulk(graph)
    return [
        TaskDescription(
            id=vertex.id,
            vertex=vertex.job_vertex.name,
            index=vertex.index,
            parallelism=vertex.job_vertex.parallelism,
            operators=vertex.job_vertex.operators,
            resources=vertex.job_vertex.resources,
            inputs=tuple(channel.id for channel in graph.inputs(vertex)),
            outputs=tuple(
                OutputDescription(
                    edge.partitioner, tuple(channel.id for channel in channels), edge.output
                )
                for edge, channels in graph.outputs(vertex)
            ),
            config=config,
            neighbours=neighbours[placement.node(vertex).id],
            columns=columns,
            bulk=bulk,
            second_inputs=tuple(channel.id for channel in graph.second_inputs(vertex)),
            services=services.get(vertex.id, ()),
            node=placement.node(vertex).id,
            host=placement.node(vertex).name,
        )
        for vertex in graph.vertices
    ]


def channel_peers(
    graph: ExecutionGraph,
    task: TaskDescription,
    tasks: Sequence[TaskDescription],
    endpoints: Endpoints,
) -> dict[int, str]:
    """For each channel of the task, the endpoint of the task at its other end."""
    peers = {}
    for channel in graph.channels:
        if task.id in (channel.source, channel.target):
            other = channel.target if task.id == channel.source else channel.source
            kind = task.config.transport
            if kind == "auto":
                kind = "tcp"
                if tasks[other].node == task.node:
                    kind = "shm" if "shm" in endpoints[other] else "ipc"  # which is off Linux
            peers[channel.id] = endpoints[other][kind]
    return peers


def channel_in_words(error: str, graph: ExecutionGraph, tasks: Sequence[TaskDescription]) -> str:
    """The error with the tasks at both ends of a channel that it names by number and endpoint."""
    found = _CHANNEL.search(error)
    channels = () if found is None else graph.channels
    for channel in channels:
        if found is not None and channel.id == int(found[1]):
            source, target = (
                f"task {tasks[end].name} on {tasks[end].host}"
                for end in (channel.source, channel.target)
            )
            return error.replace(found[0], f"the channel from {source} to {target}")
    return error


def service_peers(
    task: TaskDescription, tasks: Sequence[TaskDescription], endpoints: Endpoints
) -> dict[int, Peer]:
    """The tasks that the task's services have to know."""
    return {
        other: Peer(f"task {tasks[other].name} on node {tasks[other].host}", endpoints[other])
        for service in task.services
        for other in service.peers
    }


_CHANNEL = re.compile(r"channel (\d+) to \S+(?= was lost)")
