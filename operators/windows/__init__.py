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
from operators.windows.windowed_stream import WindowedStream

__all__ = [
    "Accumulator",
    "Assigner",
    "Calendar",
    "CountWindow",
    "Every",
    "Session",
    "Sliding",
    "Tumbling",
    "WindowedStream",
]
