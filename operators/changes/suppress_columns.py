"""Changes that are held back, of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from engine.state import KeyedState
from operators.changes.change import kind_numbers, with_kinds, without_kinds
from operators.changes.held import Held
from operators.columns.kept import Kept
from operators.columns.numbers import ColumnKeyNumbers, key_columns, plain_keys, row_numbers
from operators.columns.rows import decoded_parts, encoded_runs


class HeldColumns:
    """Changes that are rows of columns, by numbers of their keys and of the rows."""

    def __init__(self, key: Any) -> None:
        self.held = Held()
        self._key = key
        self._numbers = ColumnKeyNumbers()
        self._identities = ColumnKeyNumbers()
        self._kept = Kept("suppress", "", None)
        self._last = 0
        self._free: list[int] = []

    def add(self, batch: pa.RecordBatch, now_ns: int) -> None:
        """Hold these changes."""
        rows = self._kept.fit(without_kinds(batch))
        if not len(rows):
            return
        keys = self._numbers.of(plain_keys(self._key, key_columns(self._key, rows))).tolist()
        self._hold(keys, kind_numbers(batch), rows, now_ns)

    def made(self, changes: Iterator[tuple[Any, int, Any]], most: int) -> Iterator[pa.RecordBatch]:
        """The changes in one batch."""
        found = list(changes)
        if found:
            numbers = [row for _, _, row in found]
            rows = self._kept.take(_u32(numbers))
            self._let_go(numbers)
            yield with_kinds(rows, [kind for _, kind, _ in found])

    def snapshot(self) -> KeyedState:
        """Of each key what is held, each row encoded."""
        if self._kept.schema is None:
            return KeyedState.of([])
        saved = list(self.held.saved())
        numbers = [row for _, changes in saved for _, row in changes]
        encoded: Iterator[bytes] = iter(())
        if numbers:
            batch, order = self._kept.take(_u32(numbers)), np.arange(len(numbers))
            encoded = (rows for *_, rows in encoded_runs(batch, order, order))
        of_numbers = self._numbers.of_numbers
        pairs = [
            (of_numbers.get(key, key), [(kind, next(encoded)) for kind, _ in changes])
            for key, changes in saved
        ]
        columns = self._kept.schema.serialize().to_pybytes()
        return KeyedState(KeyedState.of(pairs).entries, columns)

    def restore(self, state: KeyedState, now_ns: int) -> None:
        """Hold what others held."""
        for key, changes in state.items():
            number = self._numbers.number(key)
            for kind, encoded in changes:
                for row in decoded_parts([encoded]):
                    self._hold([number], bytes([kind]), self._kept.fit(row), now_ns)

    def _hold(self, keys: list[int], kinds: bytes, rows: pa.RecordBatch, now_ns: int) -> None:
        numbers = [self._number() for _ in keys]
        self._kept.add(rows, _u32(numbers))
        identities = row_numbers(self._identities, rows).tolist()
        size = -(-rows.nbytes // len(rows))
        for key, kind, identity, number in zip(keys, kinds, identities, numbers, strict=True):
            self.held.add(key, kind, identity, number, size, now_ns)
        gone, self.held.gone = self.held.gone, []
        self._let_go(gone)

    def _let_go(self, numbers: list[int]) -> None:
        self._kept.remove(_u32(numbers))
        self._free += numbers
        held = self.held.of_keys
        self._numbers.forget_others(len(held), lambda: held)
        used = (item.identity for _, items in held.values() for item in items)
        self._identities.forget_others(self._last - len(self._free), lambda: used)

    def _number(self) -> int:
        if self._free:
            return self._free.pop()
        self._last += 1
        return self._last


def _u32(numbers: list[int]) -> bytes:
    return np.array(numbers, np.uint32).tobytes()
