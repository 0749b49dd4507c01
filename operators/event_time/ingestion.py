"""`with_ingestion_time`: the time of a record is that of its arrival."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

from engine.columns import is_columns
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
    """Makes pairs of records and the time, or a column, as `Stream.with_ingestion_time` says.

    No record has an earlier time than the one before it. So a watermark is a microsecond behind the
    last time, and goes on by itself without records.
    """

    column: str | None = None
    """The name of the column; None where records come."""

    @property
    def given_time(self) -> TimeSelector:
        """Times stand behind the records, or in the column."""
        return TimeSelector(1 if self.column is None else self.column)

    @property
    def properties(self) -> Properties:
        """It gives pairs, or columns, in the tasks of the source."""
        is_column = self.column is not None
        return Properties(
            makes_watermarks=True,
            beside_source=True,
            emits_pairs=not is_column,
            accepts_columns=is_column,
            meaning={"kind": "ingestion time", **({"column": self.column} if is_column else {})},
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The function of one task."""
        if self.column is None:
            return _IngestionTime(context)
        return _IngestionColumn(context, self.column)


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


class _IngestionColumn(_IngestionTime):
    """Puts the time into a column of its own."""

    def __init__(self, context: TaskContext, column: str) -> None:
        super().__init__(context)
        self._column = column

    def process(self, batch: Any) -> Any:
        if not is_columns(batch):
            if not batch:
                return batch
            raise TypeError(
                f"with_ingestion_time({self._column!r}) got records, expected columns\n\n"
                "hint: .with_ingestion_time() makes pairs of a record and its time"
            )
        import pyarrow as pa

        now_ns = self._now_ns()
        time_us = self._look(now_ns)
        if now_ns >= self._next_ns:
            self._make(now_ns)
        if self._column in batch.schema.names:
            raise ValueError(
                f"with_ingestion_time({self._column!r}) got columns of which one has that name "
                f"({', '.join(batch.schema.names)}), expected another name"
            )
        times = pa.repeat(pa.scalar(time_us, pa.timestamp("us", "UTC")), len(batch))
        return batch.append_column(self._column, times)


_MOST_GAP_NS = 20_000_000
"""The interval of watermarks without records."""
