"""Patterns: sequences of events of a key, as complex event processing finds them."""

from operators.patterns.operator import Patterns
from operators.patterns.stages import (
    AfterMatch,
    FollowedBy,
    FollowedByAny,
    Next,
    NotFollowedBy,
    NotNext,
    SkipToFirst,
    SkipToLast,
    Stage,
    Then,
    check_after_match,
)

__all__ = [
    "AfterMatch",
    "FollowedBy",
    "FollowedByAny",
    "Next",
    "NotFollowedBy",
    "NotNext",
    "Patterns",
    "SkipToFirst",
    "SkipToLast",
    "Stage",
    "Then",
    "check_after_match",
]
