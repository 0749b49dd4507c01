"""The splits that a task reads, and how far event time is in each of them."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, TypeAlias

Split: TypeAlias = tuple[int, Any]
"""A part of a source that is in an order of its own: the number of its share, and its name there;
None where the share is one split."""


class Splits:
    """The splits that a task reads, and the one whose batch goes through its chain.

    Unless told otherwise, there is one, `ONLY`. All of it belongs to the thread of the task.
    """

    def __init__(self) -> None:
        self.current: Split = ONLY
        self.open: dict[Split, None] = {ONLY: None}
        """Those from which records may come."""
        self.times: SplitTimes | None = None
        """What is known of them, where an operator finds out."""

    def follow(self) -> SplitTimes:
        """The times of the splits, for an operator that finds out how far they are."""
        self.times = SplitTimes(self)
        return self.times

    def begin(self, splits: Iterable[Split]) -> None:
        """Begin to read these splits."""
        self.open = dict.fromkeys(splits)
        self.current = next(iter(self.open), ONLY)

    def end(self, split: Split) -> None:
        """Take in that all batches of this split have gone through."""
        self.open.pop(split, None)


class SplitTimes:
    """How far event time is in each split, in microseconds.

    >>> splits = Splits()
    >>> times = splits.follow()
    >>> splits.begin([(0, "a"), (0, "b")])
    >>> times.tell((0, "a"), 7)
    >>> times.least()
    >>> times.tell((0, "b"), 5)
    >>> times.least(), times.furthest_behind()
    (5, (0, 'b'))
    >>> splits.end((0, "b"))
    >>> times.least()
    7
    """

    def __init__(self, splits: Splits) -> None:
        self._splits = splits
        self._times: dict[Split, int] = {}
        self._open: dict[Split, None] | None = None
        """Those that the heap was made of."""
        self._heap: list[tuple[int, int, Split]] = []
        """Times that were, with numbers, so that of equal ones the first comes first."""
        self._idle: set[Split] = set()
        self.waits_for_all = False
        """Whether no split is left out: the source has all of its records."""

    def tell(self, split: Split, time_us: int) -> None:
        """Take in how far the split has come. May be called before `Splits.begin`, too."""
        self._times[split] = time_us
        if split in self._idle:
            self._idle.discard(split)
            heappush(self._heap, (time_us, len(self._heap), split))

    def leave_out(self, split: Split) -> None:
        """Do not wait for this silent split until it tells of a time."""
        if not self.waits_for_all:
            self._idle.add(split)

    def least(self) -> int | None:
        """The least time of all that are waited for; None where one has none yet."""
        split = self.furthest_behind()
        return None if split is None else self._times.get(split)

    def furthest_behind(self) -> Split | None:
        """The split with the least time, or the first without; None where none is waited for."""
        splits, times, heap = self._splits.open, self._times, self._heap
        if self._open is not splits:
            self._open = splits
            self._idle.clear()
            heap[:] = [
                (times.get(split, _UNKNOWN), number, split) for number, split in enumerate(splits)
            ]
            heapify(heap)
        while heap:
            told, number, split = heap[0]
            if split not in splits:
                heappop(heap)
                times.pop(split, None)
            elif split in self._idle:
                heappop(heap)
            elif (now := times.get(split, _UNKNOWN)) != told:
                heapreplace(heap, (now, number, split))
            else:
                return split
        return None


ONLY: Split = (-1, None)
_UNKNOWN = -(1 << 63)
