"""Which sources nobody reads any more: the master ends them, and with them a job that is done.

An operator may have all it needs before its inputs have ended, as one with a model has once its
records have. A source is needed while some operator behind it is at work that does not merely pass
its records on to others that are not.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.graph.execution import ExecutionGraph


def unneeded_sources(graph: ExecutionGraph, finished: Collection[int]) -> set[int]:
    """The tasks of sources that are at work for nobody, by id, where these tasks have finished."""
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
