"""Joins of columns in session windows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from operators.columns.keyed_rows import KeyedRows, Rows
from operators.columns.numbers import Numbers
from operators.columns.rows import chosen
from operators.durations import microseconds
from operators.joins.chunks import Chunk, merged
from operators.joins.columns import JoinColumns
from operators.joins.function import Join

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from operators.windows.assigners import Session


class SessionColumns(JoinColumns):
    """The rows of one task whose sessions are not complete; see `JoinState`.

    A row waits in the order of time until the watermark is a gap behind it: the last row of a
    session that is complete no longer waits. By then it is settled whether its session goes on in a
    row that still waits. If so, the session is kept by key; a key has one such session.
    """

    def __init__(self, operator: Join, assigner: Session) -> None:
        super().__init__(operator)
        self._gap = min(microseconds(assigner.gap), _FAR)
        self._settled = KeyedRows(), KeyedRows()
        self._open = _Spans(_NONE, _NONE, _NONE)
        """The sessions that settled rows are in, in the order of keys."""

    @property
    def kept(self) -> int:
        """Rows that are kept."""
        return super().kept + sum(map(len, self._settled))

    def add(self, side: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take rows in; a session gives nothing until it is complete."""
        batch, keys, times = self._read(side, batch)
        is_late = self._late(keys, times)
        if is_late.any():
            self.late.append(chosen(batch, is_late))
            batch, keys, times = chosen(batch, ~is_late), keys[~is_late], times[~is_late]
        self._sides[side].add(Chunk(batch, keys, times, np.zeros(len(keys), np.bool_)))
        return []

    def close(self, watermark: float) -> Iterator[pa.RecordBatch]:
        """The partners in the sessions that are complete now and were not before."""
        self._watermark = max(self._watermark, watermark)
        taken = [side.take_until(self._last_settled) for side in self._sides]
        if any(taken):
            yield from self._settle([merged(chunks) if chunks else None for chunks in taken])
        self._forget()

    @property
    def _last_settled(self) -> float:
        """A session that ends with a row of this time or an earlier one is complete."""
        return self._watermark + 1 - self._gap

    def _late(self, keys: Numbers, times: Numbers) -> NDArray[np.bool_]:
        """Which rows would be in sessions of their own that are complete."""
        is_late = times <= self._last_settled
        (rows,) = np.nonzero(is_late)
        if not len(rows):
            return is_late
        is_late[rows] = ~self._is_near(keys[rows], times[rows])
        # What comes in front of such a row may have begun a session that it belongs to.
        came: dict[int, list[int]] = {}
        for row in np.flatnonzero(np.isin(keys, keys[is_late])).tolist():
            time, before = int(times[row]), came.setdefault(int(keys[row]), [])
            at = bisect_left(before, time)
            near = (abs(time - each) < self._gap for each in before[max(at - 1, 0) : at + 1])
            if not is_late[row] or any(near):
                is_late[row] = False
                before.insert(at, time)
        return is_late

    def _is_near(self, keys: Numbers, times: Numbers) -> NDArray[np.bool_]:
        """Whether a row would be in a session of what has come before."""
        found = self._waits(keys, times - self._gap + 1, times + self._gap - 1)
        if len(self._open.keys):
            at = np.minimum(np.searchsorted(self._open.keys, keys), len(self._open.keys) - 1)
            spans = self._open.chosen(at)
            reaches = (spans.starts - self._gap < times) & (times < spans.lasts + self._gap)
            found |= (spans.keys == keys) & reaches
        return found

    def _waits(self, keys: Numbers, low: Numbers, high: Numbers) -> NDArray[np.bool_]:
        """Whether there is a row that waits, with a key and a time between low and high."""
        found = np.zeros(len(keys), np.bool_)
        for side in self._sides:
            for chunk in side.all:
                found |= chunk.has_any(keys, low, high)
        return found

    def _settle(self, chunks: list[Chunk | None]) -> Iterator[pa.RecordBatch]:
        """Join the rows of complete sessions, and keep the others."""
        found = [each for each in chunks if each is not None]
        keys = np.concatenate([each.keys for each in found])
        times = np.concatenate([each.times for each in found])
        is_met = np.isin(self._open.keys, keys)
        met = self._open.chosen(is_met)
        spans, of_rows, of_met = _sessions(keys, times, met, self._gap)
        goes_on = self._waits(spans.keys, spans.lasts + 1, spans.lasts + self._gap - 1)
        complete, first = [], 0
        for settled, chunk in zip(self._settled, chunks, strict=True):
            parts = settled.take(met.keys[~goes_on[of_met]])
            rows = [
                Rows(each.batch, of_met[np.searchsorted(met.keys, each.keys)]) for each in parts
            ]
            if chunk is not None:
                numbers = of_rows[first : first + len(chunk)]
                first += len(chunk)
                is_open = goes_on[numbers]
                settled.add(Rows(chunk.batch, chunk.keys).chosen(is_open))
                rows.append(Rows(chunk.batch, numbers).chosen(~is_open))
            rows = [each for each in rows if len(each.keys)]
            complete.append(_untimed(Rows.of(rows)) if rows else None)
        self._open = self._open.chosen(~is_met).and_more(spans.chosen(goes_on))
        yield from self._all_pairs(*complete)

    def _chunks(self, side: int) -> list[Chunk]:
        return [*super()._chunks(side), *map(_untimed, self._settled[side].all)]


class _Spans(NamedTuple):
    """Sessions, as far as they are settled: when they begin, and their last rows."""

    keys: Numbers
    starts: Numbers
    lasts: Numbers

    def chosen(self, which: Any) -> _Spans:
        """Those for which this is true, or that are at these places."""
        return _Spans(*(each[which] for each in self))

    def and_more(self, others: _Spans) -> _Spans:
        """Both in the order of their keys."""
        both = _Spans(*(np.concatenate(each) for each in zip(self, others, strict=True)))
        return both.chosen(np.argsort(both.keys))


def _sessions(
    keys: Numbers, times: Numbers, spans: _Spans, gap: int
) -> tuple[_Spans, Numbers, Numbers]:
    """The sessions of rows and of spans that are joined to them; the numbers that each is in.

    Of each span its start and its last row stand among the rows; between them there is no pause.
    """
    rows, more = len(keys), len(spans.keys)
    all_keys = np.concatenate([keys, spans.keys, spans.keys])
    all_times = np.concatenate([times, spans.starts, spans.lasts])
    order = np.lexsort((all_times, all_keys))  # a stable one: a span starts before it ends
    in_span = np.cumsum(np.repeat([0, 1, -1], [rows, more, more])[order])
    keys, times = all_keys[order], all_times[order]
    begins = np.ones(len(order), np.bool_)
    pauses = (times[1:] - gap >= times[:-1]) & (in_span[:-1] == 0)
    begins[1:] = (keys[1:] != keys[:-1]) | pauses
    (first,) = np.nonzero(begins)
    last = np.append(first[1:], len(order)) - 1
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    found = _Spans(keys[first], times[first], times[last])
    return found, numbers[:rows], numbers[rows : rows + more]


def _untimed(rows: Rows) -> Chunk:
    """A chunk of rows without times, which are no longer needed."""
    nothing = np.zeros(len(rows.keys), np.int64)
    return Chunk(rows.batch, rows.keys, nothing, nothing.astype(np.bool_))


_FAR = 1 << 61
"""The longest gap: no sum of it and of a time overflows."""
_NONE = np.empty(0, np.int64)
