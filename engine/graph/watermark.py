"""Event time between records."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Watermark:
    """A mark between records: all records behind it are later than this, in event time.

    An operator gets it behind all records in front of it, when all its inputs have reached it.
    """

    time_us: int | None
    """Microseconds; None says that the source is idle: nobody waits for it until it has records
    again."""


START_OF_TIME = -(1 << 63)
"""The watermark before the first one."""


END_OF_TIME = (1 << 63) - 1
"""Event time at the end of the input. No task gets it as a watermark: it gets `on_end`."""
