"""Temporal joins of columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from engine.columns import joined
from operators.columns.rows import taken
from operators.joins.chunks import Chunk, Chunks, merged
from operators.joins.columns import JoinColumns
from operators.joins.function import AT_THE_END, Join


class VersionColumns(JoinColumns):
    """The rows of one task that wait for the watermark, and the table; see `Versions`.

    Old versions are let go of when they are more than the others.
    """

    def __init__(self, operator: Join) -> None:
        super().__init__(operator)
        self._most_versions = _FEW

    def add(self, side: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take rows or versions; they give no result until the watermark reaches them."""
        chunk = self._chunk(side, batch)
        if not side:
            chunk = self._take_late(chunk, chunk.before(self._watermark, inclusive=True))
        self._sides[side].add(chunk)
        return []

    def close(self, watermark: float) -> Iterator[pa.RecordBatch]:
        """The rows that the watermark has reached, with their versions."""
        self._watermark = max(self._watermark, watermark)
        waiting, versions = self._sides
        if due := waiting.take_until(self._watermark):
            rows = merged(due)
            yield from self._with_versions(rows)
            yield from self._without_partners(0, [rows])
        if self._watermark == AT_THE_END:
            self._sides = Chunks(), Chunks()
        elif versions.rows > self._most_versions:
            newest = _without_old(merged(versions.all), self._watermark)
            versions.all = [newest]
            self._most_versions = max(_FEW, 2 * len(newest))
        self._forget()

    def _with_versions(self, rows: Chunk) -> Iterator[pa.RecordBatch]:
        """Those of the rows that have one."""
        chunks = self._sides[1].all
        newest = np.full(len(rows), _NO_TIME)
        chunk_of, place_of = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
        for number, each in enumerate(chunks):
            of_rows, places = each.newest(rows.keys, rows.times)
            is_newer = each.times[places] >= newest[of_rows]  # of one time, the one that came last
            of_rows, places = of_rows[is_newer], places[is_newer]
            newest[of_rows], chunk_of[of_rows], place_of[of_rows] = (
                each.times[places],
                number,
                places,
            )
        rows.has_joined[chunk_of >= 0] = True
        found = []
        for number, each in enumerate(chunks):
            (of_rows,) = np.nonzero(chunk_of == number)
            if len(of_rows):
                others = taken(each.batch, place_of[of_rows])
                found.append(self._beside(0, taken(rows.batch, of_rows), others))
        if found:
            yield joined(found)


def _without_old(chunk: Chunk, watermark: float) -> Chunk:
    """Versions without those before the newest one that the watermark has reached."""
    order = np.argsort(chunk.keys, kind="stable")
    keys, times = chunk.keys[order], chunk.times[order]
    is_old = np.zeros(len(order), np.bool_)
    is_old[order[:-1]] = (keys[1:] == keys[:-1]) & (times[1:] <= watermark)
    left = np.flatnonzero(~is_old)
    batch = taken(chunk.batch, left)
    return Chunk(batch, chunk.keys[left], chunk.times[left], chunk.has_joined[left])


_FEW = 1024
"""Versions of which none needs to be let go of."""
_NO_TIME = -(1 << 63)
"""Earlier than any."""
