"""`process`: a user's class with state and timers of each key."""

from operators.process.broadcast import (
    BroadcastContext,
    BroadcastProcessFunction,
    BroadcastState,
)
from operators.process.context import ProcessContext
from operators.process.function import CoProcessFunction, ProcessFunction
from operators.process.keyed import ConnectedStreams, KeyedProcess
from operators.process.operator import Process
from operators.process.states import ListState, MapState, ValueState

__all__ = [
    "BroadcastContext",
    "BroadcastProcessFunction",
    "BroadcastState",
    "CoProcessFunction",
    "ConnectedStreams",
    "KeyedProcess",
    "ListState",
    "MapState",
    "Process",
    "ProcessContext",
    "ProcessFunction",
    "ValueState",
]
