"""Joins of two keyed streams: of records of one key that are near each other in event time."""

from operators.joins.interval import IntervalJoin, check_between
from operators.joins.joining import (
    How,
    Joining,
    JoinInput,
    check_joining,
)
from operators.joins.temporal import TemporalJoin
from operators.joins.window import WindowJoin, Windows

__all__ = [
    "How",
    "IntervalJoin",
    "JoinInput",
    "Joining",
    "TemporalJoin",
    "WindowJoin",
    "Windows",
    "check_between",
    "check_joining",
]
