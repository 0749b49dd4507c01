"""How far each source may read, so that none runs away from the others in event time.

Pure: a graph and how far sources have come in, limits out.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.graph.execution import ExecutionGraph
from engine.graph.job import JobEdge, JobGraph
from engine.graph.watermark import END_OF_TIME, START_OF_TIME
from engine.task.drift import aligned_operator


class SourceAlignment:
    """The sources of a job that have a `max_drift`, in one attempt.

    Sources whose streams meet are one group. A source may read while its watermark is at most its
    drift above the lowest one of its group. Idle and ended sources do not count; a source without a
    report yet does. A limit never falls.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        self._groups = {task: group for group in _groups(graph) for task in group.tasks}

    def progressed(self, task: int, watermark_us: int | None) -> dict[int, int]:
        """A source has come so far; None: it is idle, or has ended. New limits, by task."""
        return self._groups[task].progressed(task, watermark_us)


class _Group:
    """Sources that wait for each other, by task."""

    def __init__(self, drifts: dict[int, int]) -> None:
        self._drifts = drifts
        self._watermarks: dict[int, int | None] = dict.fromkeys(drifts, START_OF_TIME)
        self._limits = dict.fromkeys(drifts, START_OF_TIME)

    @property
    def tasks(self) -> Sequence[int]:
        """Their ids."""
        return list(self._drifts)

    def progressed(self, task: int, watermark_us: int | None) -> dict[int, int]:
        """The new limits of sources that may soon need them."""
        self._watermarks[task] = watermark_us
        counting = [each for each in self._watermarks.values() if each is not None]
        if not counting or (least := min(counting)) == START_OF_TIME:
            return {}
        raised = {}
        for each, drift in self._drifts.items():
            watermark, limit = self._watermarks[each], self._limits[each]
            highest = END_OF_TIME if len(self._drifts) == 1 else least + drift
            if watermark is not None and watermark > limit - drift // 2 and highest > limit:
                raised[each] = self._limits[each] = highest
        return raised


def _groups(graph: ExecutionGraph) -> list[_Group]:
    """Of the vertices with such an operator, those from which one and the same can be reached."""
    groups: list[tuple[set[int], dict[int, int]]] = []
    for vertex in graph.job.vertices:
        _, drift_us = aligned_operator(vertex.operators)
        if drift_us is None:
            continue
        reached = _reached(graph.job, vertex.id)
        drifts = {task.id: drift_us for task in graph.vertices if task.job_vertex.id == vertex.id}
        for group in [group for group in groups if group[0] & reached]:
            groups.remove(group)
            reached, drifts = reached | group[0], group[1] | drifts
        groups.append((reached, drifts))
    return [_Group(drifts) for _, drifts in groups]


def _reached(job: JobGraph, vertex: int) -> set[int]:
    """Ids of the vertices that get this one's watermarks, itself included."""
    reached = {vertex}
    for each in job.vertices:  # those that are read come before those that read them
        if each.id in reached:
            reached |= {edge.target for edge in job.outputs(each) if _tells_time(job, edge)}
    return reached


def _tells_time(job: JobGraph, edge: JobEdge) -> bool:
    """Whether it carries watermarks to the target: a side input does not."""
    reader = job.vertices[edge.target].operators[0].operator
    return edge.input == 0 or not reader.properties.side_input
