"""The expiry of state with a time to live."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Any


class Expiry:
    """The queue of times at which a state of a key has to be checked for old values.

    A state of a key has one entry at most, however often it is written.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Any, str]] = []
        self._queued: set[tuple[Any, str]] = set()
        self._numbers = count()

    @property
    def next_ns(self) -> int | None:
        """When the first is due; None if there is none."""
        return self._entries[0][0] if self._entries else None

    def add(self, due_ns: int, key: Any, state: str) -> None:
        """Plan a check at this time, unless one is planned."""
        if (key, state) not in self._queued:
            self._queued.add((key, state))
            heappush(self._entries, (due_ns, next(self._numbers), key, state))

    def pop(self, now_ns: int) -> tuple[Any, str] | None:
        """Take out the first that is due."""
        if not self._entries or self._entries[0][0] > now_ns:
            return None
        _, _, key, state = heappop(self._entries)
        self._queued.remove((key, state))
        return key, state
