"""The execution graph: one vertex per task, one channel per pair of tasks that talk.

Invariant: ids of vertices and channels count from 0, the same for the same job graph; a task's
channels of one edge are in the order of the target's (or source's) index, which is the order in
which a partitioner counts its targets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.graph.job import JobEdge, JobGraph, JobVertex
from engine.partitioner import Forward


@dataclass(frozen=True)
class ExecutionVertex:
    """A planned task: number `index` of the `job_vertex.parallelism` tasks of a job vertex."""

    id: int
    job_vertex: JobVertex
    index: int

    @property
    def name(self) -> str:
        """The chain's name and the index, such as `map -> filter[0]`."""
        return f"{self.job_vertex.name}[{self.index}]"


@dataclass(frozen=True)
class ExecutionChannel:
    """FIFO from the task with id `source` to the task with id `target`; `id` is job-wide."""

    id: int
    source: int
    target: int
    edge: JobEdge


@dataclass(frozen=True)
class ExecutionGraph:
    """All tasks and channels of a job."""

    job: JobGraph
    vertices: tuple[ExecutionVertex, ...]
    channels: tuple[ExecutionChannel, ...]

    def inputs(self, vertex: ExecutionVertex) -> tuple[ExecutionChannel, ...]:
        """The channels that end at the task."""
        return tuple(channel for channel in self.channels if channel.target == vertex.id)

    def second_inputs(self, vertex: ExecutionVertex) -> tuple[ExecutionChannel, ...]:
        """The channels of the task's second input."""
        return tuple(channel for channel in self.inputs(vertex) if channel.edge.input == 1)

    def outputs(
        self, vertex: ExecutionVertex
    ) -> tuple[tuple[JobEdge, tuple[ExecutionChannel, ...]], ...]:
        """The channels that begin at the task, by edge: one output gate for each."""
        begins = [channel for channel in self.channels if channel.source == vertex.id]
        return tuple(
            (edge, tuple(channel for channel in begins if channel.edge.id == edge.id))
            for edge in self.job.outputs(vertex.job_vertex)
        )


def expand(job: JobGraph) -> ExecutionGraph:
    """Multiply every vertex by its parallelism and every edge by the tasks at its ends."""
    vertices: list[ExecutionVertex] = []
    tasks: list[list[ExecutionVertex]] = []
    for vertex in job.vertices:
        first = len(vertices)
        tasks.append(
            [ExecutionVertex(first + index, vertex, index) for index in range(vertex.parallelism)]
        )
        vertices += tasks[-1]
    ends = (
        (source, target, edge)
        for edge in job.edges
        for source, target in _pairs(edge, tasks[edge.source], tasks[edge.target])
    )
    channels = tuple(
        ExecutionChannel(number, source.id, target.id, edge)
        for number, (source, target, edge) in enumerate(ends)
    )
    return ExecutionGraph(job, tuple(vertices), channels)


def _pairs(
    edge: JobEdge, sources: list[ExecutionVertex], targets: list[ExecutionVertex]
) -> Iterator[tuple[ExecutionVertex, ExecutionVertex]]:
    for source in sources:
        if isinstance(edge.partitioner, Forward):
            yield source, targets[source.index * len(targets) // len(sources)]
        else:
            for target in targets:
                yield source, target
