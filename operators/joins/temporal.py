"""Temporal joins: a record of a stream with the version of a table that was there at its time."""

from dataclasses import dataclass

from engine.network import Join as Matcher
from operators.joins.function import Join
from operators.joins.joining import SIDES


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Joins a record of the left at t with the newest one of the right of its key, up to t."""

    name = "temporal_join"
    sides = SIDES[:1]

    def watermark_of_results(self, watermark_us: int) -> int:
        """The same: a record waits for it."""
        return watermark_us

    def matcher(self, aside: tuple[bool, bool]) -> Matcher:
        """The partner is the newest version."""
        return Matcher(self.joining.told(aside))
