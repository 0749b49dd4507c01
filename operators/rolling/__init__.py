"""Rolling aggregates: for each record, what the records of its key before it come to."""

from operators.rolling.operator import NativeRolling, RollingFunction
from operators.rolling.rolling_stream import RollingStream
from operators.rolling.spans import Emit, Rolling, check_emit, spans_of

__all__ = [
    "Emit",
    "NativeRolling",
    "Rolling",
    "RollingFunction",
    "RollingStream",
    "check_emit",
    "spans_of",
]
