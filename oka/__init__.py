"""All that programs need of Oka: `import oka`.

>>> import oka
>>> words = oka.source(oka.sources.Collection(["a", "b", "a"]))
>>> counted = words.map(lambda word: (word, 1)).key_by(0).sum(1)
>>> dict(oka.testing.run(counted.sink(oka.sinks.Collect()))["collect"])["a"]
2

Each name is the object of `engine` or `operators`, loaded when it is first used. Modules of names:
`oka.sources`, `oka.sinks`, `oka.formats`, `oka.kafka`, `oka.patterns`, `oka.errors` and
`oka.testing`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import engine

if TYPE_CHECKING:
    from engine import (
        ChannelLost,
        ConfigError,
        DriverLost,
        EngineError,
        GraphError,
        JobCancelled,
        JobConfig,
        JobHandle,
        JobResult,
        JobStatistics,
        JobStopped,
        Latency,
        ModelError,
        OperatorError,
        PlacementError,
        StartError,
        WorkerLost,
        execute,
        submit,
    )
    from engine.gateway import Request, Response
    from engine.model import Model
    from engine.s3 import S3
    from oka import errors, formats, kafka, patterns, sinks, sources, testing
    from operators import (
        Accumulator,
        ApproxCountDistinct,
        ApproxQuantile,
        ApproxQuantiles,
        Array,
        BatchFunction,
        BatchOperator,
        BitAnd,
        BitOr,
        BitXor,
        BoolAnd,
        BoolOr,
        BroadcastContext,
        BroadcastProcessFunction,
        BroadcastState,
        Cache,
        Calendar,
        Cancelled,
        Change,
        ConnectedStreams,
        CoProcessFunction,
        Correlation,
        Count,
        CountDistinct,
        CountTrigger,
        CountWindow,
        Covariance,
        Every,
        First,
        Gate,
        KeyedState,
        KeyedStream,
        Last,
        ListState,
        Lookup,
        MapState,
        Max,
        Mean,
        Min,
        Partition,
        PartitionedSource,
        PartitionReader,
        Pipeline,
        ProcessContext,
        ProcessFunction,
        Properties,
        Purging,
        Quantile,
        Quantiles,
        Regression,
        RollingStream,
        Session,
        SinkOperator,
        SinkWriter,
        Sliding,
        SourceOperator,
        SourceReader,
        SplitReader,
        Stddev,
        Stream,
        Sum,
        Table,
        TaskContext,
        Top,
        Trigger,
        TriggerWindow,
        Tumbling,
        ValueState,
        Variance,
        Watermark,
        WindowedStream,
        combine,
        source,
    )

__all__ = [
    "S3",
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
    "ChannelLost",
    "CoProcessFunction",
    "ConfigError",
    "ConnectedStreams",
    "Correlation",
    "Count",
    "CountDistinct",
    "CountTrigger",
    "CountWindow",
    "Covariance",
    "DriverLost",
    "EngineError",
    "Every",
    "First",
    "Gate",
    "GraphError",
    "JobCancelled",
    "JobConfig",
    "JobHandle",
    "JobResult",
    "JobStatistics",
    "JobStopped",
    "KeyedState",
    "KeyedStream",
    "Last",
    "Latency",
    "ListState",
    "Lookup",
    "MapState",
    "Max",
    "Mean",
    "Min",
    "Model",
    "ModelError",
    "OperatorError",
    "Partition",
    "PartitionReader",
    "PartitionedSource",
    "Pipeline",
    "PlacementError",
    "ProcessContext",
    "ProcessFunction",
    "Properties",
    "Purging",
    "Quantile",
    "Quantiles",
    "Regression",
    "Request",
    "Response",
    "RollingStream",
    "Session",
    "SinkOperator",
    "SinkWriter",
    "Sliding",
    "SourceOperator",
    "SourceReader",
    "SplitReader",
    "StartError",
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
    "WorkerLost",
    "combine",
    "errors",
    "execute",
    "formats",
    "kafka",
    "patterns",
    "sinks",
    "source",
    "sources",
    "submit",
    "testing",
]


if not TYPE_CHECKING:  # else, type checkers would take any name for one of this module

    def __getattr__(name: str) -> Any:
        """The object of this name, which is then a variable of this module."""
        if name not in __all__:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[__name__])
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        package = "engine" if name in engine.__all__ else _ELSEWHERE.get(name, "operators")
        found = globals()[name] = getattr(import_module(package), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_MODULES = ("errors", "formats", "kafka", "patterns", "sinks", "sources", "testing")
_ELSEWHERE = {
    "Request": "engine.gateway",
    "Response": "engine.gateway",
    "Model": "engine.model",
    "S3": "engine.s3",
}
