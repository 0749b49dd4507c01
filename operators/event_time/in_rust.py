"""Event time in Rust: where times are, those that Python has to read, what aggregates are told."""

from collections.abc import Iterator
from typing import Any

from engine.expression.attempts import Attempts
from engine.graph.batch_operator import BatchFunction, NativeFigures
from engine.graph.context import TaskContext
from engine.graph.operator import OnError
from engine.graph.watermark import END_OF_TIME
from engine.network import Batch, EncodeError
from engine.state import KeyedState
from engine.task.compared import NativeDiffers, check_alike
from operators.event_time.late import LATE
from operators.event_time.lifted import LiftedTime
from operators.event_time.selector import FARTHEST_US, TimeSelector
from operators.keys import Item


def path_to_time(selector: TimeSelector | None) -> tuple[list[Item], str | None, Item | None, int]:
    """The path to the time, or to the record if a function finds it, and its unit.

    Then the column of times, if the path is none of columns, and how far the time is before it.
    """
    if selector is None:
        return [], None, None, 0
    item, unit = selector.item, selector.unit
    found = [] if item is None or callable(item) else [item]
    if selector.in_front:
        found = [0, *found]
    path = [1, *found] if selector.paired else found
    column: Item | None = selector.column
    if column is None and selector.in_front and not callable(item):
        column = item
    return path, None if callable(item) else unit, column, selector.before_us


class TimesForRust:
    """Times for Rust: those that are no numbers, and the form of times in results.

    Where a function finds the time, and is understood, Rust calls it as an expression.
    """

    def __init__(self, selector: TimeSelector, context: TaskContext, on_error: OnError) -> None:
        self._selector = selector
        self.like = selector.like
        self._attempts = Attempts()
        answers_requests = context.rescue is not None and on_error == "fail"
        is_off = context.native == "off" or answers_requests
        self._lifted = None if is_off else LiftedTime.of(selector)
        self.native = None if self._lifted is None else NativeFigures()
        """How often that has found a time."""
        self._checks = context.native == "check"
        self._differs: NativeDiffers | None = None
        is_called = self._lifted is not None and not self._checks
        self.function = self._lifted.function if self._lifted and is_called else None
        """What Rust calls before it asks here."""

    @classmethod
    def of(
        cls, selector: TimeSelector | None, context: TaskContext, on_error: OnError
    ) -> "TimesForRust | None":
        """None if there are no times."""
        return None if selector is None else cls(selector, context, on_error)

    def add(self, aggregate: Any, batch: Any) -> None:
        """Have the aggregate take in a batch."""
        lifted, native = self._lifted, self.native
        if lifted is None or native is None:
            aggregate.add(batch)
            return
        lifted.function.run(self._attempts.is_due() and lifted.holds())
        aggregate.add(batch)
        if self._differs is not None:
            raise self._differs
        calls, reason = lifted.function.figures()
        native.native += calls
        if reason is not None:
            native.fell_back(reason)
        if calls or reason is not None:
            self._attempts.note(gave_up=reason is not None)

    def microseconds(self, found: Any) -> int:
        """The microseconds of the value that Rust found. ValueError if it is too far away."""
        time = self._time(found)
        if self._checks and self._lifted is not None:
            self._check(found, time)
        return self.microseconds_of_value(time)

    def microseconds_of_value(self, time: Any) -> int:
        """The microseconds of a time. ValueError if it is too far away."""
        time_us = self._selector.in_microseconds(time)
        if abs(time_us) > FARTHEST_US:
            raise ValueError(
                "its time is more than 146,000 years from 1970\n\n"
                "hint: say what numbers count by unit=..., or compute the time by a function"
            )
        return time_us

    def form(self, found: Any) -> Any:
        """The start of 1970, in the form of this time."""
        return self.like(self._time(found))(0)

    def _time(self, found: Any) -> Any:
        item = self._selector.item
        return item(found) if callable(item) else found

    def _check(self, found: Any, time: Any) -> None:
        """Keep that the lifted function gives another time of this record, if it does."""
        assert self._lifted is not None
        try:
            given = self._lifted.function.of(Batch.from_list([found], pickle=True))
        except EncodeError:
            return
        if given is not None:
            try:
                check_alike([given[0]], [time], [found], str(self._selector))
            except NativeDiffers as error:
                self._differs = error


class TimedFunction(BatchFunction):
    """Brings records and watermarks to an aggregate in Rust, and late records to their output."""

    def __init__(self, aggregate: Any, context: TaskContext, *, paired: bool) -> None:
        """`paired` says whether pairs of a key and a record come; a late record goes on alone."""
        self._aggregate = aggregate
        self._context = context
        self._paired = paired
        self._send_late = context.side_outputs.get(LATE)
        self._times: TimesForRust | None = aggregate.times
        self.native = None if self._times is None else self._times.native

    def on_watermark(self, watermark_us: int) -> Iterator[Any]:
        """What is complete now."""
        return self._complete(watermark_us)

    def on_end(self) -> Iterator[Any]:
        """All that is left."""
        return self._complete(END_OF_TIME)

    def snapshot(self) -> KeyedState:
        """What the aggregate keeps."""
        columns, entries = self._aggregate.snapshot()
        return KeyedState(entries, columns)

    def _add(self, batch: Any) -> None:
        if self._times is None:
            self._aggregate.add(batch)
        else:
            self._times.add(self._aggregate, batch)
        late = self._aggregate.late
        if late != self.late:
            self.late = late
            if self._send_late is not None:
                for records in self._aggregate.take_late():
                    self._send_late([record for _, record in records] if self._paired else records)

    def _complete(self, watermark_us: int) -> Iterator[Any]:
        self._aggregate.advance(watermark_us)
        return self._results()

    def _results(self) -> Iterator[Any]:
        while len(batch := self._aggregate.complete(self._context.batch_size)):
            yield batch
