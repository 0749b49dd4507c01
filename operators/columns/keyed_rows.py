"""Rows of columns with a look-up by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from engine.columns import joined
from operators.columns.numbers import Numbers
from operators.columns.rows import chosen, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Rows(NamedTuple):
    """Rows and the numbers of their keys."""

    batch: pa.RecordBatch
    keys: Numbers

    @classmethod
    def of(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all these parts, of which there is at least one."""
        keys = np.concatenate([part.keys for part in parts])
        return cls(joined([part.batch for part in parts]), keys)

    def chosen(self, which: NDArray[np.bool_]) -> Rows:
        """The rows for which this is true."""
        return Rows(chosen(self.batch, which), self.keys[which])


class KeyedRows:
    """Rows from which all rows of some keys are taken out at once; rows of a key keep their order.

    The rows are in a few parts: parts of similar size are merged.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def all(self) -> list[Rows]:
        """All rows, which stay."""
        return [part.rest() for part in self._parts]

    @property
    def keys(self) -> Iterator[Numbers]:
        """The rows' key numbers, and perhaps some of rows that were taken."""
        return (part.keys for part in self._parts)

    def add(self, rows: Rows) -> None:
        """Add rows."""
        parts = self._parts
        if len(rows.keys):
            parts.append(_Part(rows))
        while len(parts) > 1 and len(parts[-2]) <= 2 * len(parts[-1]):
            parts[-2:] = [_Part(Rows.of([part.rest() for part in parts[-2:]]))]

    def take(self, keys: Numbers) -> list[Rows]:
        """Take out the rows with one of these keys, which are distinct."""
        taken = [part.take(keys) for part in self._parts]
        self._parts = [part for part in self._parts if len(part)]
        return [rows for rows in taken if len(rows.keys)]


class _Part:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._is_left = np.ones(len(rows.keys), np.bool_)
        self._left = len(rows.keys)

    def __len__(self) -> int:
        return self._left

    @property
    def keys(self) -> Numbers:
        return self._rows.keys

    def rest(self) -> Rows:
        """The rows that are left."""
        return self._rows if self._left == len(self._is_left) else self._rows.chosen(self._is_left)

    def take(self, wanted: Numbers) -> Rows:
        order, keys = self._by_key
        first, behind = (np.searchsorted(keys, wanted, side) for side in ("left", "right"))
        counts = behind - first
        places = np.repeat(first - np.cumsum(counts) + counts, counts)
        found = order[places + np.arange(len(places))]
        found = np.sort(found[self._is_left[found]])
        self._is_left[found] = False
        self._left -= len(found)
        return Rows(taken(self._rows.batch, found), self._rows.keys[found])

    @cached_property
    def _by_key(self) -> tuple[Numbers, Numbers]:
        """The rows in the order of their keys, and these keys."""
        order = np.argsort(self._rows.keys)
        return order, self._rows.keys[order]
