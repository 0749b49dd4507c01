"""Patterns in what each of 10,000 users does within a minute.

`flink_java/.../Patterns.java` has the same.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from benchmarks.event_time.work import COLUMNS, FLINK_CEP, EventTimeWork
from benchmarks.peers.peer import Peer
from benchmarks.works import WorkCase
from operators import Stream
from operators.patterns import FollowedBy, FollowedByAny, NotFollowedBy, Stage, Then


class PatternWork(EventTimeWork):
    """A pattern of kinds of events, of which one in ten is of each."""

    apis = ("records",)
    peers: ClassVar[tuple[Peer, ...]] = (FLINK_CEP,)
    users, step_ms = 10_000, 1
    program = "Patterns"
    stages: ClassVar[Then]

    def flink_settings(self, case: WorkCase) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        """The file and the pattern."""
        return {"path": str(self.file), "pattern": self.name}

    def results(self, timed: Stream[Any], _api: str) -> Stream[Any]:
        """The matches."""
        return timed.key_by(0).pattern(self.stages, within=timedelta(minutes=1))

    @staticmethod
    def number(batch: Any) -> int:
        """The amounts of all events of the matches."""
        return sum(
            event[_AMOUNT] for match in batch for events in match.values() for event in events
        )


_KIND, _AMOUNT = COLUMNS.index("kind"), COLUMNS.index("amount")


class PatternThen(PatternWork):
    """One, and behind it the first of another kind."""

    name = "pattern-then"
    stages = Then(
        Stage("a", lambda event: event[_KIND] == 0),
        FollowedBy("b", lambda event: event[_KIND] == 1),
    )


class PatternRepeated(PatternWork):
    """One, one or more of another kind, none of a third, and one of a fourth."""

    name = "pattern-repeated"
    stages = Then(
        Stage("a", lambda event: event[_KIND] == 0),
        FollowedBy("b", lambda event: event[_KIND] == 1, times=(1, None)),
        NotFollowedBy("c", lambda event: event[_KIND] == 2),
        FollowedBy("d", lambda event: event[_KIND] == 3),
    )


class PatternAny(PatternWork):
    """One, and behind it any of another kind."""

    name = "pattern-any"
    stages = Then(
        Stage("a", lambda event: event[_KIND] == 0),
        FollowedByAny("b", lambda event: event[_KIND] == 1),
    )


PATTERNS = (PatternThen(), PatternRepeated(), PatternAny())
