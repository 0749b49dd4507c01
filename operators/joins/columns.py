"""The state of a join of columns: Rust finds the partners and keeps the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from engine.columns import joined, with_wide_codes, without_rows
from engine.network import Join as Matcher
from engine.network import KeptRows
from engine.state import KeyedState
from operators.columns.numbers import (
    ColumnKeyNumbers,
    Numbers,
    key_columns,
    kinds_of_keys,
    plain_keys,
)
from operators.columns.rows import decoded_parts, encoded_runs, taken
from operators.columns.times import times_of
from operators.joins.joining import NEVER, Joining, JoinInput
from operators.joins.records import in_64_bits, steps


class JoinColumns:
    """The rows of both inputs of one task that can still get partners; see `JoinRecords`.

    What comes out are rows with the columns of both. It remembers what columns there are.
    """

    def __init__(self, name: str, joining: Joining, matcher: Matcher) -> None:
        """`name` is the method of the join, for messages."""
        self.late: list[pa.RecordBatch] = []
        """Rows that came too late; the reader empties it."""
        self._name = name
        self._inputs = joining.inputs
        self._outer = joining.outer
        self._watermark: float = NEVER
        self._matcher = matcher
        self._rows = KeptRows(), KeptRows()
        self._keys = ColumnKeyNumbers()
        self._schemas: list[pa.Schema | None] = [
            each.schema and with_wide_codes(without_rows(each.schema)).schema
            for each in self._inputs
        ]
        self._kinds: list[list[str | None]] = [[None], [None]]
        """Of the keys of both sides, where they are known."""

    @property
    def kept(self) -> int:
        """The number of rows in the state."""
        return len(self._matcher)

    def add(self, side: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take rows; return their pairs with rows that came before."""
        batch, keys, times = self._read(side, batch)
        late, rows, *step = self._matcher.add(side, keys, times)
        if late:
            self.late.append(taken(batch, np.frombuffer(late, np.uint32)))
        self._rows[side].add(batch, rows)
        return list(self._results(*step))

    def close(self, watermark: float) -> Iterator[pa.RecordBatch]:
        """The pairs that are complete now, and rows that can get no partner."""
        self._watermark = max(self._watermark, watermark)
        for step in steps(self._matcher, self._watermark):
            yield from self._results(*step)
        self._keys.forget_others(self.kept, self._matcher.keys)

    @property
    def waits(self) -> bool:
        """Whether it does not know yet which columns are null in a row without a partner."""
        return any(
            is_outer and other is None
            for is_outer, other in zip(self._outer, reversed(self._schemas), strict=True)
        )

    def look(self, side: int, batch: pa.RecordBatch) -> None:
        """Learn the columns from a batch without rows."""
        self._of_schema(side, batch)

    def without_rows(self) -> pa.RecordBatch | None:
        """A result of no rows; None until the columns of both are known."""
        left, right = self._schemas
        if left is None or right is None:
            return None
        return self._beside(0, without_rows(left), without_rows(right))

    @property
    def schemas(self) -> bytes:
        """The known schemas of both sides, one behind the other."""
        left, right = (b"" if of is None else of.serialize().to_pybytes() for of in self._schemas)
        return len(left).to_bytes(4, "big") + left + right

    def learn(self, encoded: bytes) -> None:
        """Take the schemas of sides that are not known, as `schemas` of another task tells them."""
        end = 4 + int.from_bytes(encoded[:4], "big")
        parts = encoded[4:end], encoded[end:]
        self._schemas = [
            pa.ipc.read_schema(pa.py_buffer(part)) if part and known is None else known
            for known, part in zip(self._schemas, parts, strict=True)
        ]

    def snapshot(self, _pickle: bool) -> KeyedState:
        """Of each key the watermark; and of both sides its rows, and which have had partners."""
        watermark = None if self._watermark == NEVER else self._watermark
        sides = [(self._rows[side].copy(), *self._matcher.kept(side)) for side in (0, 1)]
        pairs = partial(_pairs, watermark, sides, self._keys.of_numbers)
        return KeyedState.later(pairs, columns=self.schemas)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Restore the state; all tasks had the same watermark."""
        restored: tuple[list[Any], list[Any]] = ([], [])
        for _, (watermark, *of_sides) in pairs:
            if watermark is not None:
                self._watermark = max(self._watermark, watermark)
            for rows, of_side in zip(restored, of_sides, strict=True):
                if of_side is not None:
                    rows.append(of_side)
        for side, rows in enumerate(restored):
            if rows:
                parts = decoded_parts(of_key for of_key, _ in rows)
                batch, keys, times = self._read(
                    side, joined([self._of_schema(side, each) for each in parts])
                )
                are_joined = list(map(bool, b"".join(each for _, each in rows)))
                watermark = in_64_bits(self._watermark)
                numbers = self._matcher.restore(side, keys, times, are_joined, watermark)
                self._rows[side].add(batch, numbers)

    def _of_schema(self, side: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the columns that those before had, in their order and of their types.

        Raises TypeError where it has others.
        """
        batch = with_wide_codes(batch)
        known = self._schemas[side]
        if known is None:
            self._schemas[side] = batch.schema
            return batch
        if batch.schema.equals(known):
            return batch
        names = batch.schema.names
        if names != known.names and len(set(names)) == len(names) == len(known.names):
            with suppress(KeyError):
                batch = batch.select(known.names)
        if batch.schema.names == known.names:
            fields = list(map(_of_both, known, batch.schema))
            if all(each is not None for each in fields):
                known = pa.schema(fields)
                with suppress(pa.ArrowInvalid):  # more texts than a dictionary holds
                    batch = batch.cast(known)
                    if not known.equals(self._schemas[side]):
                        self._widen(side, known)
                    return batch
        raise TypeError(
            f"{self._name} got columns of the {'right' if side else 'left'} stream that have "
            f"changed, from ({_told(known)}) to ({_told(batch.schema)}), expected the same in each "
            "batch\n\nhint: bring them into one schema in .map_batches(...); of .lookup_join(...), "
            "value_type=... says it"
        )

    def _widen(self, side: int, schema: pa.Schema) -> None:
        """Have the columns of a side be of these types from now on."""
        self._schemas[side] = schema
        self._rows[side].convert(lambda batch: batch.cast(schema))

    def _read(self, side: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Numbers, Numbers]:
        """The rows in the columns that those before had, the numbers of their keys, their times."""
        batch = self._of_schema(side, batch)
        of = self._inputs[side]
        return batch, self._keys.of(self._key_columns(side, of, batch)), times_of(of.time, batch)

    def _key_columns(self, side: int, of: JoinInput, batch: pa.RecordBatch) -> list[pa.Array]:
        if of.key is None or callable(of.time.item) or of.time.item is None:
            raise TypeError(
                f"{self._name} got columns ({', '.join(batch.schema.names)}), expected names of "
                "columns for the key and the time\n\nhint: .key_by('id') and "
                ".with_event_time('at'); or call .to_records() on both streams"
            )
        columns = key_columns(of.key, batch)
        if None in self._kinds[side]:
            self._kinds[side] = kinds_of_keys(columns)
            self._check_kinds()
        return plain_keys(of.key, columns)

    def _check_kinds(self) -> None:
        """Raise TypeError if the keys of the two sides cannot be equal."""
        for at, (left, right) in enumerate(zip(*self._kinds, strict=False)):
            if left != right and None not in (left, right):
                keys = (of.key if isinstance(of.key, tuple) else (of.key,) for of in self._inputs)
                names = [key[at] for key in keys]
                raise TypeError(
                    f"{self._name} got keys of which no two are equal: {left} in column "
                    f"{names[0]!r} of the left stream and {right} in {names[1]!r} of the right, "
                    "expected one kind\n\nhint: cast one of them in .map_batches(...) before "
                    ".key_by(...)"
                )

    def _beside(self, side: int, rows: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of this side and, in the same order, their partners: the columns of both."""
        left, right = (others, rows) if side else (rows, others)
        return _named([*left.columns, *right.columns], left.schema.names, right.schema.names)

    def _results(self, lefts: bytes, rights: bytes, *gone: bytes) -> Iterator[pa.RecordBatch]:
        left, right = (np.frombuffer(each, np.uint32) for each in (lefts, rights))
        (both,) = np.nonzero((left > 0) & (right > 0))
        if len(both):
            one, other = (
                rows.take(numbers[both].tobytes())
                for rows, numbers in zip(self._rows, (left, right), strict=True)
            )
            yield self._beside(0, one, other)
        for side, alone in enumerate((left[right == 0], right[left == 0])):
            if len(alone):
                yield self._alone(side, self._rows[side].take(alone.tobytes()))
        for rows, numbers in zip(self._rows, gone, strict=True):
            rows.remove(numbers)

    def _alone(self, side: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of this side without partners: in the columns of the others is nothing.

        Where those are not known, the left comes without them. TypeError for the right, whose names
        depend on them.
        """
        if side and self._schemas[0] is None:
            raise TypeError(
                f"{self._name} has {len(rows)} rows of the right stream without partners and has "
                "had nothing of the left, expected to know the columns of both: names of the right "
                "depend on those of the left\n\n"
                "hint: .to_columns(schema) in front of .key_by() says what columns a stream has"
            )
        fields = self._schemas[1 - side] or []
        nothing = [pa.nulls(len(rows), field.type) for field in fields]
        names = [field.name for field in fields]
        if side:
            return _named([*nothing, *rows.columns], names, rows.schema.names)
        return _named([*rows.columns, *nothing], rows.schema.names, names)


def _pairs(
    watermark: float | None, sides: list[Any], of_numbers: dict[int, Any]
) -> Iterator[tuple[Any, Any]]:
    """Of each key the watermark, and the encoded rows of both sides."""
    of_keys: dict[int, list[Any]] = {}
    for side, (rows, keys, _, numbers, are_joined) in enumerate(sides):
        if numbers:
            order = np.arange(len(are_joined))
            runs = encoded_runs(rows.take(numbers), order, np.frombuffer(keys, np.int64))
            for number, start, end, encoded in runs:
                of_keys.setdefault(number, [None, None])[side] = (encoded, are_joined[start:end])
    while of_keys:  # let go of one by one, so that the GIL is not held for all
        number, found = of_keys.popitem()
        yield of_numbers.get(number, number), (watermark, *found)


def _of_both(known: pa.Field, other: pa.Field) -> pa.Field | None:
    """What has the values of both; None where types differ, but for null and for dictionaries."""
    with suppress(pa.ArrowTypeError):
        return pa.unify_schemas([pa.schema([known]), pa.schema([other])]).field(0)
    if _plain(known.type) != _plain(other.type):
        return None
    return known.with_nullable(known.nullable or other.nullable)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _named(columns: list[Any], left: list[str], right: list[str]) -> pa.RecordBatch:
    """The columns of both, those of the right with a suffix where names meet."""
    names = list(left)
    for name in right:
        while name in names:
            name += SUFFIX
        names.append(name)
    return pa.RecordBatch.from_arrays(columns, names)


SUFFIX = "_right"
