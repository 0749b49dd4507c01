"""Finds sources that no operator reads any more: the master ends them, and so a finished job.

An operator may be finished before its inputs end: one with a model ends with its records. A source
is needed while a later operator works, unless that only passes records on to finished operators.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.graph.execution import ExecutionGraph


def unneeded_sources(graph: ExecutionGraph, finished: Collection[int]) -> set[int]:
    """The ids of source tasks that are no longer needed, if these tasks have finished."""
    job = graph.job
    at_work = {task.job_vertex.id for task in graph.vertices if task.id not in finished}
    needed: set[int] = set()
    for vertex in reversed(job.vertices):  # those that read a vertex come after it
        readers = [edge.target for edge in job.outputs(vertex)]
        if vertex.id in at_work and (not readers or needed.intersection(readers)):
            needed.add(vertex.id)
    return {
        task.id
        for task in graph.vertices
        if task.job_vertex.is_source
        and task.job_vertex.id not in needed
        and task.id not in finished
    }
