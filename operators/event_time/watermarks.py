"""`with_event_time`: makes watermarks of the times in records."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from engine.graph.operator import (
    END_OF_TIME,
    START_OF_TIME,
    BatchFunction,
    BatchOperator,
    Properties,
    TaskContext,
    Watermark,
)
from engine.state import KeyedState
from operators.durations import ZERO, check_duration, microseconds, nanoseconds
from operators.event_time.highest_time import HighestTime
from operators.event_time.idleness import Idleness
from operators.event_time.selector import TimeSelector

A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class WithEventTime(BatchOperator):
    """Passes records on, and makes watermarks of their times, as `Stream.with_event_time` says.

    A watermark says that all records behind it are later: it is `out_of_orderness` and a
    microsecond behind the highest time so far. That is looked for in the last record and some of
    those before it, which makes a watermark lower at most.
    """

    selector: TimeSelector
    out_of_orderness: timedelta = ZERO
    idle_after: timedelta | None = None
    max_jump: timedelta | None = A_DAY
    max_drift: timedelta | None = None

    @property
    def properties(self) -> Properties:
        """Columns are taken where the time is one of them."""
        named = self.selector.item is not None and not callable(self.selector.item)
        hint = None if named else "name the column of the times: .with_event_time({column!r})"
        return Properties(
            accepts_columns=named,
            makes_watermarks=True,
            beside_source=self.idle_after is not None or self.max_drift is not None,
            max_drift_us=None if self.max_drift is None else microseconds(self.max_drift),
            columns_hint=hint,
        )

    def __post_init__(self) -> None:
        """Raises GraphError for a duration that is none."""
        check_duration("out_of_orderness", self.out_of_orderness, ZERO)
        if self.idle_after is not None:
            check_duration("idle_after", self.idle_after, timedelta(milliseconds=1))
        if self.max_jump is not None:
            check_duration("max_jump", self.max_jump, ZERO)
        if self.max_drift is not None:
            check_duration("max_drift", self.max_drift, timedelta(milliseconds=1))

    def open(self, context: TaskContext) -> BatchFunction:
        """The function of one task."""
        return _Watermarks(self, context)


class _Watermarks(BatchFunction):
    """Reads times as batches pass, and tells no more often than it must how far they have come."""

    def __init__(self, declared: WithEventTime, context: TaskContext) -> None:
        max_jump = declared.max_jump
        self._selector = declared.selector
        self._behind_us = microseconds(declared.out_of_orderness) + 1
        self._highest = HighestTime(None if max_jump is None else microseconds(max_jump))
        self._unseen: list[Any] = []
        """Batches of columns whose times nobody has waited for."""
        self._told: int | None = None
        """The highest time that a watermark was made of."""
        self._index = context.index
        self._drift = context.drift
        self._failing = context.failing
        self._now_ns = context.now_ns
        self._next_ns = now_ns = context.now_ns()
        """Before this, no watermark is made."""
        self._idleness: Idleness | None = None
        if declared.idle_after is not None:
            self._idleness = Idleness(nanoseconds(declared.idle_after), now_ns)
            self.next_timer = self._idleness.due_ns

    def process(self, batch: Any) -> Any:
        if not len(batch):
            return batch
        now_ns, idleness = self._now_ns(), self._idleness
        is_due = now_ns >= self._next_ns
        if type(batch) is list:
            if self._unseen:
                self._see()
            self._highest.see(self._times(batch))
        else:
            self._unseen.append(batch)
            if is_due or self._is_asked() or len(self._unseen) == _TOGETHER:
                self._see()
        if idleness is not None:
            if idleness.is_idle:  # all downstream are told that it goes on
                self._make(now_ns)
            idleness.on_records(now_ns)
        if self._drift is not None and self._highest.value is not None:
            self._drift.tell(self._watermark_us())
        if is_due and self._highest.value != self._told:
            self._make(now_ns)
        self._set_timer()
        return batch

    def on_timer(self, now_ns: int) -> None:
        """Tell what was held back, or that the stream is idle."""
        self._see()
        if self._highest.value != self._told:
            self._make(now_ns)
        elif self._idleness is not None:
            if self._drift is not None and self._drift.has_held():
                self._idleness.on_records(now_ns)  # that was no wait for the source
            elif self._idleness.has_come(now_ns):
                self.watermark = Watermark(None)
                if self._drift is not None:
                    self._drift.tell(None)
        self._set_timer()

    def on_end(self) -> tuple[()]:
        """Nothing; but columns without times are refused, however late they come."""
        self._see()
        return ()

    def snapshot(self) -> KeyedState | None:
        """The highest time."""
        self._see()
        highest = self._highest.value
        return None if highest is None else KeyedState.of((), own=(self._index, [highest]))

    def restore(self, state: KeyedState) -> None:
        """Go on with the least of the highest times: later ones come again, if they were there."""
        if state.own:
            self._highest.see([min(chain.from_iterable(state.own))])

    def metrics(self) -> dict[str, Any]:
        """What was not believed."""
        return {"disbelieved_times": self._highest.disbelieved}

    def _is_asked(self) -> bool:
        """Whether others wait for the time of each batch."""
        return self._drift is not None or (self._idleness is not None and self._idleness.is_idle)

    def _see(self) -> None:
        """Look at the times of what has passed; those of several batches of columns at once."""
        unseen, self._unseen = self._unseen, []
        if len(unseen) > 1:
            top = self._selector.highest(unseen)
            if top is not None and self._highest.believes(top):
                self._highest.see([top])
                return
        for batch in unseen:
            self._highest.see(self._times(batch))

    def _times(self, batch: Any) -> Sequence[int]:
        """Some times of a batch, that of the last record among them; of columns, the highest.

        Where that is not believed, some of them, too.
        """
        if type(batch) is list:
            return self._selector.all_microseconds(_sample(batch), self._failing)
        column, selector = self._selector.column(batch)
        numbers = column.to_numpy()
        top = selector.in_microseconds(numbers.max())  # a third of what PyArrow's takes
        if self._highest.believes(top):
            return [top]
        return selector.all_microseconds(_sample(numbers).tolist())

    def _make(self, now_ns: int) -> None:
        self._told = self._highest.value
        self.watermark = Watermark(self._watermark_us())
        self._next_ns = now_ns + LEAST_GAP_NS

    def _watermark_us(self) -> int:
        highest = self._highest.value
        watermark_us = START_OF_TIME if highest is None else highest - self._behind_us
        return min(max(START_OF_TIME, watermark_us), END_OF_TIME - 1)

    def _set_timer(self) -> None:
        """For what is held back, and for the end of a wait."""
        due_ns = None if self._idleness is None else self._idleness.due_ns
        is_held = bool(self._unseen) or self._highest.value != self._told
        if is_held and (due_ns is None or self._next_ns < due_ns):
            due_ns = self._next_ns
        self.next_timer = due_ns


def _sample(batch: Any) -> Any:
    """Some elements of a list or an array, in order, with the last of them."""
    step = min(1 + len(batch) // _SAMPLES, _EVERY)
    return batch[(len(batch) - 1) % step :: step] if step > 1 else batch


_SAMPLES = 16
"""Of so many records of a batch, the time is read: it takes some microseconds."""
_EVERY = 64
"""And of one in so many at least."""
_TOGETHER = 16
"""Batches of columns are looked at together, while they are still in a cache of the processor."""
LEAST_GAP_NS = 2_000_000
"""Between two watermarks: each goes over every channel, and ends a batch there."""
