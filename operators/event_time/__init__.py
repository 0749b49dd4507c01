"""Event time: the places of times in records, and the watermarks from these times."""

from operators.event_time.first_times import with_units_checked
from operators.event_time.ingestion import WithIngestionTime
from operators.event_time.late import LATE
from operators.event_time.lookup import check_before_keys, time_of
from operators.event_time.selector import (
    FARTHEST_US,
    MICROSECONDS,
    GivesTime,
    Time,
    TimeSelector,
    Unit,
)
from operators.event_time.watermarks import A_DAY, WithEventTime

__all__ = [
    "A_DAY",
    "FARTHEST_US",
    "LATE",
    "MICROSECONDS",
    "GivesTime",
    "Time",
    "TimeSelector",
    "Unit",
    "WithEventTime",
    "WithIngestionTime",
    "check_before_keys",
    "time_of",
    "with_units_checked",
]
