"""`deduplicate`: the first or the last of a key's records that are near each other in time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from heapq import heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from engine.columns import is_columns
from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.watermark import START_OF_TIME, Watermark
from engine.state import KeyedState
from operators.changes.one_form import OneForm
from operators.durations import microseconds
from operators.event_time import LATE, GivesTime, TimeSelector, with_units_checked
from operators.keys import Key, key_meaning
from operators.order.rows import RecordRows

if TYPE_CHECKING:
    from operators.order.column_rows import ColumnRows

Keep: TypeAlias = Literal["first", "last"]


@dataclass(frozen=True)
class Deduplicate(BatchOperator, GivesTime):
    """Gives one record of each group; see `KeyedStream.deduplicate`."""

    key: Key
    paired: bool
    keep: Keep
    within: timedelta | None
    time: TimeSelector | None
    """Where the time is; without `within`, only later operators need it."""

    @property
    def given_time(self) -> TimeSelector | None:
        """Where it was."""
        return None if self.time is None else replace(self.time, paired=False)

    @property
    def properties(self) -> Properties:
        """It takes columns unless a function gives the time.

        Watermarks must not overtake what it holds back.
        """
        timed = self.within is not None and self.time is not None
        by_column = self.within is None or self.time is None or self.time.takes_columns
        return Properties(
            accepts_columns=by_column,
            outputs=(LATE,) if timed else (),
            makes_watermarks=self.keep == "last",
            meaning={
                "kind": "deduplicate",
                "key": key_meaning(self.key, self.paired),
                "keep": self.keep,
                "within": str(self.within),
                **(self.time.meaning if timed and self.time is not None else {}),
            },
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The groups of one task."""
        times = [] if self.within is None else [self.time]
        return with_units_checked(_Deduplicate(self, context), times, context)


class _Group:
    """Records of a key: the time of the one that opened it, and of the latest, which is held."""

    __slots__ = ("held", "latest", "start")

    def __init__(self, start: int, latest: int, held: Any) -> None:
        self.start = start
        self.latest = latest
        self.held = held


class _Deduplicate(BatchFunction):
    """The open groups of one task by key. The first batch decides whether it takes columns."""

    def __init__(self, operator: Deduplicate, context: TaskContext) -> None:
        self._operator = operator
        self._context = context
        self._holds = operator.keep == "last"
        self._send_late = context.side_outputs.get(LATE)
        within = operator.within
        self._within: float = math.inf if within is None else microseconds(within)
        self._watermark: float = -math.inf
        self._form = OneForm(operator.key)
        self._rows: RecordRows | ColumnRows | None = None
        self._groups: dict[int, list[_Group]] = {}
        """By key number, in the order in which keys came."""
        self._ends: list[tuple[float, int]] = []
        """When groups end, in order: a heap, with the numbers of their keys."""

    def process(self, batch: Any) -> Any:
        if not len(batch):
            return [] if self._holds else batch
        keeps_columns = self._rows.are_columns if self._rows is not None and self._groups else None
        batch = self._form.of(batch, keeps_columns=keeps_columns)
        rows = self._rows_of(is_columns(batch))
        numbers, times = rows.read(batch)
        opened, held, late = self._take(numbers, times)
        if late:
            self.late += len(late)
            if self._send_late is not None:
                self._send_late(rows.chosen(batch, late))
        if not self._holds:
            return rows.chosen(batch, opened)
        rows.hold(batch, held, self._all)
        return []

    def _take(
        self, numbers: list[int], times: Iterable[int]
    ) -> tuple[list[int], dict[_Group, int], list[int]]:
        """The places of rows that open groups; those that groups hold now; those of late rows."""
        groups, within, watermark, holds = (
            *(self._groups, self._within, self._watermark),
            self._holds,
        )
        opened, late = [], []
        held: dict[_Group, int] = {}
        for place, (number, time) in enumerate(zip(numbers, times, strict=True)):
            if time <= watermark:
                late.append(place)
                continue
            of_key = groups.get(number)
            if of_key is None:
                of_key = groups[number] = []
            for group in of_key:
                if -within < time - group.start < within:
                    break
            else:
                group = _Group(time, time, None)
                of_key.append(group)
                opened.append(place)
                self._end_later(number, group)
            if holds and time >= group.latest:
                group.latest = time
                held[group] = place
        return opened, held, late

    def _end_later(self, number: int, group: _Group) -> None:
        if self._within < math.inf:
            heappush(self._ends, (group.start + self._within, number))

    def on_watermark(self, watermark_us: int) -> Iterator[Any]:
        if self._within == math.inf:
            return
        self._watermark = watermark_us
        yield from self._given(self._ended(watermark_us))
        if self._rows is not None:
            self._rows.numbers.forget_others(len(self._groups), lambda: self._groups)
        if self._holds:
            self.watermark = Watermark(max(START_OF_TIME, watermark_us - int(self._within)))

    def on_idle(self) -> None:
        if self._holds:
            self.watermark = Watermark(None)

    def on_end(self) -> Iterator[Any]:
        ended = self._ended(math.inf)
        yield from self._given(ended)
        yield from self._given(self._all())

    def _ended(self, watermark: float) -> Iterator[_Group]:
        """Take out the groups to which no record can come any more."""
        while self._ends and self._ends[0][0] <= watermark + 1:
            end, number = heappop(self._ends)
            of_key = self._groups[number]
            if len(of_key) == 1:
                del self._groups[number]
                yield of_key[0]
            else:
                starts = [each.start + self._within for each in of_key]
                yield of_key.pop(starts.index(end))

    def _all(self) -> Iterator[_Group]:
        return chain.from_iterable(self._groups.values())

    def _given(self, ended: Iterator[_Group]) -> Iterator[Any]:
        """What these groups hold, in batches."""
        found: list[Any] = []
        for group in ended:
            if self._holds and self._rows is not None:
                found.append(group.held)
                if len(found) == self._context.batch_size:
                    yield self._rows.of(found)
                    found = []
        if found and self._rows is not None:
            yield self._rows.of(found)

    def metrics(self) -> Mapping[str, Any]:
        return {"state_records": len(self._groups)}

    def snapshot(self) -> KeyedState:
        if self._rows is None:
            return KeyedState.of(())
        groups = [
            (number, [(each.start, each.latest) for each in of_key], [each.held for each in of_key])
            for number, of_key in self._groups.items()
        ]
        return self._rows.kept(groups, holds=self._holds, pickle=self._context.pickle)

    def restore(self, state: KeyedState) -> None:
        rows = self._rows_of(bool(state.columns))
        for number, times, held in rows.restored(state, holds=self._holds):
            of_key = self._groups[number] = []
            for (start, latest), own in zip(times, held, strict=True):
                group = _Group(start, latest, own)
                of_key.append(group)
                self._end_later(number, group)

    def _rows_of(self, are_columns: bool) -> RecordRows | ColumnRows:
        if self._rows is None or are_columns != self._rows.are_columns:
            operator = self._operator
            time = None if operator.within is None else operator.time
            if are_columns:
                from operators.order.column_rows import ColumnRows

                self._rows = ColumnRows("deduplicate", operator.key, operator.paired, time)
            else:
                self._rows = RecordRows(operator.key, operator.paired, time, self._context)
        return self._rows


def check_keep(keep: object) -> None:
    """Raise `GraphError` unless it says which record to keep."""
    if keep not in get_args(Keep):
        raise GraphError(f"deduplicate() got keep={keep!r:.80}, expected 'first' or 'last'")
