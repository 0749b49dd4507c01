"""Interval joins: a record of the left and those of the right that are near it in event time."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any

from engine.errors import GraphError
from engine.graph.context import TaskContext
from engine.record import dict_key
from engine.state import KeyedState
from operators.durations import check_duration, microseconds
from operators.joins.function import NEVER, ColumnState, Join, JoinState, Pair
from operators.keys import unhashable


@dataclass(frozen=True)
class IntervalJoin(Join):
    """Joins a record of the left at t with those of the right of its key in [t + low, t + high]."""

    low: int
    """In microseconds, as `high`."""
    high: int

    name = "interval_join"

    @property
    def meaning(self) -> dict[str, Any]:
        """The bounds: what is farther is not kept."""
        low, high = (timedelta(microseconds=each) for each in (self.low, self.high))
        return {"between": f"{_signed(low)} and {_signed(high)}"}

    def watermark_of_results(self, watermark_us: int) -> int:
        """As long ago as the partner of a record can be."""
        return watermark_us - max(0, self.high, -self.low)

    def of_records(self, context: TaskContext) -> JoinState:
        """Lists by key."""
        return Intervals(self, context)

    def of_columns(self, _context: TaskContext) -> ColumnState:
        """Chunks of rows."""
        from operators.joins.interval_columns import IntervalColumns

        return IntervalColumns(self, self.low, self.high)


def check_between(between: object) -> tuple[int, int]:
    """The bounds in microseconds; raises `GraphError` unless they are two durations in order."""
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise GraphError(
            f"interval_join() got between={between!r:.80}, expected two durations",
            hint="between=(timedelta(0), timedelta(hours=1))",
        )
    for each in between:
        check_duration("interval_join(): between", each, least=None)
    low, high = map(microseconds, between)
    if low > high:
        raise GraphError(f"interval_join() got between={between!r}, expected the lower bound first")
    return low, high


def _signed(duration: timedelta) -> str:
    return f"-{-duration}" if duration < timedelta() else str(duration)


class Intervals:
    """The records of one task that partners may still come for; see `JoinState`.

    A record with a time at the watermark or before it is late: its partners may be gone. A record
    is kept until the watermark of both inputs reaches the last possible time of a partner. A heap
    says when a record of a key can be dropped; it changes only if a record is earlier than all
    others of its key.
    """

    def __init__(self, operator: IntervalJoin, context: TaskContext) -> None:
        joining = operator.joining
        self.kept = 0
        self.late: list[Any] = []
        self._inputs = joining.inputs
        self._outer = joining.outer
        self._spans = (operator.low, operator.high), (-operator.high, -operator.low)
        """By side, where partners are: from, and to, behind a record's own time."""
        self._failing = context.failing
        self._watermark = NEVER
        self._keys: tuple[dict[Any, _Kept], dict[Any, _Kept]] = ({}, {})
        self._heap: list[tuple[int, int, Any, _Kept]] = []
        self._numbers = count()

    def add(self, side: int, batch: list[Any]) -> list[Pair]:
        """Take records in; their partners among those that have come."""
        pairs: list[Pair] = []
        keys, others = self._keys[side], self._keys[1 - side]
        watermark, (low, high) = self._watermark, self._spans[side]
        is_outer, has_outer = self._outer[side], self._outer[1 - side]
        kept = 0
        for time, key, record in self._inputs[side].rows(batch, self._failing):
            if time <= watermark:
                self.late.append(record)
                continue
            try:
                own = keys.get(key)
                if own is None and type(key) not in _PLAIN:
                    key = dict_key(key)
                    own = keys.get(key)
                other = others.get(key)
            except TypeError:
                raise unhashable(key) from None
            first, behind = 0, 0
            if other is not None:
                times = other.times
                first, behind = bisect_left(times, time + low), bisect_right(times, time + high)
                if first < behind:
                    partners = other.records[first:behind]
                    if side:
                        pairs += [(partner, record) for partner in partners]
                    else:
                        pairs += [(record, partner) for partner in partners]
                    if has_outer:
                        other.joined[first:behind] = b"\1" * (behind - first)
            if time + high <= watermark:  # no partner can follow
                if first == behind and is_outer:
                    pairs.append((None, record) if side else (record, None))
                continue
            if own is None:
                own = keys[key] = _Kept(side)
            own.add(time, record, first < behind)
            kept += 1
            if time + high < own.due:
                self._wait(key, own, time + high)
        self.kept += kept
        return pairs

    def close(self, watermark: float) -> Iterator[Pair]:
        """The records that had no partner and can get none."""
        self._watermark = watermark = max(self._watermark, watermark)
        heap = self._heap
        while heap and heap[0][0] <= watermark:
            due, _, key, own = heappop(heap)
            if due == own.due:
                yield from self._drop(key, own)

    def snapshot(self, pickle: bool) -> KeyedState:
        """Of each key the watermark, and the records of both sides with their times."""
        watermark = None if self._watermark == NEVER else self._watermark

        def kept() -> Iterator[tuple[Any, Any]]:
            for key in self._keys[0] | self._keys[1]:
                sides = (list(of[key].rows()) if key in of else [] for of in self._keys)
                yield key, (watermark, *sides)

        return KeyedState.of(kept(), pickle=pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Restore the state; all tasks had the same watermark."""
        for found, (watermark, *of_sides) in pairs:
            if watermark is not None:
                self._watermark = max(self._watermark, watermark)
            key = dict_key(found)
            for side, rows in enumerate(of_sides):
                if rows:
                    own = self._keys[side][key] = _Kept(side)
                    for time, record, has_joined in rows:
                        own.add(time, record, has_joined)
                    self.kept += len(rows)
                    self._wait(key, own, own.times[0] + self._spans[side][1])

    def _drop(self, key: Any, own: "_Kept") -> Iterator[Pair]:
        high = self._spans[own.side][1]
        behind = bisect_right(own.times, self._watermark - high)
        if self._outer[own.side]:
            for record, has_joined in zip(own.records[:behind], own.joined, strict=False):
                if not has_joined:
                    yield (None, record) if own.side else (record, None)
        own.drop(behind)
        self.kept -= behind
        if own.times:
            self._wait(key, own, own.times[0] + high)
            return
        own.due = _NEVER_DUE
        del self._keys[own.side][key]

    def _wait(self, key: Any, own: "_Kept", due: int) -> None:
        """Have the heap tell when the first of them can go; what it knew before is void."""
        own.due = due
        heappush(self._heap, (due, next(self._numbers), key, own))


class _Kept:
    """The records of one key and side, in the order of their times."""

    __slots__ = ("due", "joined", "records", "side", "times")

    def __init__(self, side: int) -> None:
        self.side = side
        self.times: list[int] = []
        self.records: list[Any] = []
        self.joined = bytearray()
        """Whether each has had a partner; told of a side that is outer alone."""
        self.due: float = _NEVER_DUE
        """When the first of them can go."""

    def add(self, time: int, record: Any, has_joined: bool) -> None:
        times = self.times
        if not times or times[-1] <= time:
            times.append(time)
            self.records.append(record)
            self.joined.append(has_joined)
        else:
            at = bisect_right(times, time)
            times.insert(at, time)
            self.records.insert(at, record)
            self.joined.insert(at, has_joined)

    def drop(self, behind: int) -> None:
        """Let go of the first ones."""
        del self.times[:behind], self.records[:behind], self.joined[:behind]

    def rows(self) -> Iterator[tuple[int, Any, bool]]:
        return zip(self.times, self.records, map(bool, self.joined), strict=True)


_NEVER_DUE = float("inf")
_PLAIN = {str, int, bytes}
"""Types of keys that a dict finds again as they are."""
