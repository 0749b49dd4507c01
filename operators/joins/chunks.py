"""Rows of columns that a join keeps: numbered by their keys, in chunks in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.columns import joined
from engine.record import dict_key
from operators.keys import unhashable

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64]"


class KeyNumbers:
    """A number for each key of either side, by which rows with equal keys find each other.

    Keys are equal as in Python; so None is equal to None, and all NaN are one key.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._next = 0

    def of(self, columns: Sequence[pa.Array]) -> Numbers:
        """Those of the rows with these columns as their key; a key of several is a tuple."""
        keys, rows = _distinct(columns)
        numbers: Numbers = np.fromiter(map(self._number, keys), np.int64, len(keys))[rows]
        return numbers

    def keys(self) -> dict[int, Any]:
        """The keys by their numbers."""
        return {number: key for key, number in self._numbers.items()}

    def forget_others(self, kept: int, chunks: Sequence[Chunk]) -> None:
        """Let go of keys that none of the rows in these chunks has, if those are too many."""
        if len(self._numbers) > 2 * kept + (_FEW if kept else 0):
            used = set(np.concatenate([_NO_NUMBERS, *(each.keys for each in chunks)]).tolist())
            self._numbers = {key: at for key, at in self._numbers.items() if at in used}

    def _number(self, key: Any) -> int:
        try:
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers.setdefault(dict_key(key), self._next)
                self._next = max(self._next, number + 1)
        except TypeError:
            raise unhashable(key) from None
        return number


class Chunk:
    """Rows of one side in the order of their times, with the numbers of their keys."""

    def __init__(
        self, batch: pa.RecordBatch, keys: Numbers, times: Numbers, has_joined: NDArray[np.bool_]
    ) -> None:
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            batch, keys, times = batch.take(pa.array(order)), keys[order], times[order]
            has_joined = has_joined[order]
        self.batch = batch
        self.keys = keys
        self.times = times
        self.has_joined = has_joined
        """Whether each has had a partner."""
        self.gone = 0
        """How many of the first rows are there no more, but for their place."""
        self._index: tuple[Numbers, Numbers] | None = None

    def __len__(self) -> int:
        return len(self.times) - self.gone

    def part(self, start: int, behind: int) -> Chunk:
        """The rows from one on, before another."""
        rows = slice(start, behind)
        batch = self.batch.slice(start, behind - start)
        return Chunk(batch, self.keys[rows], self.times[rows], self.has_joined[rows])

    def rest(self) -> Chunk:
        """The rows that are not gone."""
        return self.part(self.gone, len(self.times)) if self.gone else self

    def before(self, time: float, *, inclusive: bool) -> int:
        """How many rows are earlier than this, or not later."""
        return int(np.searchsorted(self.times, time, "right" if inclusive else "left"))

    def partners(self, keys: Numbers, low: Any, high: Any) -> tuple[Numbers, Numbers]:
        """Of other rows, and those here with their keys and times between low and high: pairs.

        The first array says which of the others, the second which row here. Rows that are gone are
        among them: the times must be such that none of those is between them.
        """
        order, places = self._places()
        size = len(self.times) + 1
        first = np.searchsorted(places, keys * size + np.searchsorted(self.times, low, "left"))
        behind = np.searchsorted(places, keys * size + np.searchsorted(self.times, high, "right"))
        counts = behind - first
        others = np.repeat(np.arange(len(keys)), counts)
        starts = np.repeat(first - np.cumsum(counts) + counts, counts)
        return others, order[starts + np.arange(len(others))]

    def newest(self, keys: Numbers, times: Numbers) -> tuple[NDArray[np.bool_], Numbers]:
        """Of other rows: whether one here has their key and is not later, and the last such one."""
        order, places = self._places()
        size = len(self.times) + 1
        behind = np.searchsorted(places, keys * size + np.searchsorted(self.times, times, "right"))
        found = order[np.maximum(behind - 1, 0)]
        return (behind > 0) & (self.keys[found] == keys), found

    def _places(self) -> tuple[Numbers, Numbers]:
        """The rows in the order of their keys, then of their places; and both as one number."""
        if self._index is None:
            order = np.argsort(self.keys, kind="stable")
            self._index = order, self.keys[order] * (len(self.times) + 1) + order
        return self._index


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


def _distinct(columns: Sequence[pa.Array]) -> tuple[list[Any], Any]:
    """The distinct keys, and for each row which it has."""
    parts = []
    for column in columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        parts.append((encoded.dictionary.to_pylist(), encoded.indices.to_numpy()))
    if len(parts) == 1:
        return parts[0]
    places = np.zeros(len(columns[0]), np.int64)
    for values, rows in parts:
        places = places * max(1, len(values)) + rows
    _, at, rows = np.unique(places, return_index=True, return_inverse=True)
    of_columns = ([values[number] for number in of[at].tolist()] for values, of in parts)
    return list(zip(*of_columns, strict=True)), rows


_FEW = 1024
"""Keys that are not worth looking for."""
_NO_NUMBERS = np.empty(0, np.int64)
