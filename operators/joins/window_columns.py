"""Window joins of columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from operators.durations import microseconds
from operators.joins.chunks import Chunk, merged
from operators.joins.columns import JoinColumns
from operators.joins.function import NEVER, Join
from operators.windows.assigners import Sliding, Tumbling, first_start


class WindowColumns(JoinColumns):
    """The rows of one task whose windows are not all complete; see `JoinState`."""

    def __init__(self, operator: Join, assigner: Tumbling | Sliding) -> None:
        super().__init__(operator)
        self._size, self._slide = microseconds(assigner.size), microseconds(assigner.slide)
        self._windows = assigner

    def add(self, side: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take rows in; a window gives nothing until it is complete."""
        chunk = self._chunk(side, batch)
        if self._watermark != NEVER:
            first = self._first_open()
            chunk = self._take_late(chunk, chunk.before(first, inclusive=False))
        self._sides[side].add(chunk)
        return []

    def close(self, watermark: float) -> Iterator[pa.RecordBatch]:
        """The partners in the windows that are complete now and were not before."""
        start = self._first_open()
        self._watermark = max(self._watermark, watermark)
        while firsts := [int(each.times[each.gone]) for side in self._sides for each in side.all]:
            start = max(start, first_start(self._windows, min(firsts)))
            if start + self._size - 1 > self._watermark:
                break
            yield from self._joined(int(start))
            start += self._slide
            for side in self._sides:
                side.take_until(start, inclusive=False)
        self._forget()

    def _first_open(self) -> float:
        """The start of the first window that is not complete."""
        if self._watermark in (NEVER, float("inf")):
            return self._watermark
        return first_start(self._windows, int(self._watermark) + 1)

    def _joined(self, start: int) -> Iterator[pa.RecordBatch]:
        """What the rows in a window make."""
        return self._all_pairs(*(self._within(side, start) for side in (0, 1)))

    def _within(self, side: int, start: int) -> Chunk | None:
        """The rows of this side in the window."""
        found = []
        for each in self._sides[side].all:
            first, behind = np.searchsorted(each.times, [start, start + self._size]).tolist()
            if first < behind:
                found.append(each.part(first, behind))
        if not found:
            return None
        rows = merged(found)
        return Chunk(rows.batch, rows.keys, rows.times, np.zeros(len(rows), np.bool_))
