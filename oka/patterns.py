"""Patterns: sequences of events of a key, as complex event processing finds them."""

from operators.patterns import (
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
)

__all__ = [
    "AfterMatch",
    "FollowedBy",
    "FollowedByAny",
    "Next",
    "NotFollowedBy",
    "NotNext",
    "SkipToFirst",
    "SkipToLast",
    "Stage",
    "Then",
]
