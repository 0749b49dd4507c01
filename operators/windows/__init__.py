"""Windows over keyed streams: by time, by pauses, by number."""

from operators.aggregates.accumulator import Accumulator
from operators.windows.assigners import (
    Assigner,
    Calendar,
    CountWindow,
    Every,
    Session,
    Sliding,
    Tumbling,
)
from operators.windows.trigger import CountTrigger, Purging, Trigger, TriggerWindow
from operators.windows.windowed_stream import WindowedStream

__all__ = [
    "Accumulator",
    "Assigner",
    "Calendar",
    "CountTrigger",
    "CountWindow",
    "Every",
    "Purging",
    "Session",
    "Sliding",
    "Trigger",
    "TriggerWindow",
    "Tumbling",
    "WindowedStream",
]
