"""The same as `RecordRows`, of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from engine.columns import joined, with_wide_codes
from engine.state import KeyedState
from operators.columns.numbers import ColumnKeyNumbers, key_columns, plain_keys
from operators.columns.rows import decoded_parts, encoded_runs, taken
from operators.columns.times import times_of
from operators.event_time import TimeSelector
from operators.keys import Key
from operators.order.rows import Groups


class ColumnRows:
    """Rows of columns: what is held is a batch and the number of a row in it.

    A batch has only rows that were held when it came; when most of them are not held any more, rows
    are copied.
    """

    are_columns = True

    def __init__(self, name: str, key: Key, paired: bool, time: TimeSelector | None) -> None:
        self.numbers = ColumnKeyNumbers()
        self._name = name
        self._key = None if paired else key
        self._time = time
        self._schema: pa.Schema | None = None
        self._rows, self._most = 0, _MANY
        """How many rows batches have whose rows were held, and when to copy those that are."""

    def read(self, batch: pa.RecordBatch) -> tuple[list[int], list[int]]:
        """The numbers of the rows' keys, and their times: 0 where times do not matter."""
        if self._key is None:
            raise TypeError(
                f"{self._name} got columns ({', '.join(batch.schema.names)}), expected names of "
                "columns for the key\n\nhint: .key_by('id')"
            )
        self._schema = batch.schema
        keys = self.numbers.of(plain_keys(self._key, key_columns(self._key, batch)))
        if self._time is None:
            return keys.tolist(), list(repeat(0, len(batch)))
        return keys.tolist(), times_of(self._time, batch).tolist()

    def chosen(self, batch: pa.RecordBatch, places: list[int]) -> pa.RecordBatch:
        """The rows in these places."""
        if len(places) == len(batch):
            return batch
        return taken(batch, np.array(places, np.int64))

    def hold(
        self, batch: pa.RecordBatch, held: dict[Any, int], groups: Callable[[], Iterable[Any]]
    ) -> None:
        """Have groups hold the rows in these places; `groups` gives all that hold one."""
        self._have_held(held, with_wide_codes(self.chosen(batch, list(held.values()))))
        self._rows += len(held)
        if self._rows > self._most:
            left = list(groups())
            self._have_held(left, self.of([group.held for group in left]))
            self._rows, self._most = len(left), _MANY + 2 * len(left)

    def _have_held(self, groups: Iterable[Any], rows: pa.RecordBatch) -> None:
        for row, group in enumerate(groups):
            group.held = rows, row

    def of(self, held: list[tuple[pa.RecordBatch, int]]) -> pa.RecordBatch:
        """A batch of rows that were held."""
        starts: dict[int, int] = {}
        parts: list[pa.RecordBatch] = []
        end = 0
        for batch, _ in held:
            if id(batch) not in starts:
                starts[id(batch)] = end
                parts.append(batch)
                end += len(batch)
        rows = np.array([starts[id(batch)] + row for batch, row in held], np.int64)
        return taken(joined(parts), rows)

    def kept(self, groups: Groups, *, holds: bool, pickle: bool) -> KeyedState:
        """The state of these groups."""
        assert self._schema is not None
        rows: dict[int, bytes] = {}
        if holds and groups:
            batch = self.of([each for _, _, held in groups for each in held])
            sizes = [len(held) for _, _, held in groups]
            keys = np.repeat(np.array([number for number, *_ in groups], np.int64), sizes)
            runs = encoded_runs(batch, np.arange(len(batch)), keys)
            rows = {number: encoded for number, _, _, encoded in runs}
        keys_of = self.numbers.of_numbers
        pairs = [
            (keys_of.get(number, number), (known, rows.get(number))) for number, known, _ in groups
        ]
        return KeyedState.later(lambda: pairs, columns=self._schema.serialize().to_pybytes())

    def restored(self, state: KeyedState, *, holds: bool) -> Iterator[tuple[int, Any, list[Any]]]:
        """The groups of a state."""
        self._schema = pa.ipc.read_schema(pa.py_buffer(state.columns))
        for key, (known, encoded) in state.items():
            held: list[Any] = [None] * len(known)
            if holds:
                batch = joined(list(decoded_parts([encoded])))
                held = [(batch, row) for row in range(len(batch))]
            yield self.numbers.number(key), known, held


_MANY = 1 << 16
"""Fewer rows than this are not worth a copy."""
