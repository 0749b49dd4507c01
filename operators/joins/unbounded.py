"""Joins without a bound in time: each record with all of the other side that are kept."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

from engine.graph.watermark import START_OF_TIME
from engine.network import Join as Matcher
from operators.event_time import FARTHEST_US
from operators.joins.function import Join
from operators.joins.joining import Results


@dataclass(frozen=True)
class UnboundedJoin(Join):
    """Joins each record of a key with all of the other side, at once."""

    keep_us: int | None
    """How long a record is kept, in event time; None is for ever."""

    name: ClassVar[str] = "join"
    keeps_joined = True
    gives: ClassVar[Literal["pairs", "semi", "anti"]] = "pairs"

    @property
    def meaning(self) -> dict[str, Any]:
        """Whether records expire: those of a job without times have none."""
        keep = self.keep_us
        return {} if keep is None else {"expire_after": str(timedelta(microseconds=keep))}

    @property
    def gives_changes(self) -> bool:
        """Whether a result may be taken back."""
        return self.gives == "anti" or any(self.joining.outer) or self.joining.has_changes

    def watermark_of_results(self, watermark_us: int) -> int:
        """As long ago as a record is kept: of old ones there may be results at any time."""
        return START_OF_TIME if self.keep_us is None else watermark_us - self.keep_us

    def results(self, aside: tuple[bool, bool]) -> Results:
        """Changes, where a result may be taken back."""
        return Results(aside, self.gives_changes, are_rows=self.gives != "pairs")

    def matcher(self, aside: tuple[bool, bool]) -> Matcher:
        """All of a key are partners."""
        keep = None if self.keep_us is None else min(self.keep_us, FARTHEST_US)
        return Matcher(self.joining.outer, unbounded=(keep, self.gives), aside=aside)


class SemiJoin(UnboundedJoin):
    """Gives the records of the left that have a partner, each once."""

    name = "semi_join"
    sides = ("left",)
    gives = "semi"


class AntiJoin(UnboundedJoin):
    """Gives the records of the left that have no partner, as changes."""

    name = "anti_join"
    sides = ("left",)
    gives = "anti"
