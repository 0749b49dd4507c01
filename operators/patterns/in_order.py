"""Records that wait for the watermark, which then come in the order of their times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, TypeAlias

Waiting: TypeAlias = tuple[int, int, Any, Any]
"""A record that waits: its time, a number that is greater the later it came, its key, and itself.
A plain tuple, since one is made for each record."""


class InOrder:
    """Records of all keys, until the watermark has come to their times.

    Those of one watermark are sorted together; the others are in lists that are in order already.
    """

    def __init__(self) -> None:
        self._new: list[Waiting] = []
        self._lists: list[tuple[int, int, list[Waiting]]] = []
        """A heap of lists from the last time to the first, by their first time."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._new) + sum(len(each) for _, _, each in self._lists)

    def __iter__(self) -> Iterator[Waiting]:
        for _, _, each in self._lists:
            yield from each
        yield from self._new

    @property
    def add(self) -> Any:
        """Add some of them: the function of a list."""
        return self._new.extend

    def take(self, until_us: int) -> list[Waiting]:
        """Take out those whose time has come."""
        if self._new:
            self._new.sort(reverse=True)
            self._put(self._new)
            self._new = []
        found: list[Waiting] = []
        while self._lists and self._lists[0][0] <= until_us:
            _, _, own = heappop(self._lists)
            at = bisect_left(own, -until_us, key=_backwards)
            found += own[at:]
            del own[at:]
            if own:
                self._put(own)
        found.sort()
        return found

    def _put(self, own: list[Waiting]) -> None:
        self._count += 1
        heappush(self._lists, (own[-1][0], self._count, own))


def _backwards(waiting: Waiting) -> int:
    return -waiting[0]
