"""The plan of a job as a record: operators, chains and edges, by their numbers."""

from __future__ import annotations

from collections.abc import Mapping

from engine.graph.execution import ExecutionGraph
from engine.graph.logical import LogicalGraph
from engine.history.retention import Record
from engine.partitioner import label


def planned(logical: LogicalGraph, execution: ExecutionGraph, ways: Mapping[int, str]) -> Record:
    """What a history has of a plan.

    Columns of samples have the operators in the order of the `vertices` and of their `operators`,
    and the tasks in that of the vertices, each with its parallelism.
    """
    job = execution.job
    takes_rows = logical.takes_rows()
    return {
        "operators": [
            {
                "id": each.id,
                "name": each.name,
                "kind": type(each.operator).__name__,
                **({"way": ways[each.id]} if each.id in ways else {}),
                **({"rows_of_columns": True} if each.id in takes_rows else {}),
            }
            for each in logical.operators
        ],
        "vertices": [
            {
                "name": vertex.name,
                "operators": [operator.id for operator in vertex.operators],
                "parallelism": vertex.parallelism,
                "resources": dict(vertex.resources),
            }
            for vertex in job.vertices
        ],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "partitioner": label(edge.partitioner),
                **({"input": edge.input} if edge.input else {}),
                **({"side_output": list(edge.output)} if edge.output else {}),
            }
            for edge in job.edges
        ],
    }
