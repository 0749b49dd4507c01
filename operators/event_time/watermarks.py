"""`with_event_time`: makes watermarks from the times in records."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from engine.columns import Rows, import_pyarrow, is_columns, rows
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.splits import ONLY, Split
from engine.graph.watermark import END_OF_TIME, START_OF_TIME, Watermark
from engine.network import Batch, take_rows
from engine.state import KeyedState
from operators.durations import ZERO, check_duration, microseconds, nanoseconds
from operators.event_time.first_times import warn_of_unit
from operators.event_time.highest_time import HighestTime
from operators.event_time.idleness import Idleness
from operators.event_time.selector import GivesTime, TimeSelector

A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class WithEventTime(BatchOperator, GivesTime):
    """Passes records on, and makes watermarks from their times, as `Stream.with_event_time` says.

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
        """The selector of the time."""
        return self.selector

    @property
    def properties(self) -> Properties:
        """It takes whatever comes, and looks at some dicts of columns without a column of times."""
        return Properties(
            accepts_batches=True,
            accepts_columns=True,
            accepts_rows=True,
            emits_encoded=True,
            emits_rows=True,
            makes_watermarks=True,
            beside_source=self.idle_after is not None or self.max_drift is not None,
            max_drift_us=None if self.max_drift is None else microseconds(self.max_drift),
            meaning={"kind": "event time", **self.selector.meaning},
        )

    def __post_init__(self) -> None:
        """Raise GraphError for invalid durations."""
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
    """Reads times as batches pass, and makes as few watermarks as it can.

    Each split that the source reads has a highest time of its own; the least of them counts.
    """

    in_step = takes_nothing = True

    def __init__(self, declared: WithEventTime, context: TaskContext) -> None:
        max_jump = declared.max_jump
        self._selector = declared.selector
        self._is_named = declared.selector.item is not None and declared.selector.takes_columns
        """Whether columns have a column of times."""
        self._behind_us = microseconds(declared.out_of_orderness) + 1
        self._max_jump_us = None if max_jump is None else microseconds(max_jump)
        self._splits = context.splits
        self._times = context.splits.follow()
        self._highest: dict[Split, HighestTime] = {}
        """The highest time of each split that has brought a record."""
        self._floor: list[int] = []
        """The restored time at which all splits go on at least, if any."""
        self._split = self._splits.current
        """The split of the last batch."""
        self._here: HighestTime | None = None
        """Its highest time, if known."""
        self._disbelieved = 0
        """The number of times of ended splits that were not believed."""
        self._unseen: list[Any] = []
        """Batches of columns whose times were not read yet; all are of the last batch's split."""
        self._told: int | None = None
        """The highest time of which a watermark was made."""
        self._index = context.index
        self._name = context.task_name
        self._is_unit_checked = False
        """Whether the first time was checked."""
        self._is_resting = False
        """Whether event time goes on without this task."""
        self._drift = context.drift
        self._failing = context.failing
        self._now_ns = context.now_ns
        self._next_ns = now_ns = context.now_ns()
        """The earliest time of the next watermark."""
        self._idle_ns: int | None = None
        self._idleness: Idleness | None = None
        """Of the task."""
        self._silent: dict[Split, Idleness] = {}
        """The idleness of splits without records."""
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
        if type(batch) is Batch and batch.has_columns:
            batch = batch.decode()
        is_due = now_ns >= self._next_ns
        if not (self._is_named and is_columns(batch)):
            if self._unseen:
                self._see()
            self._see_times(self._times_of(batch))
        else:
            self._unseen.append(batch)
            if is_due or self._is_asked() or len(self._unseen) == _TOGETHER:
                self._see()
        if self._is_resting:  # downstream learns that the stream goes on
            self._make(now_ns)
        if idleness is not None:
            idleness.on_records(now_ns)
            self._silent.pop(self._split, None)
        if self._drift is not None and self._times.least() is not None:
            self._drift.tell(self._watermark_us())
        if is_due and self._has_news():
            self._make(now_ns)
        self._set_timer()
        return batch

    def on_timer(self, now_ns: int) -> None:
        """Make the watermark that was held back, or report that the stream is idle."""
        self._see()
        if self._idleness is not None and not self._has_news():
            if self._drift is not None and self._drift.has_held():
                self._idleness.on_records(now_ns)  # the task did not wait for the source
            elif self._idleness.has_come(now_ns):
                for split in self._splits.open:
                    if split not in self._highest:  # the others' records are not held up for it
                        self._times.leave_out(split)
        if self._has_news():
            self._make(now_ns)
        elif self._is_idle_untold():
            self._rest()
            for split in self._splits.open:
                self._times.leave_out(split)
        self._set_timer()

    def on_end(self) -> tuple[()]:
        """The end gives nothing, but refuses columns without times, however late they come."""
        self._see()
        return ()

    def snapshot(self) -> KeyedState | None:
        """The highest time of each split, by its share; of a single split, by the task."""
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
        """Restore the time of each split; a single split gets the least of several times."""
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
        """The number of times that were not believed."""
        known = list(self._highest.values())
        return {"disbelieved_times": self._disbelieved + sum(each.disbelieved for each in known)}

    def _on_nothing(self, now_ns: int) -> None:
        """Handle a split without records; it may have ended."""
        if self._split not in self._splits.open and self._split in self._highest:
            self._disbelieved += self._highest.pop(self._split).disbelieved
            self._here = None
        elif self._idle_ns is not None and len(self._splits.open) > 1:
            silent = self._silent.setdefault(self._split, Idleness(self._idle_ns, now_ns))
            if silent.has_come(now_ns):
                self._times.leave_out(self._split)
        if not self._splits.open and not self._is_resting:
            self._rest()  # nothing can come, until there is another split
        self._set_timer()

    def _is_idle_untold(self) -> bool:
        return self._idleness is not None and self._idleness.is_idle and not self._is_resting

    def _rest(self) -> None:
        """Let event time go on elsewhere without this task."""
        self.watermark = Watermark(None)
        self._is_resting = True
        if self._drift is not None:
            self._drift.tell(None)

    def _is_asked(self) -> bool:
        """Whether each batch's time is needed at once, by others or to choose the next split."""
        return self._drift is not None or self._is_resting or len(self._splits.open) > 1

    def _see(self) -> None:
        """Read the times of passed batches; those of several batches of columns at once."""
        unseen, self._unseen = self._unseen, []
        if len(unseen) > 1:
            top = self._selector.highest(unseen)
            if top is not None and self._of_split().believes(top):
                self._see_times([top])
                return
        for batch in unseen:
            self._see_times(self._times_of(batch))

    def _see_times(self, times: Sequence[int]) -> None:
        """Add times of the last batch's split."""
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
        """Some times of a batch, including the last record's; of columns, the highest.

        If that is not believed, it gives some others, too.
        """
        if not (self._is_named and is_columns(batch)):
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
        top = selector.in_microseconds(numbers.max())  # takes a third of PyArrow's time
        if self._of_split().believes(top):
            return [top]
        return selector.all_microseconds(_sample(numbers).tolist())

    def _check_unit(self, time: Any, time_us: int) -> None:
        self._is_unit_checked = True
        warn_of_unit("with_event_time", self._name, time, time_us, self._selector.unit)

    def _has_news(self) -> bool:
        """Whether event time has risen since the last watermark; it never falls."""
        least = self._times.least()
        return least is not None and (self._told is None or least > self._told)

    def _make(self, now_ns: int) -> None:
        if self._has_news():
            self._told = self._times.least()
        self.watermark = Watermark(self._watermark_us())
        self._is_resting = False
        self._next_ns = now_ns + LEAST_GAP_NS

    def _watermark_us(self) -> int:
        """The watermark of the highest time."""
        least = self._times.least() if self._has_news() else self._told
        watermark_us = START_OF_TIME if least is None else least - self._behind_us
        return min(max(START_OF_TIME, watermark_us), END_OF_TIME - 1)

    def _set_timer(self) -> None:
        """Set the timer for a watermark that is held back, and for the end of a wait."""
        due_ns = None if self._idleness is None else self._idleness.due_ns
        is_held = bool(self._unseen) or self._has_news() or self._is_idle_untold()
        if is_held and (due_ns is None or self._next_ns < due_ns):
            due_ns = self._next_ns
        self.next_timer = due_ns


def _sample(batch: Any) -> Any:
    """Some elements of a list or an array, encoded records, or dicts of columns, in order.

    The last is among them.
    """
    step = min(1 + len(batch) // _SAMPLES, _EVERY)
    first = (len(batch) - 1) % step
    if type(batch) is Batch:
        return batch.each(first, step)
    batch = batch.columns if type(batch) is Rows else batch
    if is_columns(batch):
        places = range(first, len(batch), step)
        pyarrow = import_pyarrow("a stream of columns")
        return rows(take_rows(batch, pyarrow.array(places, "int64")))
    return batch[first::step] if step > 1 else batch


_SAMPLES = 16
"""The number of records of a batch whose time is read, in some microseconds."""
_EVERY = 64
"""At least one record in this number is read."""
_TOGETHER = 16
"""The number of batches of columns that are read together, while they are still in a cache."""
LEAST_GAP_NS = 2_000_000
"""Seconds between two watermarks: each crosses every channel, and ends a batch there."""
