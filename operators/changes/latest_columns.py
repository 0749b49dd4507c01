"""The last row of each key of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.columns import column_of, joined, without_rows
from engine.state import KeyedState
from operators.changes.change import with_kinds
from operators.changes.last_rows import NoOrder, Row, Rows, State, Step, no_order
from operators.columns.kept import Kept
from operators.columns.numbers import ColumnKeyNumbers, key_columns, plain_keys
from operators.columns.rows import decoded_parts, encoded_runs, taken
from operators.columns.times import times_of
from operators.event_time import TimeSelector


class ColumnRows(State):
    """Rows of columns, in the batches that they came in."""

    def __init__(
        self, key: Any, by: Any, tombstone: Any, time: TimeSelector | None, keep_us: int | None
    ) -> None:
        """The columns of the key, of the order, of what is null in tombstones, and of times."""
        self.late: list[pa.RecordBatch] = []
        self._key = key
        self._by = by
        self._tombstone = tombstone
        self._time = time
        self._rows = Rows(keep_us)
        self._keys = ColumnKeyNumbers()
        self._kept = Kept("latest", "", None)

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The changes that a batch makes."""
        batch = self._kept.fit(batch)
        if not len(batch):
            return with_kinds(without_rows(batch.schema), [])
        keys = self._keys.of(plain_keys(self._key, key_columns(self._key, batch)))
        bys = None if self._by is None else _ordered(_column(batch, "by", self._by))
        gone = None
        if self._tombstone is not None:
            nulls = pc.is_null(_column(batch, "tombstone", self._tombstone))
            gone = nulls.to_numpy(zero_copy_only=False).tolist()
        times = None if self._time is None else times_of(self._time, batch).tolist()
        try:
            step = self._rows.take(keys.tolist(), bys, gone, times)
        except NoOrder as error:
            raise no_order(self._by, batch.slice(error.args[0], 1).to_pylist()[0]) from None
        self._kept.add(batch, np.array(step.numbers, np.uint32).tobytes())
        if step.late:
            self.late.append(taken(batch, np.array(step.late)))
        return self._changes(step, batch.schema)

    def advance(self, watermark_us: int) -> pa.RecordBatch | list[Any]:
        """The changes of the rows that expire now."""
        step = self._rows.advance(watermark_us)
        schema = self._kept.schema
        return [] if schema is None else self._changes(step, schema)

    def snapshot(self) -> KeyedState:
        """Of each key its row behind what its order goes by, and its time if it expires."""
        schema = self._kept.schema
        columns = b"" if schema is None else schema.serialize().to_pybytes()
        rows, of_keys, times = self._kept.copy(), dict(self._rows.of_keys), dict(self._rows.times)
        pairs = partial(_pairs, rows, of_keys, times, self._keys.of_numbers)
        return KeyedState.later(pairs, columns=columns)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on with these rows."""
        parts, numbers = [], []
        for key, (by, *rest) in pairs:
            time_us, encoded = (0, rest) if self._time is None else (rest[0], rest[1:])
            key_number, number = self._keys.number(key), self._rows.number() if encoded else 0
            parts += encoded
            numbers += [number] if encoded else []
            self._rows.of_keys[key_number] = by, number
            if self._time is not None:
                self._rows.expire(key_number, time_us)
        if parts:
            batch = joined([self._kept.fit(each) for each in decoded_parts(parts)])
            self._kept.add(self._kept.fit(batch), np.array(numbers, np.uint32).tobytes())

    def _changes(self, step: Step, schema: pa.Schema) -> pa.RecordBatch:
        found = without_rows(schema)
        if step.changes:
            rows = [row for _, row, _ in step.changes]
            found = self._kept.take(np.array(rows, np.uint32).tobytes())
        self._kept.remove(np.array(step.gone, np.uint32).tobytes())
        self._rows.let_go(step.gone)
        self._keys.forget_others(len(self._rows.of_keys), lambda: self._rows.of_keys)
        return with_kinds(found, [kind for kind, *_ in step.changes])


def _pairs(
    rows: Any, of_keys: dict[int, Row], times: dict[int, int], of_numbers: dict[int, Any]
) -> Iterator[Any]:
    """Of each key what its order goes by, its time if it has one, and its encoded row if any."""

    def head(key: int) -> tuple[Any, ...]:
        by, _ = of_keys[key]
        return (by, times[key]) if times else (by,)

    with_rows = [key for key, row in of_keys.items() if row[1]]
    if with_rows:
        numbers = np.array([of_keys[key][1] for key in with_rows], np.uint32)
        batch, order = rows.take(numbers.tobytes()), np.arange(len(with_rows))
        # Each row is a run of its own: keys differ.
        for key, _, _, encoded in encoded_runs(batch, order, np.array(with_rows, np.int64)):
            yield of_numbers.get(key, key), (*head(key), encoded)
    for key, row in of_keys.items():
        if not row[1]:
            yield of_numbers.get(key, key), head(key)


def _column(batch: pa.RecordBatch, name: str, item: Any) -> pa.Array:
    column = column_of(batch, item)
    if column is None:
        raise ValueError(
            f"latest(): {name} is column {item!r}, and there are {', '.join(batch.schema.names)}, "
            "expected one column of that name or index"
        )
    return column


def _ordered(column: pa.Array) -> list[Any]:
    """The values in their order; times are integers."""
    kind: Any = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == _DAYS else pa.int64())
    values: list[Any] = column.to_pylist()
    return values


_DAYS = 32
