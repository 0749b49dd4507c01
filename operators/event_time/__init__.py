"""Event time: where records have their time, and the watermarks that are made of it."""

from operators.event_time.first_times import with_units_checked
from operators.event_time.ingestion import WithIngestionTime
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
