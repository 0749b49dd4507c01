"""Planning as frozen data: declarations, logical graph, job graph, execution graph.

Everything here is a pure function of its arguments; nothing starts, opens or sends. Each step adds
one decision: `logical_graph` collects what was declared, `chain` fuses operators, `expand`
multiplies by parallelism.
"""

from engine.graph.assembly import logical_graph
from engine.graph.batch_operator import BatchFunction, BatchOperator, PureFunction
from engine.graph.chaining import chain
from engine.graph.context import Gate, Rescue, TaskContext
from engine.graph.declaration import Declaration, Input
from engine.graph.execution import ExecutionChannel, ExecutionGraph, ExecutionVertex, expand
from engine.graph.job import JobEdge, JobGraph, JobVertex
from engine.graph.logical import LogicalEdge, LogicalGraph, LogicalOperator
from engine.graph.operator import OnError, Operator, Properties, RecordOperator
from engine.graph.sink import SinkOperator, SinkWriter
from engine.graph.source import SourceOperator
from engine.partitioner import Broadcast, Forward, Hash, Partitioner, Rebalance

__all__ = [
    "BatchFunction",
    "BatchOperator",
    "Broadcast",
    "Declaration",
    "ExecutionChannel",
    "ExecutionGraph",
    "ExecutionVertex",
    "Forward",
    "Gate",
    "Hash",
    "Input",
    "JobEdge",
    "JobGraph",
    "JobVertex",
    "LogicalEdge",
    "LogicalGraph",
    "LogicalOperator",
    "OnError",
    "Operator",
    "Partitioner",
    "Properties",
    "PureFunction",
    "Rebalance",
    "RecordOperator",
    "Rescue",
    "SinkOperator",
    "SinkWriter",
    "SourceOperator",
    "TaskContext",
    "chain",
    "expand",
    "logical_graph",
]
