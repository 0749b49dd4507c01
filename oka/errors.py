"""Errors that Oka raises, all of them under `EngineError`."""

from engine.errors import (
    ChannelLost,
    CheckpointError,
    ConfigError,
    DriverLost,
    EngineError,
    Fenced,
    GraphError,
    JobCancelled,
    JobStopped,
    ModelError,
    OperatorError,
    PlacementError,
    StartError,
    StorageError,
    WorkerLost,
)

__all__ = [
    "ChannelLost",
    "CheckpointError",
    "ConfigError",
    "DriverLost",
    "EngineError",
    "Fenced",
    "GraphError",
    "JobCancelled",
    "JobStopped",
    "ModelError",
    "OperatorError",
    "PlacementError",
    "StartError",
    "StorageError",
    "WorkerLost",
]
