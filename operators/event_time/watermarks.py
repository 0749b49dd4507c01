"""`with_event_time`: makes watermarks of the times in records."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.splits import ONLY, Split
from engine.graph.watermark import END_OF_TIME, START_OF_TIME, Watermark
from engine.state import KeyedState
from operators.durations import ZERO, check_duration, microseconds, nanoseconds
from operators.event_time.first_times import warn_of_unit
from operators.event_time.highest_time import HighestTime
from operators.event_time.idleness import Idleness
from operators.event_time.selector import GivesTime, TimeSelector

A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class WithEventTime(BatchOperator, GivesTime):
    """Passes records on, and makes watermarks of their times, as `Stream.with_event_time` says.

    A watermark says that all records behind it are later: it is `out_of_orderness` and a
    microsecond behind the highest time so far. It looks at the last record and some before it, so a
    watermark can only be too low.
    """

    selector: TimeSelector
    out_of_orderness: timedelta = ZERO
    idle_after: timedelta | None = None
    max_jump: timedelta | None = A_DAY
    max_drift: timedelta | None = None

    @property
    def given_time(self) -> TimeSelector:
        """Where it reads it."""
        return self.selector

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
            meaning={"kind": "event time", **self.selector.meaning},
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
    """Reads times as batches pass, and makes watermarks no more often than it must.

    Each split that the source reads has a highest time of its own; the least of them counts.
    """

    in_step = True

    def __init__(self, declared: WithEventTime, context: TaskContext) -> None:
        max_jump = declared.max_jump
        self._selector = declared.selector
        self._behind_us = microseconds(declared.out_of_orderness) + 1
        self._max_jump_us = None if max_jump is None else microseconds(max_jump)
        self._splits = context.splits
        self._times = context.splits.follow()
        self._highest: dict[Split, HighestTime] = {}
        """Of each split that has brought a record."""
        self._floor: list[int] = []
        """Where all splits go on at least; one, if any."""
        self._split = self._splits.current
        """That of the last batch."""
        self._here: HighestTime | None = None
        """Its highest time, where it is known."""
        self._disbelieved = 0
        """How many times of splits that have ended were not believed."""
        self._unseen: list[Any] = []
        """Batches of columns whose times nobody has waited for; all of the split of the last."""
        self._told: int | None = None
        """The highest time that a watermark was made of."""
        self._index = context.index
        self._name = context.task_name
        self._is_unit_checked = False
        """Whether the first time was looked at."""
        self._drift = context.drift
        self._failing = context.failing
        self._now_ns = context.now_ns
        self._next_ns = now_ns = context.now_ns()
        """Before this, no watermark is made."""
        self._idle_ns: int | None = None
        self._idleness: Idleness | None = None
        """Of the task."""
        self._silent: dict[Split, Idleness] = {}
        """Of splits that have brought nothing when they were asked."""
        if declared.idle_after is not None:
            self._idle_ns = nanoseconds(declared.idle_after)
            self._idleness = Idleness(self._idle_ns, now_ns)
            self.next_timer = self._idleness.due_ns

    def process(self, batch: Any) -> Any:
        now_ns, idleness = self._now_ns(), self._idleness
        if self._splits.current != self._split:
            self._see()
            self._go_to(self._splits.current)
        if not len(batch):
            self._on_nothing(now_ns)
            return batch
        is_due = now_ns >= self._next_ns
        if type(batch) is list:
            if self._unseen:
                self._see()
            self._see_times(self._times_of(batch))
        else:
            self._unseen.append(batch)
            if is_due or self._is_asked() or len(self._unseen) == _TOGETHER:
                self._see()
        if idleness is not None:
            if idleness.is_idle:  # all downstream are told that it goes on
                self._make(now_ns)
            idleness.on_records(now_ns)
            self._silent.pop(self._split, None)
        if self._drift is not None and self._times.least() is not None:
            self._drift.tell(self._watermark_us())
        if is_due and self._has_news():
            self._make(now_ns)
        self._set_timer()
        return batch

    def on_timer(self, now_ns: int) -> None:
        """Make the watermark that was held back, or tell that the stream is idle."""
        self._see()
        if self._has_news():
            self._make(now_ns)
        elif self._idleness is not None:
            if self._drift is not None and self._drift.has_held():
                self._idleness.on_records(now_ns)  # that was no wait for the source
            elif self._idleness.has_come(now_ns):
                self.watermark = Watermark(None)
                for split in self._splits.open:
                    self._times.leave_out(split)
                if self._drift is not None:
                    self._drift.tell(None)
        self._set_timer()

    def on_end(self) -> tuple[()]:
        """Nothing, but it refuses columns without times, however late they come."""
        self._see()
        return ()

    def snapshot(self) -> KeyedState | None:
        """The highest time of each split, with its share; of the only one, with the task."""
        self._see()
        own: dict[int, list[Any]] = {}
        for split in self._splits.open:
            share, name = split
            if split in self._highest and (highest := self._highest[split].value) is not None:
                if split == ONLY:
                    own[self._index] = [highest]
                else:
                    own.setdefault(share, []).append((share, name, highest))
        return KeyedState.of_shares(own) if own else None

    def restore(self, state: KeyedState) -> None:
        """Go on in each split where it was; in the only one, at the least of several times."""
        kept = list(chain.from_iterable(state.own))
        self._floor = sorted(each for each in kept if isinstance(each, int))[:1]
        if self._floor:
            self._go_to(ONLY)
            self._times.tell(ONLY, self._floor[0])
            self._of_split()
        for share, name, highest in (each for each in kept if not isinstance(each, int)):
            self._go_to((share, name))
            self._of_split().go_on_from(highest)
            self._times.tell(self._split, highest)

    def metrics(self) -> dict[str, Any]:
        """How many times were not believed."""
        known = list(self._highest.values())
        return {"disbelieved_times": self._disbelieved + sum(each.disbelieved for each in known)}

    def _on_nothing(self, now_ns: int) -> None:
        """Nothing came of a split; it may have ended."""
        if self._split not in self._splits.open and self._split in self._highest:
            self._disbelieved += self._highest.pop(self._split).disbelieved
            self._here = None
        elif self._idle_ns is not None and len(self._splits.open) > 1:
            silent = self._silent.setdefault(self._split, Idleness(self._idle_ns, now_ns))
            if silent.has_come(now_ns):
                self._times.leave_out(self._split)
        self._set_timer()

    def _is_asked(self) -> bool:
        """Whether others wait for the time of each batch, or it says which split comes next."""
        return (
            self._drift is not None
            or (self._idleness is not None and self._idleness.is_idle)
            or len(self._splits.open) > 1
        )

    def _see(self) -> None:
        """Look at the times of what has passed; those of several batches of columns at once."""
        unseen, self._unseen = self._unseen, []
        if len(unseen) > 1:
            top = self._selector.highest(unseen)
            if top is not None and self._of_split().believes(top):
                self._see_times([top])
                return
        for batch in unseen:
            self._see_times(self._times_of(batch))

    def _see_times(self, times: Sequence[int]) -> None:
        """Take in times of the split of the last batch."""
        highest = self._of_split()
        highest.see(times)
        if highest.value is not None:
            self._times.tell(self._split, highest.value)

    def _go_to(self, split: Split) -> None:
        self._split, self._here = split, self._highest.get(split)

    def _of_split(self) -> HighestTime:
        if self._here is None:
            self._here = self._highest[self._split] = HighestTime(self._max_jump_us)
            if self._floor:
                self._here.go_on_from(self._floor[0])
        return self._here

    def _times_of(self, batch: Any) -> Sequence[int]:
        """Some times of a batch, that of the last record among them; of columns, the highest.

        Where that is not believed, some of them, too.
        """
        if type(batch) is list:
            sample = _sample(batch)
            times = self._selector.all_microseconds(sample, self._failing)
            if not self._is_unit_checked:
                self._check_unit(self._selector.time(sample[0]), times[0])
            return times
        column, selector = self._selector.in_columns(batch)
        if not self._is_unit_checked:
            is_number = self._selector.is_number(batch)
            first = column[0].as_py() if is_number else None
            self._check_unit(first, 0 if first is None else selector.in_microseconds(first))
        numbers = column.to_numpy()
        top = selector.in_microseconds(numbers.max())  # a third of what PyArrow's takes
        if self._of_split().believes(top):
            return [top]
        return selector.all_microseconds(_sample(numbers).tolist())

    def _check_unit(self, time: Any, time_us: int) -> None:
        self._is_unit_checked = True
        warn_of_unit("with_event_time", self._name, time, time_us, self._selector.unit)

    def _has_news(self) -> bool:
        """Whether event time is further than was told: it never falls."""
        least = self._times.least()
        return least is not None and (self._told is None or least > self._told)

    def _make(self, now_ns: int) -> None:
        if self._has_news():
            self._told = self._times.least()
        self.watermark = Watermark(self._watermark_us())
        self._next_ns = now_ns + LEAST_GAP_NS

    def _watermark_us(self) -> int:
        """What the time that was told, or is to be, says of the records that follow."""
        least = self._times.least() if self._has_news() else self._told
        watermark_us = START_OF_TIME if least is None else least - self._behind_us
        return min(max(START_OF_TIME, watermark_us), END_OF_TIME - 1)

    def _set_timer(self) -> None:
        """For what is held back, and for the end of a wait."""
        due_ns = None if self._idleness is None else self._idleness.due_ns
        is_held = bool(self._unseen) or self._has_news()
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
