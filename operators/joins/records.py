"""The state of a join of records: Rust finds the partners, the records themselves are here."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from engine.graph.context import TaskContext
from engine.network import Join as Matcher
from engine.state import KeyedState, encode_value
from operators.changes import KINDS, Change, kind_numbers
from operators.event_time import FARTHEST_US
from operators.joins.joining import AT_THE_END, NEVER, Joining, Results, unknown_row
from operators.key_numbers import KeyNumbers


class JoinRecords:
    """The records of both inputs of one task that can still get partners.

    Records and watermarks go in, pairs come out. Rust has the key number and the time of each
    record, and gives it a number. The record is in a list under that number.
    """

    def __init__(
        self,
        name: str,
        joining: Joining,
        matcher: Matcher,
        context: TaskContext,
        results: Results,
        *,
        keeps_joined: bool,
    ) -> None:
        """`keeps_joined` tells whether the state has which records had partners."""
        self.late: list[Any] = []
        """Records that came too late; the reader empties it."""
        self.alone: tuple[list[Any], list[Any]] = ([], [])
        """Records for the side outputs of those without a partner; the reader empties it."""
        self._name = name
        self._outer = joining.outer
        self._results = results
        self._pickle = context.pickle
        self._came = 0
        """How many records came, where that is their time."""
        self._identities = KeyNumbers(), KeyNumbers()
        """Of equal rows of a table one number, by their encodings."""
        self._inputs = joining.inputs
        self._failing = context.failing
        self._matcher = matcher
        self._keeps_joined = keeps_joined
        self._watermark = NEVER
        self._keys: Any = KeyNumbers()
        self._records: tuple[list[Any], list[Any]] = ([None], [None])
        """By side and number; 0 stands for a missing one."""

    @property
    def kept(self) -> int:
        """The number of records in the state."""
        return len(self._matcher)

    def add(self, side: int, batch: list[Any]) -> list[Any]:
        """Take records; return their pairs with records that came before."""
        of = self._inputs[side]
        times, keys, came = of.parts(batch, self._failing)
        numbers = self._keys.of_keys(keys)
        if times is None:
            times = list(range(self._came, self._came + len(numbers)))
            self._came += len(numbers)
        records = came
        try:
            if of.changes:
                kinds = kind_numbers(came)
                records = [change.record for change in came]
                late, rows, *step = self._matcher.change(
                    side, numbers, times, kinds, self._identities_of(side, records)
                )
            else:
                late, rows, *step = self._matcher.add(side, numbers, times)
        except ValueError:
            far = (row for row, time in zip(came, times, strict=True) if abs(time) > FARTHEST_US)
            self._failing.on(next(far, None))
            raise
        if late:
            self._take_late(of.time is None, [came[place] for place in _numbers(late)])
        self._keep(side, rows, records)
        found = list(self._made(*step)) if any(step) else []
        if of.changes:
            self._forget()
        return found

    def close(self, watermark: float) -> Iterator[Any]:
        """The pairs that are complete when all that follow are later than this, in microseconds.

        Also records that can get no partner. It is to be read to its end.
        """
        self._watermark = max(self._watermark, watermark)
        for step in steps(self._matcher, self._watermark):
            yield from self._made(*step)
        self._forget()

    def snapshot(self, pickle: bool) -> KeyedState:
        """What is kept of each key."""
        return KeyedState.of(self._pairs(), pickle=pickle)

    def take_over(self, other: "JoinRecords") -> None:
        """Go on with what another has kept; before the first batch."""
        self._came = other._came
        self.restore(other._pairs())
        if not self.kept:  # what is restored has the watermark with it
            list(self.close(other._watermark))

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        """For each key the watermark, and the records of both sides with their times."""
        of_keys: dict[int, tuple[list[Any], list[Any]]] = {}
        for side in range(len(self._records)):
            keys, times, rows, are_joined = self._matcher.kept(side)
            kept = self._records_of(side, rows)
            columns: list[Iterable[Any]] = [_numbers(times, "q"), kept]
            if self._keeps_joined:
                columns.append(map(bool, are_joined))
            for key, *row in zip(_numbers(keys, "q"), *columns, strict=True):
                of_keys.setdefault(key, ([], []))[side].append(tuple(row))
        watermark = None if self._watermark == NEVER else self._watermark
        keys_of = self._keys.of_numbers
        return ((keys_of[key], (watermark, *sides)) for key, sides in of_keys.items())

    def _records_of(self, side: int, rows: bytes) -> Iterable[Any]:
        records = self._records[side]
        return (records[row] for row in _numbers(rows))

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Restore the state; all tasks had the same watermark."""
        restored: tuple[list[Any], list[Any]] = ([], [])
        for key, (watermark, *sides) in pairs:
            if watermark is not None:
                self._watermark = max(self._watermark, watermark)
            if len(sides) == 1:
                sides = self._of_windows(*sides)
            number = self._keys.of_key(key)
            for rows, of_side in zip(restored, sides, strict=True):
                rows += [(number, *row) for row in of_side]
        for side, rows in enumerate(restored):
            if rows:
                keys, times, records, *joined = map(list, zip(*rows, strict=True))
                are_joined = joined[0] if joined else [False] * len(rows)
                watermark = in_64_bits(self._watermark)
                identities = None
                if self._inputs[side].changes:
                    identities = self._identities_of(side, records)
                numbers = self._matcher.restore(
                    side, keys, times, are_joined, watermark, identities
                )
                self._keep(side, numbers, records)
                self._came = max(self._came, 1 + max(times))

    def _of_windows(self, parts: list[Any]) -> list[list[Any]]:
        """The records with their times, as `snapshot` gives them, from a state of windows.

        Window joins wrote that form before joins were in Rust.
        """
        sides = []
        for side, of in enumerate(self._inputs):
            records = [record for *_, lists in parts for record in lists[side]]
            times = of.time_of_records.all_microseconds(records)
            sides.append(list(zip(times, records, strict=True)))
        return sides

    def _keep(self, side: int, numbers: bytes, records: list[Any]) -> None:
        kept = self._records[side]
        rows = _numbers(numbers).tolist()
        if len(kept) <= (most := max(rows, default=0)):
            kept += [None] * (most + 1 - len(kept))
        for row, record in zip(rows, records, strict=True):
            kept[row] = record
        kept[0] = None  # late ones have this number

    def _made(self, lefts: bytes, rights: bytes, kinds: bytes, *gone: bytes) -> Iterator[Any]:
        if lefts:
            numbers = _numbers(lefts), _numbers(rights)
            if self._results.are_changes or self._results.are_rows or any(self._results.aside):
                yield from self._chosen(*numbers, kinds)
            else:
                left, right = self._records
                for one, other in zip(*numbers, strict=True):
                    yield left[one], right[other]
        for kept, rows in zip(self._records, gone, strict=True):
            if rows:
                for row in _numbers(rows):
                    kept[row] = None

    def _chosen(self, lefts: memoryview, rights: memoryview, kinds: bytes) -> Iterator[Any]:
        """What comes out of pairs, some of which are records without a partner.

        Where an unbounded join gives its results at once, others are for side outputs.
        """
        left, right = self._records
        has_kinds, results = bool(kinds), self._results
        for place, (one, other) in enumerate(zip(lefts, rights, strict=True)):
            pair = left[one], right[other]
            if not has_kinds and not (one and other):
                side = 0 if one else 1
                if results.aside[side]:
                    self.alone[side].append(pair[side])
                if results.are_changes or results.are_rows or not self._outer[side]:
                    continue
            made = pair[0] if results.are_rows else pair
            yield Change(KINDS[kinds[place]], made) if results.are_changes else made

    def _identities_of(self, side: int, records: list[Any]) -> list[int]:
        pickle = self._pickle
        return self._identities[side].of_keys([encode_value(each, pickle) for each in records])

    def _take_late(self, is_unknown: bool, late: list[Any]) -> None:
        """Put records aside that are late; without times, rows that go have to be there."""
        if is_unknown:
            self._failing.on(late[0])
            raise unknown_row(self._name, late[0].record)
        self.late += late

    def _forget(self) -> None:
        """Forget keys and rows that are not kept any more."""
        self._keys.forget_others(self.kept, self._matcher.keys)
        for side, identities in enumerate(self._identities):
            identities.forget_others(self.kept, partial(self._matcher.identities, side))


def steps(matcher: Matcher, watermark: float) -> Iterator[list[bytes]]:
    """The pairs of a watermark in several steps: a window may have millions.

    The first two parts are the left and the right rows of the pairs, the others rows that are gone.
    """
    while True:
        step = matcher.close(in_64_bits(watermark), _PAIRS)[2:]
        yield step
        if len(step[0]) < 4 * _PAIRS:
            return


def in_64_bits(watermark: float) -> int:
    """A watermark as an integer of 64 bits: the first before any record, the last at the end."""
    if watermark == NEVER:
        return _FIRST
    return _LAST if watermark == AT_THE_END else int(watermark)


def limited(distance: int) -> int:
    """A distance between times, at most that of any two times."""
    return max(-_LAST, min(distance, _LAST))


def _numbers(encoded: bytes, kind: Any = "I") -> memoryview:
    return memoryview(encoded).cast(kind)


_PAIRS = 1 << 16
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1
