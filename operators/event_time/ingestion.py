"""`with_ingestion_time`: the time of a record is that of its arrival."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.watermark import START_OF_TIME, Watermark
from engine.network import Paired
from engine.state import KeyedState
from operators.event_time.highest_time import wall_clock_us
from operators.event_time.selector import GivesTime, TimeSelector
from operators.event_time.watermarks import LEAST_GAP_NS


@dataclass(frozen=True)
class WithIngestionTime(BatchOperator, GivesTime):
    """Makes pairs of records and the time, as `Stream.with_ingestion_time` says.

    No record has an earlier time than the one before it. So a watermark is a microsecond behind the
    last time, and goes on by itself without records.
    """

    @property
    def given_time(self) -> TimeSelector:
        """Times stand behind the records."""
        return TimeSelector(1)

    @property
    def properties(self) -> Properties:
        """It gives pairs, in the tasks of the source."""
        hint = "add a column of times in .map_batches(...), then .with_event_time(...)"
        return Properties(
            makes_watermarks=True,
            beside_source=True,
            emits_pairs=True,
            columns_hint=hint,
            meaning={"kind": "ingestion time"},
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The function of one task."""
        return _IngestionTime(context)


class _IngestionTime(BatchFunction):
    """Looks at the clock once for each batch."""

    def __init__(self, context: TaskContext) -> None:
        self._now_ns = context.now_ns
        self._index = context.index
        now_ns = context.now_ns()
        self._ahead_us = wall_clock_us() - now_ns // 1000
        """The offset from the task's clock, which never goes back, to the wall clock."""
        self._time_us = START_OF_TIME
        """The last time that was given."""
        self._next_ns = self.next_timer = now_ns
        """The earliest time of the next watermark."""

    def process(self, batch: list[Any]) -> Any:
        if not batch:
            return batch
        now_ns = self._now_ns()
        time_us = self._look(now_ns)
        if now_ns >= self._next_ns:
            self._make(now_ns)
        return Paired(batch, time_us)

    def on_timer(self, now_ns: int) -> None:
        """Make a watermark although no record comes."""
        self._look(now_ns)
        self._make(now_ns)

    def snapshot(self) -> KeyedState:
        """The last time."""
        return KeyedState.of((), own=(self._index, [self._time_us]))

    def restore(self, state: KeyedState) -> None:
        """Restore the highest time: another machine's clock may be behind."""
        self._time_us = max(chain.from_iterable(state.own), default=START_OF_TIME)

    def _look(self, now_ns: int) -> int:
        self._time_us = max(self._time_us, now_ns // 1000 + self._ahead_us)
        return self._time_us

    def _make(self, now_ns: int) -> None:
        self.watermark = Watermark(self._time_us - 1)
        self._next_ns = now_ns + LEAST_GAP_NS
        self.next_timer = now_ns + _MOST_GAP_NS


_MOST_GAP_NS = 20_000_000
"""The interval of watermarks without records."""
