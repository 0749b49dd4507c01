"""Which sources a job can end, since operators with a limit have emitted all that they will.

Pure: a graph and how much operators have emitted in, task ids out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine.graph.execution import ExecutionGraph
from engine.runtime.description import TaskStatistics


class Limits:
    """The limits of a job's operators; false if there is none."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._limits = {
            operator.name: limit
            for vertex in graph.job.vertices
            for operator in vertex.operators
            if (limit := operator.operator.properties.limit) is not None
        }

    def __bool__(self) -> bool:
        return bool(self._limits)

    def idle_sources(self, tasks: Sequence[TaskStatistics]) -> set[int]:
        """Ids of the tasks whose source can bring nothing to any sink any more."""
        emitted: Counter[str] = Counter()
        for task in tasks:
            for operator in task.operators:
                emitted[operator.name] += operator.records_out
        done = {name for name, limit in self._limits.items() if emitted[name] >= limit}
        if not done:
            return set()
        wanted = self._wanted(done)
        return {
            vertex.id
            for vertex in self._graph.vertices
            if vertex.job_vertex.is_source and vertex.job_vertex.id not in wanted
        }

    def _wanted(self, done: set[str]) -> set[int]:
        """Ids of the vertices whose first operator's records still lead to a sink or a side output.

        What goes into a vertex with an operator that is done gets no further than that operator.
        """
        job = self._graph.job
        wanted: set[int] = set()
        for vertex in reversed(job.vertices):
            before = [operator.name for operator in vertex.operators]
            at = next((at for at, name in enumerate(before) if name in done), None)
            reached = {
                None if edge.output is None else edge.output[0]
                for edge in job.outputs(vertex)
                if edge.target in wanted
            }
            if at is None:
                is_wanted = vertex.is_sink or bool(reached)
            else:
                is_wanted = any(name in before[:at] for name in reached if name is not None)
            if is_wanted:
                wanted.add(vertex.id)
        return wanted
