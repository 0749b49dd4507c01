"""All names of `engine`, which gets one from here when it is first used."""

from engine.config import JobConfig
from engine.errors import (
    ChannelLost,
    ConfigError,
    DriverLost,
    EngineError,
    GraphError,
    JobCancelled,
    JobStopped,
    ModelError,
    OperatorError,
    PlacementError,
    StartError,
    WorkerLost,
)
from engine.job import JobHandle, execute, submit
from engine.report.result import JobResult
from engine.report.statistics import JobStatistics, Latency

__all__ = [
    "ChannelLost",
    "ConfigError",
    "DriverLost",
    "EngineError",
    "GraphError",
    "JobCancelled",
    "JobConfig",
    "JobHandle",
    "JobResult",
    "JobStatistics",
    "JobStopped",
    "Latency",
    "ModelError",
    "OperatorError",
    "PlacementError",
    "StartError",
    "WorkerLost",
    "execute",
    "submit",
]
