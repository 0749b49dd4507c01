"""Window joins: each record of the left with each of the right of its key and window."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from engine.errors import GraphError
from engine.network import Join as Matcher
from operators.durations import microseconds
from operators.event_time import FARTHEST_US
from operators.joins.function import Join
from operators.windows.assigners import Session, Sliding, Tumbling, first_start, in_words

Windows: TypeAlias = Tumbling | Sliding | Session
"""Windows that records of two streams may be in together: those by time."""


@dataclass(frozen=True)
class WindowJoin(Join):
    """Joins the records of both inputs by keys and windows, when a window is complete."""

    assigner: Windows

    name = "window_join"

    def __post_init__(self) -> None:
        assigner = self.assigner
        if isinstance(assigner, Sliding) and assigner.slide > assigner.size:
            raise GraphError(
                f"window_join() got windows of {assigner.size} every {assigner.slide}, expected no "
                "gaps between them",
                hint="leave the records between them out before it: .filter(f)",
            )

    @property
    def meaning(self) -> dict[str, Any]:
        """Where windows begin and end."""
        return {"windows": in_words(self.assigner)}

    def watermark_of_results(self, watermark_us: int) -> int:
        """Up to the first window that is not complete; how long a session will be, nobody knows."""
        if isinstance(self.assigner, Session):
            return watermark_us
        return first_start(self.assigner, watermark_us + 1) - 1

    def matcher(self, aside: tuple[bool, bool]) -> Matcher:
        """Partners are in the same window."""
        assigner, outer = self.assigner, self.joining.told(aside)
        if isinstance(assigner, Session):
            gap = microseconds(assigner.gap) + assigner.inclusive  # pairs tell no ends
            return Matcher(outer, gap=min(gap, FARTHEST_US // 2))
        size, slide = microseconds(assigner.size), microseconds(assigner.slide)
        return Matcher(outer, windows=(size, slide, microseconds(assigner.offset) % slide))
