"""Temporal joins: a record of a stream with the version of a table that was there at its time."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any

from engine.graph.context import TaskContext
from engine.state import KeyedState
from operators.joins.function import AT_THE_END, NEVER, ColumnState, Join, JoinState, Pair
from operators.keys import NONE, found_again


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Joins a record of the left at t with the newest one of the right of its key, up to t."""

    name = "temporal_join"

    def watermark_of_results(self, watermark_us: int) -> int:
        """The same: a record waits for it."""
        return watermark_us

    def of_records(self, context: TaskContext) -> JoinState:
        """Lists by key."""
        return Versions(self, context)

    def of_columns(self, _context: TaskContext) -> ColumnState:
        """Chunks of rows."""
        from operators.joins.temporal_columns import VersionColumns

        return VersionColumns(self)


class Versions:
    """The records of one task that wait for the watermark, and the table; see `JoinState`.

    A record waits until no version can follow that is not newer. One that is at the watermark or
    behind it is late: versions of then may be gone. Of those up to the watermark, the newest of
    each key is kept; a version that comes late is the table's from then on, if none is newer.
    """

    def __init__(self, operator: TemporalJoin, context: TaskContext) -> None:
        joining = operator.joining
        self.kept = 0
        self.late: list[Any] = []
        self._inputs = joining.inputs
        self._is_left_outer = joining.outer[0]
        self._failing = context.failing
        self._watermark = NEVER
        self._keys: dict[Any, _OfKey] = {}
        self._heap: list[tuple[int, int, Any, _OfKey]] = []
        self._numbers = count()

    def add(self, side: int, batch: list[Any]) -> list[Pair]:
        """Take records or versions; they give no result until the watermark reaches them."""
        for time, key, record in self._inputs[side].rows(batch, self._failing):
            if not side and time <= self._watermark:
                self.late.append(record)
                continue
            key, of = self._begin(key)
            of.add(side, time, record)
            self.kept += 1
            if time <= self._watermark:  # it is a version
                self._drop_old(of)
            else:
                self._wait(key, of, time)
        return []

    def close(self, watermark: float) -> Iterator[Pair]:
        """The records that the watermark has reached, with their versions."""
        self._watermark = watermark = max(self._watermark, watermark)
        heap = self._heap
        while heap and heap[0][0] <= watermark:
            due, _, key, of = heappop(heap)
            if due == of.due:
                of.due = _NEVER_DUE
                yield from self._joined(of)
                self._drop_old(of)
                if (following := of.next_time(watermark)) is not None:
                    self._wait(key, of, following)
                elif not of.versions[0]:
                    del self._keys[key]
        if watermark == AT_THE_END:
            self._keys, self.kept = {}, 0

    def snapshot(self, pickle: bool) -> KeyedState:
        """Of each key the watermark, its records and its versions, with their times."""
        watermark = None if self._watermark == NEVER else self._watermark
        kept = ((key, (watermark, *of.rows())) for key, of in self._keys.items())
        return KeyedState.of(kept, pickle=pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Restore the state; all tasks had the same watermark."""
        for key, (watermark, *of_sides) in pairs:
            if watermark is not None:
                self._watermark = max(self._watermark, watermark)
            key, of = self._begin(key)
            for side, rows in enumerate(of_sides):
                for time, record in rows:
                    of.add(side, time, record)
                self.kept += len(rows)
            if (following := of.next_time(self._watermark)) is not None:
                self._wait(key, of, following)

    def _begin(self, key: Any) -> tuple[Any, "_OfKey"]:
        """The key as a dict finds it, and what is kept of it."""
        key, of = found_again(key, self._keys)
        if of is NONE:
            of = self._keys[key] = _OfKey()
        return key, of

    def _wait(self, key: Any, of: "_OfKey", due: int) -> None:
        """Have the heap tell when there is something to do, unless it tells that earlier."""
        if due < of.due:
            of.due = due
            heappush(self._heap, (due, next(self._numbers), key, of))

    def _joined(self, of: "_OfKey") -> Iterator[Pair]:
        """The records that are due, with their versions."""
        times, records = of.waiting
        behind = bisect_right(times, self._watermark)
        version_times, versions = of.versions
        for time, record in zip(times[:behind], records, strict=False):
            place = bisect_right(version_times, time)
            if place:
                yield record, versions[place - 1]
            elif self._is_left_outer:
                yield record, None
        del times[:behind], records[:behind]
        self.kept -= behind

    def _drop_old(self, of: "_OfKey") -> None:
        """Drop versions before the newest one that the watermark has reached."""
        times, versions = of.versions
        old = bisect_right(times, self._watermark) - 1
        if old > 0:
            del times[:old], versions[:old]
            self.kept -= old


class _OfKey:
    """Records of one key that wait, and its versions: each the times, in order, and the records."""

    __slots__ = ("due", "versions", "waiting")

    def __init__(self) -> None:
        self.waiting: tuple[list[int], list[Any]] = ([], [])
        self.versions: tuple[list[int], list[Any]] = ([], [])
        self.due: float = _NEVER_DUE
        """When there is something to do with them."""

    def add(self, side: int, time: int, record: Any) -> None:
        times, records = self.versions if side else self.waiting
        at = bisect_right(times, time)
        times.insert(at, time)
        records.insert(at, record)

    def rows(self) -> Iterator[list[tuple[int, Any]]]:
        """Of both, the records with their times."""
        return (list(zip(*each, strict=True)) for each in (self.waiting, self.versions))

    def next_time(self, watermark: float) -> int | None:
        """The time behind the watermark at which one is due, or a version gets old."""
        times = self.versions[0]
        at = bisect_right(times, watermark)
        found = [*self.waiting[0][:1], *times[at : at + 1]]
        return min(found, default=None)


_NEVER_DUE = float("inf")
