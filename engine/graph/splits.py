"""The splits that a task reads, and how far event time is in each of them."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, TypeAlias

Split: TypeAlias = tuple[int, Any]
"""A part of a source with an order of its own: the number of its share, and its name there, which
is None if the share is one split."""


class Splits:
    """The splits that a task reads, and the one whose batch goes through its chain.

    By default there is one, `ONLY`. Only the thread of the task may use it.
    """

    def __init__(self) -> None:
        self.current: Split = ONLY
        self.open: dict[Split, None] = {ONLY: None}
        """The splits from which records may come."""
        self.times: SplitTimes | None = None
        """The times of the splits, if an operator tracks them."""

    def follow(self) -> SplitTimes:
        """The times of the splits, for an operator that tracks them."""
        self.times = SplitTimes(self)
        return self.times

    def begin(self, splits: Iterable[Split]) -> None:
        """Begin to read these splits."""
        self.open = dict.fromkeys(splits)
        self.current = next(iter(self.open), ONLY)

    def add(self, split: Split) -> None:
        """Read one split more. Event time waits for it, unless it is left out."""
        self.open[split] = None
        if self.times is not None:
            self.times.wait_for(split)

    def end(self, split: Split) -> None:
        """Note that all batches of this split have gone through."""
        self.open.pop(split, None)


class SplitTimes:
    """The event time of each split, in microseconds.

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
        """The splits that the heap was made of."""
        self._heap: list[tuple[int, int, Split]] = []
        """Earlier times of the splits, with numbers, so that the first of equal ones comes
        first."""
        self._idle: set[Split] = set()
        self.waits_for_all = False
        """Whether no split is left out: the source has all of its records."""

    def tell(self, split: Split, time_us: int) -> None:
        """Set the split's time. May be called before `Splits.begin`, too."""
        self._times[split] = time_us
        if split in self._idle:
            self._idle.discard(split)
            heappush(self._heap, (time_us, len(self._heap), split))

    def wait_for(self, split: Split) -> None:
        """Count a split that is new."""
        heappush(self._heap, (self._times.get(split, _UNKNOWN), len(self._heap), split))

    def is_left_out(self, split: Split) -> bool:
        """Whether the split is ignored until it has a time again."""
        return split in self._idle

    def leave_out(self, split: Split) -> None:
        """Ignore this silent split until it has a time again."""
        if not self.waits_for_all:
            self._idle.add(split)

    def least(self) -> int | None:
        """The least time of the splits that count; None if one of them has none yet."""
        split = self.furthest_behind()
        return None if split is None else self._times.get(split)

    def furthest_behind(self) -> Split | None:
        """The split with the least time, or the first without a time; None if no split counts."""
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
