"""Timers of keys, in the order in which they are due; a key has any number of each name."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any


class Timer:
    """A timer of a key: when it is due, and its number among all that were set.

    Its time may simply be set to a later one. After an earlier one, `put` it again.
    """

    __slots__ = ("key", "name", "number", "queue", "queued", "time")

    def __init__(self, queue: TimerQueue, time: int, number: int, key: Any, name: str) -> None:
        self.queue = queue
        self.time = time
        self.number = number
        self.key = key
        self.name = name
        self.queued: int | None = time
        """The time of its entry in the queue, never later than its own; None without an entry."""

    def __lt__(self, other: Timer) -> bool:
        """Order entries of equal times; those of one timer may come in any order."""
        return False

    def cancel(self) -> None:
        """Cancel the timer."""
        self.queue.forget(self)


class KeyTimers(dict[str, "Timer | dict[tuple[TimerQueue, int], Timer]"]):
    """The timers of one key, by name: a timer, or several by their queue and time.

    Only a timer that is alone under its name may be moved.
    """

    __slots__ = ()

    def named(self, name: str) -> list[Timer]:
        """The timers of this name."""
        found = self.get(name)
        if found is None:
            return []
        return list(found.values()) if isinstance(found, dict) else [found]

    def at(self, name: str, queue: TimerQueue, time: int) -> Timer | None:
        """The timer of this name that is due at this time."""
        found = self.get(name)
        if isinstance(found, dict):
            return found.get((queue, time))
        is_it = found is not None and found.queue is queue and found.time == time
        return found if is_it else None

    def add(self, timer: Timer) -> None:
        """Add a timer to those of its name, none of which is due at its time."""
        found = self.get(timer.name)
        if found is None:
            self[timer.name] = timer
            return
        if not isinstance(found, dict):
            found = self[timer.name] = {(found.queue, found.time): found}
        found[timer.queue, timer.time] = timer

    def remove(self, timer: Timer) -> None:
        """Remove one of the timers."""
        found = self[timer.name]
        if not isinstance(found, dict):
            del self[timer.name]
            return
        del found[timer.queue, timer.time]
        if len(found) == 1:
            (self[timer.name],) = found.values()


class TimerQueue:
    """Timers in the order of their times, then in the order in which they were set first.

    Invariant: every timer has an entry under its `queued` time. Entries of moved or cancelled
    timers are no more than there are timers.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Timer]] = []
        self._timers = 0

    def __len__(self) -> int:
        return self._timers

    @property
    def next_time(self) -> int | None:
        """The time of the first timer, or an earlier one; None if there is none."""
        return self._entries[0][0] if self._timers else None

    def add(self, time: int, number: int, key: Any, name: str) -> Timer:
        """Add a new timer."""
        timer = Timer(self, time, number, key, name)
        self._timers += 1
        self.put(timer)
        return timer

    def pop(self, until: int) -> Timer | None:
        """Take out the first that is due by then."""
        entries = self._entries
        while entries and entries[0][0] <= until:
            queued, _, timer = heappop(entries)
            if timer.queued != queued:
                continue
            if timer.time == queued:
                self.forget(timer)
                return timer
            self.put(timer)
        return None

    def put(self, timer: Timer) -> None:
        """Add an entry under the time of this timer."""
        timer.queued = timer.time
        heappush(self._entries, (timer.time, timer.number, timer))
        if len(self._entries) > 2 * self._timers + _FEW:
            self._entries = [(t.time, t.number, t) for t in self._queued()]
            heapify(self._entries)

    def forget(self, timer: Timer) -> None:
        """Remove the timer; its entry goes when its time has come."""
        timer.queued = None
        self._timers -= 1

    def _queued(self) -> Iterator[Timer]:
        """All timers, each of which then is queued for its own time."""
        for timer in {id(t): t for _, _, t in self._entries if t.queued is not None}.values():
            timer.queued = timer.time
            yield timer


_FEW = 64
"""Fewer entries without timers than this are not worth a search."""
