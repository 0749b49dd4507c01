"""Which tasks leave nodes that are about to go, and when: without I/O or a clock.

A node that drains is known some time before it goes. A checkpoint is made at once, and tasks move
after one as soon as other nodes have room for them. If none has room in time, they leave anyway,
shortly before the end, and wait. A move is no failure. Tasks on the driver's node stay: the node
may go as soon as it is empty, and the job ends with its driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.driver.epochs import Say


@dataclass(frozen=True)
class Departure:
    """A node that is about to go, and what the job has on it."""

    node: str
    """Its name in messages."""
    tasks: frozenset[int]
    until: float | None = None
    """The time at which it goes; None: unknown."""
    has_room: bool = True
    """Whether other nodes have room for these tasks, besides those of nodes that go earlier."""
    has_driver: bool = False
    """Whether the driver is on it, which cannot move, and without which no task lives."""
    is_ready: bool = True
    """Whether workers have started there, which these tasks could go on in."""


class Moves:
    """The nodes that tasks of one job are to leave; of a job without checkpoints, only words.

    Invariant: tasks move when a checkpoint is stored that was asked for since they could, or when
    no time is left for one.
    """

    def __init__(self, *, has_checkpoints: bool) -> None:
        self._has_checkpoints = has_checkpoints
        self._leaving: tuple[Departure, ...] = ()
        self._asked: dict[str, int] = {}
        """By node, the last that was stored when a checkpoint was asked for, to move behind."""
        self._known: set[tuple[str, bool]] = set()
        """Nodes that were logged, and whether others had room then."""
        self._is_urgent = False
        self._words: list[Say] = []

    def note(self, leaving: Sequence[Departure], now: float) -> None:
        """Take all nodes that are about to go; each call has their remaining tasks."""
        self._leaving = tuple(each for each in leaving if each.tasks or each.has_driver)
        drain = {each.node for each in leaving}
        self._known = {fact for fact in self._known if fact[0] in drain}  # it may come back
        for each in self._leaving:
            fact = each.node, each.has_room
            if fact not in self._known:
                self._known.add(fact)
                self._is_urgent = True
                self._words.append(Say(self._told(each, now), is_warning=True))

    def say(self) -> list[Say]:
        """The messages for the user, once each."""
        said, self._words = self._words, []
        return said

    def want_checkpoint(self, now: float, stored: int) -> bool:
        """Whether one is to be made at once; `stored` is the last that is. Said once each time."""
        for each in self._leaving:
            if each.node not in self._asked and self._is_time(each, now):
                self._asked[each.node] = stored
                self._is_urgent = True
        is_urgent, self._is_urgent = self._is_urgent, False
        return is_urgent

    def is_due(self, now: float, stored: int) -> bool:
        """Whether a move begins now."""
        return any(
            stored > self._asked[each.node] or _ends(each, now, _LAST_SECONDS)
            for each in self._leaving
            if each.node in self._asked and not each.has_driver
        )

    def begin(self, now: float) -> frozenset[int]:
        """The tasks that move, as the job begins anew; what is then left to do is told again."""
        time = [each for each in self._leaving if self._is_time(each, now)]
        moved = [each.tasks for each in time if not each.has_driver]
        self._leaving, self._asked = (), {}
        return frozenset().union(*moved)

    def wake(self, now: float) -> float | None:
        """When something is due by itself."""
        ends = [each.until for each in self._leaving if each.until is not None]
        due = (end - seconds for end in ends for seconds in (_LEAD_SECONDS, _LAST_SECONDS))
        return min((each for each in due if each > now), default=None)

    def _is_time(self, each: Departure, now: float) -> bool:
        is_late = _ends(each, now, _LEAD_SECONDS)
        can_move = each.has_room and each.is_ready and not each.has_driver
        return self._has_checkpoints and (is_late or can_move)

    def _told(self, each: Departure, now: float) -> str:
        count = f"{len(each.tasks)} task{'s' * (len(each.tasks) != 1)}"
        when = "soon" if each.until is None else f"in {max(0.0, each.until - now):.0f} s"
        said = f"host {each.node} goes {when}"
        if each.has_driver:
            again = "the last checkpoint" if self._has_checkpoints else "the beginning"
            return (
                f"{said}, and the job with it, whose driver is there: start it again from {again}"
            )
        if not self._has_checkpoints:
            return f"{said}: {count} on it cannot move, since the job has no checkpoints"
        if each.has_room:
            return f"{said}: {count} on it move to other hosts, behind a checkpoint"
        return f"{said}: {count} on it wait for room on other hosts, which have none now"


def _ends(each: Departure, now: float, seconds: float) -> bool:
    """Whether no more than these are left."""
    return each.until is not None and now >= each.until - seconds


_LEAD_SECONDS = 5.0
"""So long before the end, a checkpoint is made for tasks that no other node has room for."""
_LAST_SECONDS = 2.0
"""So long before it, they leave, whatever is stored."""
