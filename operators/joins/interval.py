"""Interval joins: a record of the left and those of the right that are near it in event time."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from engine.errors import GraphError
from engine.network import Join as Matcher
from operators.durations import check_duration, microseconds
from operators.joins.function import Join
from operators.joins.records import limited


@dataclass(frozen=True)
class IntervalJoin(Join):
    """Joins a record of the left at t with those of the right of its key in [t + low, t + high]."""

    low: int
    """In microseconds, as `high`."""
    high: int

    name = "interval_join"
    keeps_joined = True

    @property
    def meaning(self) -> dict[str, Any]:
        """The bounds: what is farther is not kept."""
        low, high = (timedelta(microseconds=each) for each in (self.low, self.high))
        return {"between": f"{_signed(low)} and {_signed(high)}"}

    def watermark_of_results(self, watermark_us: int) -> int:
        """As long ago as the partner of a record can be."""
        return watermark_us - max(0, self.high, -self.low)

    def matcher(self, aside: tuple[bool, bool]) -> Matcher:
        """Partners are within the bounds."""
        return Matcher(self.joining.told(aside), (limited(self.low), limited(self.high)))


def check_between(between: object) -> tuple[int, int]:
    """The bounds in microseconds; raises `GraphError` unless they are two durations in order."""
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise GraphError(
            f"interval_join() got between={between!r:.80}, expected two durations",
            hint="between=(timedelta(0), timedelta(hours=1))",
        )
    for each in between:
        check_duration("interval_join(): between", each, least=None)
    low, high = map(microseconds, between)
    if low > high:
        raise GraphError(f"interval_join() got between={between!r}, expected the lower bound first")
    return low, high


def _signed(duration: timedelta) -> str:
    return f"-{-duration}" if duration < timedelta() else str(duration)
