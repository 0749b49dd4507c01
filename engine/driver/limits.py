"""Which sources a job can end, since operators with a limit have emitted all that they will.

Pure: a graph and which tasks have emitted it in, task ids out.
"""

from __future__ import annotations

from engine.graph.execution import ExecutionGraph


class Limits:
    """Where the operators with a limit of a job are still at work, in one attempt."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._at_work: dict[str, set[int]] = {}
        for task in graph.vertices:
            for operator in task.job_vertex.operators:
                if operator.operator.properties.limit is not None:
                    self._at_work.setdefault(operator.name, set()).add(task.id)

    def reached(self, task: int, operator: str) -> set[int]:
        """Note that this operator will emit no more in this task.

        Returns the ids of tasks whose source can no longer reach any sink.
        """
        self._at_work[operator].discard(task)
        done = {name for name, tasks in self._at_work.items() if not tasks}
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

        Records that enter a vertex with a finished operator end at that operator.
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
