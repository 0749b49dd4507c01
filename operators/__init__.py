"""The API to compose pipelines: `source(...)`, then methods of streams, then `.sink(...)`.

Composing does nothing; `engine.execute` runs what a sink has closed. For your own operator write a
`BatchOperator`; `Stream.then` puts it behind a stream.
"""

from pathlib import Path

import engine

if Path(engine.__file__ or "").resolve().parent.parent != Path(__file__).resolve().parent.parent:
    raise ImportError(  # nothing of the engine that could say it
        f"{engine.__file__} hides Oka's package 'engine'\n\n"
        "hint: give it another name; programs need Oka's packages oka, engine and operators"
    )

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import Gate, TaskContext
from engine.graph.operator import Properties
from engine.graph.partitions import Partition, PartitionedSource, PartitionReader
from engine.graph.sink import SinkOperator, SinkWriter
from engine.graph.source import SourceOperator, SourceReader, SplitReader
from engine.graph.watermark import Watermark
from engine.network import Cancelled
from engine.state import KeyedState
from operators.aggregates import (
    ApproxCountDistinct,
    ApproxQuantile,
    ApproxQuantiles,
    Array,
    BitAnd,
    BitOr,
    BitXor,
    BoolAnd,
    BoolOr,
    Correlation,
    Count,
    CountDistinct,
    Covariance,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Quantiles,
    Regression,
    Stddev,
    Sum,
    Top,
    Variance,
)
from operators.changes import Change
from operators.combine import combine
from operators.keyed_stream import KeyedStream
from operators.lookup_join import Cache, Lookup
from operators.pipeline import Pipeline
from operators.process import (
    BroadcastContext,
    BroadcastProcessFunction,
    BroadcastState,
    ConnectedStreams,
    CoProcessFunction,
    ListState,
    MapState,
    ProcessContext,
    ProcessFunction,
    ValueState,
)
from operators.rolling import RollingStream
from operators.stream import Stream, source
from operators.tables import Table
from operators.windows import (
    Accumulator,
    Calendar,
    CountTrigger,
    CountWindow,
    Every,
    Purging,
    Session,
    Sliding,
    Trigger,
    TriggerWindow,
    Tumbling,
    WindowedStream,
)

__all__ = [
    "Accumulator",
    "ApproxCountDistinct",
    "ApproxQuantile",
    "ApproxQuantiles",
    "Array",
    "BatchFunction",
    "BatchOperator",
    "BitAnd",
    "BitOr",
    "BitXor",
    "BoolAnd",
    "BoolOr",
    "BroadcastContext",
    "BroadcastProcessFunction",
    "BroadcastState",
    "Cache",
    "Calendar",
    "Cancelled",
    "Change",
    "CoProcessFunction",
    "ConnectedStreams",
    "Correlation",
    "Count",
    "CountDistinct",
    "CountTrigger",
    "CountWindow",
    "Covariance",
    "Every",
    "First",
    "Gate",
    "KeyedState",
    "KeyedStream",
    "Last",
    "ListState",
    "Lookup",
    "MapState",
    "Max",
    "Mean",
    "Min",
    "Partition",
    "PartitionReader",
    "PartitionedSource",
    "Pipeline",
    "ProcessContext",
    "ProcessFunction",
    "Properties",
    "Purging",
    "Quantile",
    "Quantiles",
    "Regression",
    "RollingStream",
    "Session",
    "SinkOperator",
    "SinkWriter",
    "Sliding",
    "SourceOperator",
    "SourceReader",
    "SplitReader",
    "Stddev",
    "Stream",
    "Sum",
    "Table",
    "TaskContext",
    "Top",
    "Trigger",
    "TriggerWindow",
    "Tumbling",
    "ValueState",
    "Variance",
    "Watermark",
    "WindowedStream",
    "combine",
    "source",
]
