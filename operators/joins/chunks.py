"""Rows of columns that a join keeps: numbered by their keys, in chunks in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engine.columns import joined
from operators.columns.numbers import Numbers
from operators.columns.rows import taken

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Chunk:
    """Rows of one side in the order of their times, with the numbers of their keys."""

    def __init__(
        self, batch: pa.RecordBatch, keys: Numbers, times: Numbers, has_joined: NDArray[np.bool_]
    ) -> None:
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            batch, keys, times = taken(batch, order), keys[order], times[order]
            has_joined = has_joined[order]
        self.batch = batch
        self.keys = keys
        self.times = times
        self.has_joined = has_joined
        """Whether each has had a partner."""
        self.gone = 0
        """How many of the first rows are there no more, but for their place."""

    def __len__(self) -> int:
        return len(self.times) - self.gone

    def part(self, start: int, behind: int) -> Chunk:
        """The rows from one on, before another."""
        rows = slice(start, behind)
        batch = self.batch.slice(start, behind - start)
        return Chunk(batch, self.keys[rows], self.times[rows], self.has_joined[rows])

    def copy(self) -> Chunk:
        """The rows as they are now: what changes of them is which have had partners."""
        other = copy(self)
        other.has_joined = self.has_joined.copy()
        return other

    def rest(self) -> Chunk:
        """The rows that are not gone."""
        return self.part(self.gone, len(self.times)) if self.gone else self

    def before(self, time: float, *, inclusive: bool) -> int:
        """How many rows are earlier than this, or not later."""
        return int(np.searchsorted(self.times, time, "right" if inclusive else "left"))

    def partners(self, keys: Numbers, low: Any, high: Any) -> tuple[Numbers, Numbers]:
        """Of other rows, and those here with their keys and times between low and high: pairs.

        The first array says which of the others, the second which row here. Rows that are gone are
        among them: the times must be such that none of those is between them. Where the keys of the
        others are in order, it takes the least time.
        """
        rows, ranks = self._with_keys(keys)
        order, places = self._index[1:]
        first = np.searchsorted(places, ranks + np.searchsorted(self.times, low[rows], "left"))
        behind = np.searchsorted(places, ranks + np.searchsorted(self.times, high[rows], "right"))
        counts = behind - first
        others = np.repeat(rows, counts)
        starts = np.repeat(first - np.cumsum(counts) + counts, counts)
        return others, order[starts + np.arange(len(others))]

    def has_any(self, keys: Numbers, low: Numbers, high: Numbers) -> NDArray[np.bool_]:
        """Of other rows, whether there is one with its key and a time between low and high."""
        rows, ranks = self._with_keys(keys)
        places = self._index[2]
        begin = np.maximum(np.searchsorted(self.times, low[rows], "left"), self.gone)
        end = np.searchsorted(self.times, high[rows], "right")
        found = np.zeros(len(keys), np.bool_)
        found[rows] = np.searchsorted(places, ranks + begin) < np.searchsorted(places, ranks + end)
        return found

    def newest(self, keys: Numbers, times: Numbers) -> tuple[Numbers, Numbers]:
        """Of other rows, those with a row here of their key that is not later; the last of these.

        The first array says which of the others, the second which row here.
        """
        rows, ranks = self._with_keys(keys)
        order, places = self._index[1:]
        last = (
            np.searchsorted(places, ranks + np.searchsorted(self.times, times[rows], "right")) - 1
        )
        is_one = (last >= 0) & (places[last] >= ranks)
        return rows[is_one], order[last[is_one]]

    def _with_keys(self, keys: Numbers) -> tuple[Numbers, Numbers]:
        """Which of these are keys here, and where those begin among all places."""
        distinct = self._index[0]
        ranks = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
        rows = np.flatnonzero(distinct[ranks] == keys)
        return rows, ranks[rows] * (len(self.times) + 1)

    @cached_property
    def _index(self) -> tuple[Numbers, Numbers, Numbers]:
        """The distinct keys; the rows in the order of keys, then of places; both as one number."""
        order = np.argsort(self.keys)  # in half of the time of a stable one, with the sort below
        keys = self.keys[order]
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = keys[1:] != keys[:-1]
        ranks = (np.cumsum(begins) - 1) * (len(self.times) + 1)
        places = np.sort(ranks + order)
        return keys[begins], places - ranks, places


class Chunks:
    """The rows of one side. A row is in one of few chunks: those of like sizes are merged."""

    def __init__(self) -> None:
        self.all: list[Chunk] = []

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(map(len, self.all))

    def add(self, chunk: Chunk) -> None:
        """Take rows in."""
        if len(chunk):
            self.all.append(chunk)
        while len(self.all) > 1 and len(self.all[-2]) <= 2 * len(self.all[-1]):
            self.all[-2:] = [merged(self.all[-2:])]

    def take_until(self, time: float, *, inclusive: bool = True) -> list[Chunk]:
        """Take the rows out that are not later than this."""
        taken, left = [], []
        for each in self.all:
            row = each.before(time, inclusive=inclusive)
            if row > each.gone:
                taken.append(each.part(each.gone, row))
                each.gone = row
            if len(each):
                left.append(each if len(each) > each.gone else each.rest())
        self.all = left
        return taken


def merged(chunks: Sequence[Chunk]) -> Chunk:
    """One chunk of all their rows."""
    chunks = [each.rest() for each in chunks]
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(
        joined([each.batch for each in chunks]),
        np.concatenate([each.keys for each in chunks]),
        np.concatenate([each.times for each in chunks]),
        np.concatenate([each.has_joined for each in chunks]),
    )
