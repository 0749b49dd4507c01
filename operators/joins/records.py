"""The state of a join of records: Rust finds the partners, the records themselves are here."""

from collections.abc import Iterable, Iterator
from typing import Any

from engine.graph.context import TaskContext
from engine.network import Join as Matcher
from engine.state import KeyedState
from operators.event_time import FARTHEST_US
from operators.joins.joining import AT_THE_END, NEVER, Joining, Pair
from operators.key_numbers import KeyNumbers


class JoinRecords:
    """The records of both inputs of one task that can still get partners.

    Records and watermarks go in, pairs come out. Rust has the key number and the time of each
    record, and gives it a number. The record is in a list under that number.
    """

    def __init__(
        self, joining: Joining, matcher: Matcher, context: TaskContext, *, keeps_joined: bool
    ) -> None:
        """`keeps_joined` tells whether the state has which records had partners."""
        self.late: list[Any] = []
        """Records that came too late; the reader empties it."""
        self._inputs = joining.inputs
        self._failing = context.failing
        self._matcher = matcher
        self._keeps_joined = keeps_joined
        self._watermark = NEVER
        self._keys = KeyNumbers()
        self._records: tuple[list[Any], list[Any]] = ([None], [None])
        """By side and number; 0 stands for a missing one."""

    @property
    def kept(self) -> int:
        """The number of records in the state."""
        return len(self._matcher)

    def add(self, side: int, batch: list[Any]) -> list[Pair]:
        """Take records; return their pairs with records that came before."""
        times, keys, records = self._inputs[side].parts(batch, self._failing)
        numbers = self._keys.of_keys(keys)
        try:
            late, rows, *step = self._matcher.add(side, numbers, times)
        except ValueError:
            far = (row for row, time in zip(records, times, strict=True) if abs(time) > FARTHEST_US)
            self._failing.on(next(far))
            raise
        if late:
            self.late += [records[place] for place in _numbers(late)]
        self._keep(side, rows, records)
        return list(self._pairs(*step)) if any(step) else []

    def close(self, watermark: float) -> Iterator[Pair]:
        """The pairs that are complete when all that follow are later than this, in microseconds.

        Also records that can get no partner. It is to be read to its end.
        """
        self._watermark = max(self._watermark, watermark)
        for step in steps(self._matcher, self._watermark):
            yield from self._pairs(*step)
        self._keys.forget_others(self.kept, self._matcher.keys)

    def snapshot(self, pickle: bool) -> KeyedState:
        """For each key the watermark, and the records of both sides with their times."""
        of_keys: dict[int, tuple[list[Any], list[Any]]] = {}
        for side, records in enumerate(self._records):
            keys, times, rows, are_joined = self._matcher.kept(side)
            kept = (records[row] for row in _numbers(rows))
            columns: list[Iterable[Any]] = [_numbers(times, "q"), kept]
            if self._keeps_joined:
                columns.append(map(bool, are_joined))
            for key, *row in zip(_numbers(keys, "q"), *columns, strict=True):
                of_keys.setdefault(key, ([], []))[side].append(tuple(row))
        watermark = None if self._watermark == NEVER else self._watermark
        keys_of = self._keys.of_numbers
        pairs = ((keys_of[key], (watermark, *sides)) for key, sides in of_keys.items())
        return KeyedState.of(pairs, pickle=pickle)

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
                numbers = self._matcher.restore(side, keys, times, are_joined, watermark)
                self._keep(side, numbers, records)

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

    def _pairs(self, lefts: bytes, rights: bytes, *gone: bytes) -> Iterator[Pair]:
        left, right = self._records
        if lefts:
            for one, other in zip(_numbers(lefts), _numbers(rights), strict=True):
                yield left[one], right[other]
        for kept, rows in zip(self._records, gone, strict=True):
            if rows:
                for row in _numbers(rows):
                    kept[row] = None


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
