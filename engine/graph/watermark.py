"""Event time between records."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Watermark:
    """What a source gives between records: all that follow are later than this, in event time.

    An operator hears of it behind all records in front of it, when all its inputs have come so far.
    """

    time_us: int | None
    """Microseconds; None says that the source is idle: nobody waits for it until it goes on."""


START_OF_TIME = -(1 << 63)
"""The watermark that says nothing."""


END_OF_TIME = (1 << 63) - 1
"""What event time comes to at the end of the input. No task is told of it: it is `on_end`."""
