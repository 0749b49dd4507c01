"""Joins of two keyed streams: of records of one key, near each other in event time or at any."""

from operators.joins.interval import IntervalJoin, check_between
from operators.joins.joining import (
    How,
    Joining,
    JoinInput,
    check_joining,
)
from operators.joins.temporal import TemporalJoin
from operators.joins.unbounded import AntiJoin, SemiJoin, UnboundedJoin
from operators.joins.window import WindowJoin, Windows

__all__ = [
    "AntiJoin",
    "How",
    "IntervalJoin",
    "JoinInput",
    "Joining",
    "SemiJoin",
    "TemporalJoin",
    "UnboundedJoin",
    "WindowJoin",
    "Windows",
    "check_between",
    "check_joining",
]
