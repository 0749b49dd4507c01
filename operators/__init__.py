"""The API to compose pipelines: `source(...)`, then methods of streams, then `.sink(...)`.

Composing does nothing; `engine.execute` runs what a sink has closed. For your own operator write a
`BatchOperator`; `Stream.then` puts it behind a stream.
"""

from pathlib import Path

import engine

if Path(engine.__file__ or "").resolve().parent.parent != Path(__file__).resolve().parent.parent:
    raise ImportError(  # nothing of the engine that could say it
        f"{engine.__file__} hides Oka's package 'engine'\n\n"
        "hint: give it another name; programs need Oka's packages engine and operators"
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
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Quantiles,
    Sum,
    Top,
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
    CountWindow,
    Every,
    Session,
    Sliding,
    Tumbling,
    WindowedStream,
)

__all__ = [
    "Accumulator",
    "BatchFunction",
    "BatchOperator",
    "BroadcastContext",
    "BroadcastProcessFunction",
    "BroadcastState",
    "Cache",
    "Cancelled",
    "Change",
    "CoProcessFunction",
    "ConnectedStreams",
    "Count",
    "CountDistinct",
    "CountWindow",
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
    "Quantile",
    "Quantiles",
    "RollingStream",
    "Session",
    "SinkOperator",
    "SinkWriter",
    "Sliding",
    "SourceOperator",
    "SourceReader",
    "SplitReader",
    "Stream",
    "Sum",
    "Table",
    "TaskContext",
    "Top",
    "Tumbling",
    "ValueState",
    "Watermark",
    "WindowedStream",
    "combine",
    "source",
]
