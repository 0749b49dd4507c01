"""Interval joins of columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from operators.columns.rows import taken
from operators.event_time import FARTHEST_US
from operators.joins.columns import JoinColumns, moved
from operators.joins.function import Join


class IntervalColumns(JoinColumns):
    """The rows of one task that partners may still come for; see `Intervals`, `JoinState`.

    A batch looks for its partners in each chunk of the other side, by key and time.
    """

    def __init__(self, operator: Join, low: int, high: int) -> None:
        super().__init__(operator)
        self._spans = (low, high), (-high, -low)

    def add(self, side: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take rows in; with their partners among those that have come."""
        chunk = self._chunk(side, batch)
        chunk = self._take_late(chunk, chunk.before(self._watermark, inclusive=True))
        if not len(chunk):
            return []
        low, high = self._spans[side]
        order = np.argsort(chunk.keys)
        keys, times = chunk.keys[order], chunk.times[order]
        found = []
        for other in self._sides[1 - side].all:
            rows, others = other.partners(keys, moved(times, low), moved(times, high))
            if len(rows):
                rows = order[rows]
                chunk.has_joined[rows] = True
                other.has_joined[others] = True
                own = taken(chunk.batch, rows)
                found.append(self._beside(side, own, taken(other.batch, others)))
        self._sides[side].add(chunk)
        return [*found, *self._drop(side)]

    def close(self, watermark: float) -> Iterator[pa.RecordBatch]:
        """The rows that had no partner and can get none."""
        self._watermark = max(self._watermark, watermark)
        for side in (0, 1):
            yield from self._drop(side)
        self._forget()

    def _drop(self, side: int) -> list[pa.RecordBatch]:
        """Let go of the rows that no partner can follow for."""
        until = self._watermark - self._spans[side][1]
        gone = self._sides[side].take_until(min(max(until, -_FAR), _FAR))
        return list(self._without_partners(side, gone))


_FAR = FARTHEST_US + 1
"""Farther from 1970 than any time is."""
