"""The state of a join of columns: Rust finds the partners and keeps the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from engine.columns import joined, without_rows
from engine.network import Join as Matcher
from engine.network import take_rows
from engine.state import KeyedState
from operators.changes import kind_numbers, with_kinds, without_kinds
from operators.columns.kept import Kept
from operators.columns.numbers import (
    ColumnKeyNumbers,
    Numbers,
    key_columns,
    kinds_of_keys,
    plain_keys,
    row_numbers,
)
from operators.columns.rows import decoded_parts, encoded_runs, taken
from operators.columns.times import times_of
from operators.joins.joining import (
    AT_THE_END,
    NEVER,
    SIDES,
    Joining,
    JoinInput,
    Results,
    unknown_row,
)
from operators.joins.records import in_64_bits, steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rows: TypeAlias = "NDArray[np.uint32]"
"""Numbers of rows; 0 is none."""


class JoinColumns:
    """The rows of both inputs of one task that can still get partners; see `JoinRecords`.

    What comes out are rows with the columns of both. It remembers what columns there are.
    """

    def __init__(self, name: str, joining: Joining, matcher: Matcher, results: Results) -> None:
        """`name` is the method of the join, for messages."""
        self.late: list[pa.RecordBatch] = []
        """Rows that came too late; the reader empties it."""
        self.alone: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        """Rows for the side outputs of those without a partner; the reader empties it."""
        self._name = name
        self._results = results
        self._came = 0
        """How many rows came, where that is their time."""
        self._identities = ColumnKeyNumbers(), ColumnKeyNumbers()
        """Of equal rows of a table one number."""
        self._owed: list[pa.RecordBatch] = []
        """Restored rows without a partner that never came out."""
        self._inputs = joining.inputs
        self._outer = joining.outer
        self._watermark: float = NEVER
        self._matcher = matcher
        self._keys = ColumnKeyNumbers()
        self._rows = tuple(
            Kept(name, f" of the {side} stream", each.schema)
            for side, each in zip(SIDES, self._inputs, strict=True)
        )
        self._kinds: list[list[str | None]] = [[None], [None]]
        """Of the keys of both sides, where they are known."""

    @property
    def kept(self) -> int:
        """The number of rows in the state."""
        return len(self._matcher)

    def add(self, side: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take rows; return their pairs with rows that came before."""
        came = batch
        if changes := self._inputs[side].changes:
            kinds = kind_numbers(batch)
            batch = without_kinds(batch)
        batch, keys, times = self._read(side, batch)
        if changes:
            identities = row_numbers(self._identities[side], batch)
            late, rows, *step = self._matcher.change(side, keys, times, kinds, identities)
        else:
            late, rows, *step = self._matcher.add(side, keys, times)
        if late:
            self._take_late(side, taken(came, np.frombuffer(late, np.uint32)))
        self._rows[side].add(batch, rows)
        found, self._owed = [*self._owed, *self._made(*step)], []
        if changes:
            self._forget()
        return found

    def close(self, watermark: float) -> Iterator[pa.RecordBatch]:
        """The pairs that are complete now, and rows that can get no partner."""
        self._watermark = max(self._watermark, watermark)
        owed, self._owed = self._owed, []
        yield from owed
        if watermark == AT_THE_END and self.waits:
            yield from self.owed()
        for step in steps(self._matcher, self._watermark):
            yield from self._made(*step)
        self._forget()

    @property
    def _schemas(self) -> list[pa.Schema | None]:
        return [rows.schema for rows in self._rows]

    @property
    def waits(self) -> bool:
        """Whether it does not know yet which columns are null in a row without a partner."""
        return any(
            is_outer and other is None
            for is_outer, other in zip(self._outer, reversed(self._schemas), strict=True)
        )

    def look(self, side: int, batch: pa.RecordBatch) -> None:
        """Learn the columns from a batch without rows."""
        self._rows[side].fit(without_kinds(batch) if self._inputs[side].changes else batch)

    def owed(self) -> list[pa.RecordBatch]:
        """The rows that would have come out at once, had it been known in what columns.

        As the other side had no row, they are all that are kept.
        """
        if not self._results.are_changes:
            return []
        rows = [self._matcher.kept(side)[2] for side in (0, 1)]
        return [
            self._inserts(side, rows[side])
            for side, is_outer in enumerate(self._outer)
            if is_outer and rows[side]
        ]

    def without_rows(self) -> pa.RecordBatch | None:
        """A result of no rows; None until the columns of both are known."""
        left, right = self._schemas
        if left is not None and self._results.are_rows:
            return self._changes(without_rows(left), b"")
        if left is None or right is None:
            return None
        return self._changes(self._beside(0, without_rows(left), without_rows(right)), b"")

    @property
    def schemas(self) -> bytes:
        """The known schemas of both sides, one behind the other."""
        left, right = (b"" if of is None else of.serialize().to_pybytes() for of in self._schemas)
        return len(left).to_bytes(4, "big") + left + right

    def learn(self, encoded: bytes) -> None:
        """Take the schemas of sides that are not known, as `schemas` of another task tells them."""
        end = 4 + int.from_bytes(encoded[:4], "big")
        parts = encoded[4:end], encoded[end:]
        for rows, part in zip(self._rows, parts, strict=True):
            if part and rows.schema is None:
                rows.schema = pa.ipc.read_schema(pa.py_buffer(part))

    def snapshot(self, _pickle: bool) -> KeyedState:
        """Of each key the watermark; and of both sides its rows, and which have had partners."""
        watermark = None if self._watermark == NEVER else self._watermark
        sides = [(self._rows[side].copy(), *self._matcher.kept(side)) for side in (0, 1)]
        owes = self.waits and self._results.are_changes
        pairs = partial(_pairs, watermark, owes, sides, self._keys.of_numbers)
        return KeyedState.later(pairs, columns=self.schemas)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Restore the state; all tasks had the same watermark."""
        restored: tuple[list[Any], list[Any]] = ([], [])
        for _, (watermark, left, right, *owes) in pairs:
            of_sides, owed = (left, right), bool(owes)
            if watermark is not None:
                self._watermark = max(self._watermark, watermark)
            for rows, of_side in zip(restored, of_sides, strict=True):
                if of_side is not None:
                    rows.append((*of_side, owed))
        for side, rows in enumerate(restored):
            if rows:
                parts = decoded_parts(of_key for of_key, *_ in rows)
                batch, keys, times = self._read(
                    side, joined([self._rows[side].fit(each) for each in parts])
                )
                are_joined = list(map(bool, b"".join(each for _, each, _ in rows)))
                watermark = in_64_bits(self._watermark)
                identities = None
                if self._inputs[side].changes:
                    identities = row_numbers(self._identities[side], batch)
                numbers = self._matcher.restore(
                    side, keys, times, are_joined, watermark, identities
                )
                self._rows[side].add(batch, numbers)
                owes = [owed for _, of_key, owed in rows for _ in of_key]
                if any(owes) and not self.waits and self._outer[side]:
                    owed_rows = np.frombuffer(numbers, np.uint32)[np.array(owes)]
                    self._owed.append(self._inserts(side, owed_rows.tobytes()))

    def _take_late(self, side: int, late: pa.RecordBatch) -> None:
        """Put rows aside that are late; without times, rows that go have to be there."""
        if self._inputs[side].time is None:
            raise unknown_row(self._name, late.to_pylist()[0])
        self.late.append(late)

    def _forget(self) -> None:
        """Forget keys and rows that are not kept any more."""
        self._keys.forget_others(self.kept, self._matcher.keys)
        for side, identities in enumerate(self._identities):
            identities.forget_others(self.kept, partial(self._matcher.identities, side))

    def _read(self, side: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Numbers, Numbers]:
        """The rows in the columns that those before had, the numbers of their keys, their times."""
        batch = self._rows[side].fit(batch)
        of = self._inputs[side]
        return batch, self._keys.of(self._key_columns(side, of, batch)), self._times(of, batch)

    def _key_columns(self, side: int, of: JoinInput, batch: pa.RecordBatch) -> list[pa.Array]:
        key, time = of.key_of_columns, of.time
        if key is None or (time is not None and time.item is None):
            raise TypeError(
                f"{self._name} got columns ({', '.join(batch.schema.names)}), expected names of "
                "columns for the key and the time\n\nhint: .key_by('id') and "
                ".with_event_time('at'); or call .to_records() on both streams"
            )
        columns = key_columns(key, batch)
        if None in self._kinds[side]:
            self._kinds[side] = kinds_of_keys(columns)
            self._check_kinds()
        return plain_keys(key, columns)

    def _check_kinds(self) -> None:
        """Raise TypeError if the keys of the two sides cannot be equal."""
        for at, (left, right) in enumerate(zip(*self._kinds, strict=False)):
            if left != right and None not in (left, right):
                keys = [of.key_of_columns for of in self._inputs]
                names = [key[at] if isinstance(key, tuple) else key for key in keys]
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

    def _made(
        self, lefts: bytes, rights: bytes, kinds: bytes, *gone: bytes
    ) -> Iterator[pa.RecordBatch]:
        left, right = (np.frombuffer(each, np.uint32) for each in (lefts, rights))
        if kinds and self._results.are_rows:
            yield self._changes(self._rows[0].take(lefts), kinds)
        elif kinds and not self.waits:
            yield self._in_order(left, right, kinds)
        elif not kinds:
            yield from self._by_sides(left, right)
        for rows, numbers in zip(self._rows, gone, strict=True):
            rows.remove(numbers)

    def _by_sides(self, left: Rows, right: Rows) -> Iterator[pa.RecordBatch]:
        """Partners, and rows without one: those may also go aside."""
        (both,) = np.nonzero((left > 0) & (right > 0))
        if len(both):
            one, other = (
                rows.take(numbers[both].tobytes())
                for rows, numbers in zip(self._rows, (left, right), strict=True)
            )
            yield self._beside(0, one, other)
        comes = not (self._results.are_changes or self._results.are_rows)
        for side, alone in enumerate((left[right == 0], right[left == 0])):
            if len(alone):
                rows = self._rows[side].take(alone.tobytes())
                if self._results.aside[side]:
                    self.alone[side].append(rows)
                if comes and self._outer[side]:
                    yield self._alone(side, rows)

    def _in_order(self, left: Rows, right: Rows, kinds: bytes) -> pa.RecordBatch:
        """Pairs in their order, with null in the columns of what is missing."""
        found = []
        for side, numbers in enumerate((left, right)):
            has = numbers > 0
            if not has.any():
                found.append(_nothing(self._schemas[side], len(numbers)))
                continue
            rows = self._rows[side].take(numbers[has].tobytes())
            if not has.all():
                rows = take_rows(rows, pa.array(np.cumsum(has) - 1, mask=~has))
            found.append(rows)
        return self._changes(self._beside(0, *found), kinds)

    def _inserts(self, side: int, numbers: bytes) -> pa.RecordBatch:
        """Rows of this side that have no partner, as changes."""
        rows = self._rows[side].take(numbers)
        return self._changes(self._alone(side, rows), bytes(len(rows)))

    def _changes(self, batch: pa.RecordBatch, kinds: bytes) -> pa.RecordBatch:
        return with_kinds(batch, kinds) if self._results.are_changes else batch

    def _times(self, of: JoinInput, batch: pa.RecordBatch) -> Numbers:
        if of.time is not None:
            return times_of(of.time, batch)
        self._came += len(batch)
        return np.arange(self._came - len(batch), self._came)

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


def _nothing(schema: pa.Schema | None, rows: int) -> pa.RecordBatch:
    """So many rows of nulls."""
    assert schema is not None
    columns = [pa.nulls(rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema.names)


def _pairs(
    watermark: float | None, owes: bool, sides: list[Any], of_numbers: dict[int, Any]
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
        yield of_numbers.get(number, number), (watermark, *found, *[True] * owes)


def _named(columns: list[Any], left: list[str], right: list[str]) -> pa.RecordBatch:
    """The columns of both, those of the right with a suffix where names meet."""
    names = list(left)
    for name in right:
        while name in names:
            name += SUFFIX
        names.append(name)
    return pa.RecordBatch.from_arrays(columns, names)


SUFFIX = "_right"
