"""`top_n` of columns: the first few rows of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.columns import column_of, slices, with_wide_codes
from engine.state import KeyedState
from operators.columns.keyed_rows import KeyedRows, Rows
from operators.columns.numbers import ColumnKeyNumbers, Numbers, key_columns, plain_keys
from operators.columns.rows import chosen, taken
from operators.keys import Item, Key
from operators.reduce_batches import rows_of_state, state_of_rows


class TopColumns:
    """The first rows of each key, the best in front."""

    are_columns = True

    def __init__(
        self, key: Key, by: Sequence[Item | None], descending: Sequence[bool], most: int
    ) -> None:
        """`most` rows by these columns, each of them `descending` or not."""
        self._key = key
        self._by = by
        self._orders = ["descending" if each else "ascending" for each in descending]
        self._most = most
        self._numbers = ColumnKeyNumbers()
        self._kept = KeyedRows()

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take rows; returns the first rows of each key for which these have changed."""
        keys = self._numbers.of(self._key_columns(batch))
        has_value = np.ones(len(batch), np.bool_)
        for column in self._columns(batch):
            has_value &= column.is_valid().to_numpy(zero_copy_only=False)
        rows = Rows(with_wide_codes(batch), keys)
        if not has_value.all():
            rows = rows.chosen(has_value)
        before = self._kept.take(np.unique(rows.keys))
        known = sum(len(each.keys) for each in before)
        rows = Rows.of([*before, rows])
        first, ranks = self._first(rows)
        found = Rows(taken(rows.batch, first), rows.keys[first])
        self._kept.add(found)
        is_changed = np.isin(found.keys, found.keys[first >= known])
        return _ranked(chosen(found.batch, is_changed), ranks[is_changed])

    def all(self, most: int) -> Iterator[pa.RecordBatch]:
        """The first rows of all keys, in batches."""
        if kept := self._kept.all:
            rows = Rows.of(kept)
            first, ranks = self._first(rows)
            yield from slices(_ranked(taken(rows.batch, first), ranks), most)

    def snapshot(self, *, pickle: bool) -> KeyedState:
        """The first rows of each key."""
        rows = [each.batch for each in self._kept.all]
        return state_of_rows(rows, self._key_columns, pickle=pickle)

    def restore(self, state: KeyedState) -> None:
        """Go on with the first rows of keys."""
        for rows in rows_of_state(state):
            self._kept.add(Rows(rows, self._numbers.of(self._key_columns(rows))))

    def _first(self, rows: Rows) -> tuple[Numbers, Numbers]:
        """The first rows of each key, those of a key behind each other, and their ranks."""
        columns = self._columns(rows.batch)
        names = [f"by{at}" for at in range(len(columns))]
        table = pa.RecordBatch.from_arrays([pa.array(rows.keys), *columns], ["key", *names])
        order = [("key", "ascending"), *zip(names, self._orders, strict=True)]
        found = pc.sort_indices(table, sort_keys=order).to_numpy().astype(np.int64)
        keys = rows.keys[found]
        begins = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
        sizes = np.diff(begins, append=len(keys))
        ranks: Numbers = np.arange(len(keys)) - np.repeat(begins, sizes) + 1
        is_first = ranks <= self._most
        return found[is_first], ranks[is_first]

    def _columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns to rank by, of types that can be sorted."""
        found = []
        for item in self._by:
            column = None if item is None else column_of(batch, item)
            if column is None:
                raise ValueError(
                    f"top_n ranks by column {item!r}, and there are "
                    f"{', '.join(batch.schema.names)}, expected one column of that name or index"
                )
            plain = _plain(column)
            if not _has_order(plain.type):
                raise TypeError(
                    f"column {item!r} of type {column.type} has no order, expected one to rank by"
                    "\n\nhint: name another, or cast this one in .map_batches(...) before"
                )
            found.append(plain)
        return found

    def _key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if self._key is None:
            raise TypeError(
                f"top_n got columns ({', '.join(batch.schema.names)}), expected names of columns "
                "for the key\n\nhint: .key_by('id')"
            )
        return plain_keys(self._key, key_columns(self._key, batch))


def _ranked(rows: pa.RecordBatch, ranks: Numbers) -> pa.RecordBatch:
    name = "rank"
    while name in rows.schema.names:
        name += "_right"
    return rows.append_column(name, pa.array(ranks, pa.int64()))


def _plain(column: Any) -> pa.Array:
    """The column without codes and views."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(column.storage)
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(column))
    if pa.types.is_dictionary(kind):
        return _plain(_plain(column.dictionary).take(column.indices))
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    return column


def _has_order(kind: pa.DataType) -> bool:
    try:
        pc.sort_indices(
            pa.RecordBatch.from_arrays([pa.array([], kind)], ["by"]), [("by", "ascending")]
        )
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid):
        return False
    return True
