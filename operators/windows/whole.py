"""Aggregations of windows without a key, in two stages.

Each task computes what the records of its batches come to in each slice of time, and one task
merges these parts: windows of time merge slices anyway. Which records are late, that task alone can
say, since it has the watermark of all. Where a record is not late in its own task it is not late
there, whose watermark is no later. So a record that is late in its own task travels as it came, and
so do all from a task that was idle, since event time went on without it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from engine.columns import is_columns, packed, unpacked
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.watermark import END_OF_TIME, START_OF_TIME
from engine.network import Batch, KeyedEntries
from engine.state import KeyedState
from operators.event_time import GivesTime, TimeSelector, with_units_checked
from operators.event_time.in_rust import TimesForRust
from operators.windows.native import NativeWindows


@dataclass(frozen=True)
class WindowParts(BatchOperator):
    """Gives, of each batch, what its records come to in slices of time, and those that are late."""

    of_all: NativeWindows

    @property
    def properties(self) -> Properties:
        """It takes columns if the windows do."""
        return Properties(
            accepts_columns=self.of_all.properties.accepts_columns,
            functions=self.of_all.properties.functions,
            meaning={"kind": "parts of windows"},
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The function of one task."""
        return with_units_checked(_Parts(self, context), [self.of_all.windowing.time], context)


class _Parts(BatchFunction):
    """Keeps how far event time is here, and nothing of records."""

    def __init__(self, operator: WindowParts, context: TaskContext) -> None:
        of_all = operator.of_all
        self._pickle = context.pickle
        self._times = TimesForRust.of(of_all.windowing.time, context, "fail")
        self.native = None if self._times is None else self._times.native
        self._windows = of_all.aggregate(self._times, keeps_late=True)
        self._watermark_us = START_OF_TIME
        """No record that is in time by this is late in the other task."""

    def process(self, batch: Any) -> list[Any]:
        windows = self._windows
        windows.clear()
        columns = is_columns(batch)
        batch = Batch.from_columns(batch) if columns else Batch.from_list(batch, self._pickle)
        if self._times is None:
            windows.add(batch)
        else:
            self._times.add(windows, batch)
        layout, entries = windows.snapshot()
        kept = [entries[at] for at in range(len(entries))]
        found: list[Any] = [(_PART, layout, kept)] if kept else []
        for late in windows.take_late() if windows.late else ():
            if len(late):
                found.append((_COLUMNS, packed(late)) if is_columns(late) else (_RECORDS, late))
        return found

    def on_watermark(self, watermark_us: int) -> None:
        """Records that are late here from now on travel as they came."""
        self._watermark_us = max(self._watermark_us, watermark_us)
        self._windows.advance(self._watermark_us)

    def on_idle(self) -> None:
        """All records travel as they came from now on: others may be far ahead."""
        self.on_watermark(END_OF_TIME)

    def on_end(self) -> Iterable[Any]:
        """Others may go on, and take over what is left to read in another run."""
        self.on_watermark(END_OF_TIME)
        return ()

    def snapshot(self) -> KeyedState:
        """How far event time is, which is no less than in the other task."""
        return KeyedState.of((), shared=self._watermark_us)

    def restore(self, state: KeyedState) -> None:
        """Go on there."""
        if state.shared is not None:
            self.on_watermark(state.shared)


@dataclass(frozen=True)
class WholeWindows(BatchOperator, GivesTime):
    """Merges such parts, in one task, and gives the windows as `NativeWindows` does."""

    of_all: NativeWindows

    @property
    def given_time(self) -> TimeSelector | None:
        """The selector of results' time."""
        return self.of_all.given_time

    @property
    def properties(self) -> Properties:
        """Those of the same in one stage."""
        return replace(self.of_all.properties, accepts_encoded=False)

    def open(self, context: TaskContext) -> BatchFunction:
        """The native function, to which parts come."""
        windows = _Merged(self.of_all.in_task(context), context)
        return self.of_all.function(windows, context)


class _Merged:
    """Windows in Rust that take parts, and late records as they came."""

    def __init__(self, windows: Any, context: TaskContext) -> None:
        self._windows = windows
        self._pickle = context.pickle

    def add(self, batch: list[Any]) -> None:
        """Take them in, in their order."""
        for kind, *told in batch:
            if kind == _PART:
                layout, kept = told
                self._windows.merge(layout, KeyedEntries(kept))
            elif kind == _COLUMNS:
                self._windows.add(Batch.from_columns(unpacked(told[0])))
            else:
                self._windows.add(Batch.from_list(told[0], self._pickle))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._windows, name)


_PART, _RECORDS, _COLUMNS = range(3)
"""What follows: the layout and the entries of a part, or late records, or packed columns."""
