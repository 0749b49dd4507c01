"""The first step of an attempt, in which tasks get workers: pure, like the coordinator.

It asks again and again for places for them, for at most `start_timeout_seconds`, and reports what
they wait for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.driver.epochs import Say
from engine.errors import EngineError, PlacementError, StartError


@dataclass(frozen=True)
class WorkersPlaced:
    """Tasks have new workers."""

    tasks: tuple[int, ...]


@dataclass(frozen=True)
class Waits:
    """Tasks have no place yet, with a text of what they wait for.

    `error` is the reason; None if nodes are chosen and have not answered yet.
    """

    words: str
    error: PlacementError | None = None


@dataclass(frozen=True)
class Place:
    """Start a worker for each of these tasks, which have none, or one that is of no use any more.

    All at once or none: then it is said again, until they are `WorkersPlaced`.
    """

    tasks: tuple[int, ...]


class Placing:
    """One such step after another."""

    def __init__(self, start_timeout_seconds: float, connect_timeout_seconds: float) -> None:
        self._longest = start_timeout_seconds
        self._longest_answer = connect_timeout_seconds
        self.is_waiting = False
        """Whether there was no place for a task, and it has none yet."""
        self._is_told = False
        """Whether the wait is logged."""
        self._waits: Waits | None = None
        self._words: list[Say] = []
        self._begun = self._next_place = self._next_word = 0.0

    def begin(self, now: float) -> None:
        """Begin the step."""
        self._begun = self._next_place = now
        self._next_word = now + _TICK_SECONDS
        self.is_waiting = self._is_told = False
        self._waits = None

    def note(self, waits: Waits) -> None:
        """Note that there is no place yet."""
        error = waits.error
        if error is not None and not self._is_told and self._longest:
            self._is_told = True
            hint = "" if error.hint is None else f" (hint: {error.hint})"
            told = f"{waits.words}, for at most {self._longest:g} s: {error.message}{hint}"
            self._words.append(Say(told, is_warning=True))
        self.is_waiting = True
        self._waits = waits

    def end(self, now: float, *, placed: bool) -> list[Say]:
        """End the step, with workers or without."""
        words, self._words = self._words, []
        if self._is_told and placed:
            words.append(Say(f"waited {now - self._begun:.1f} s for a place", is_warning=True))
        self.is_waiting = False
        return words

    def following(self, tasks: Collection[int], now: float) -> list[Place | Say]:
        """The commands that are due for these tasks, which have no place."""
        commands: list[Place | Say] = [*self._words]
        self._words = []
        if now >= self._next_place:
            self._next_place = now + _PLACE_SECONDS
            commands.append(Place(tuple(sorted(tasks))))
        if self._waits is not None and now >= self._next_word:
            self._next_word = now + _TICK_SECONDS
            commands.append(Say(self._waits.words))
        return commands

    @property
    def has_no_room(self) -> bool:
        """Whether there are no nodes for a task."""
        return self._waits is not None and self._waits.error is not None

    @property
    def wake(self) -> float:
        """When something is due again."""
        return self._next_place

    def error(self, now: float) -> EngineError | None:
        """Why the tasks have no place, once the time for it is over."""
        late = now - self._begun - self._longest
        if self._waits is None or late < 0:
            return None
        error = self._waits.error
        if error is not None:
            waited = f"; waited {self._longest:g} s for it" if self._longest else ""
            hints = (error.hint, "a larger start_timeout_seconds waits longer")
            return PlacementError(error.message + waited, "; ".join(filter(None, hints)))
        if late < self._longest_answer:
            return None
        return StartError(f"{self._waits.words}, after {now - self._begun:.0f} s", _REACHABLE)


_REACHABLE = "are the nodes reachable, and is what the tasks need free on them?"
_PLACE_SECONDS = 0.25
_TICK_SECONDS = 1.0
