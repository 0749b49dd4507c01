"""The windows of one task with values from functions in Python.

`rust/window` decides about windows, their merges and the times of results. Rust also keeps the
values and calls the functions.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any, TypeAlias

from engine.expression.attempts import Attempts
from engine.expression.lift import Lifted
from engine.graph.batch_operator import NativeFigures
from engine.graph.context import TaskContext
from engine.graph.watermark import END_OF_TIME
from engine.network import Batch, EncodeError, TimeFunction, WindowFold
from engine.state import KeyedState
from operators.aggregates.fold import Fold
from operators.durations import microseconds
from operators.event_time import TimeSelector
from operators.event_time.lifted import LiftedTime
from operators.keys import KEY_FORMS
from operators.windows.assigners import Session
from operators.windows.windowing import Windowing, in_numbers

Result: TypeAlias = tuple[Any, Any, Any, Any]
"""The key, the value, the window's start and its end."""

AT_THE_END = float("inf")
"""The watermark after the last record."""


class WindowValues:
    """The windows of one task, which take records in and give results, without clock or I/O.

    Results of one call are in the order of the windows' ends, then of their keys' first records.
    With `emit="final"`, a window comes when it is complete, and again with each late record that
    still counts. Otherwise `changed` gives windows that changed, and a complete window comes only
    if it has changed since.
    """

    def __init__(
        self,
        windowing: Windowing,
        fold: Fold,
        context: TaskContext,
        lifted: Sequence[Lifted] | None = None,
    ) -> None:
        """`lifted` is the function that adds, and that of times if there is one, as expressions."""
        self.late: list[Any] = []
        """Records that came too late, unchanged; the reader empties it."""
        self.native = None if lifted is None else NativeFigures()
        """How often the function ran in Rust, if it is lifted."""
        time = windowing.time
        self._most = context.batch_size
        self._failing = context.failing
        self._rescue = context.rescue
        self._paired = windowing.paired
        self._is_timed = time is not None
        self._has_ends = isinstance(windowing.assigner, Session)
        self._forms = _Forms(time or TimeSelector())
        self._lifted = tuple(lifted or ())
        self._attempts = Attempts()
        self._time = None if time is None or not lifted else LiftedTime.of(time)
        self._windows = WindowFold(
            fold[:4],
            windowing.key,
            None if time is None else time.place,
            paired=windowing.paired,
            times=None if time is None else self._forms,
            unit=None if time is None else time.unit,
            before_us=0 if time is None else time.before_us,
            key_forms=list(KEY_FORMS),
            windows=in_numbers(windowing.assigner),
            lateness=min(microseconds(windowing.allowed_lateness), END_OF_TIME),
            tells_changes=windowing.emit != "final",
            alone=context.rescue is not None,
            lifted=None if not lifted else self._expressions(lifted[0]),
        )

    def _expressions(self, reduce: Lifted) -> tuple[Any, TimeFunction | None]:
        return reduce.expression.to_data(), None if self._time is None else self._time.function

    def add(self, batch: Any) -> list[Result]:
        """Add records; return the results that they complete."""
        out: list[Result] = []
        if type(batch) is Batch:
            if self._natively(batch, out):
                return out
            batch = batch.to_list()
        first = 0
        while True:
            try:
                self._windows.add(batch, first, out, self.late)
                return out
            except BaseException as error:  # noqa: BLE001 - `rescue` raises what is not its
                first = self._windows.at + 1
                given = batch[first - 1]
                record = given[1] if self._paired else given
                try:
                    if self._rescue is None:
                        raise
                    self._rescue(record, error)
                except BaseException:
                    self._failing.on(record)
                    raise

    def _natively(self, batch: Batch, out: list[Result]) -> bool:
        """Add encoded records in Rust, if that can be done now."""
        native = self.native
        if native is None or not self._attempts.is_due() or not self._may_run():
            return False
        records = Batch.of_rows(batch.decode()) if batch.has_columns else batch
        try:
            reason = self._windows.run(records, out, self.late)
        except BaseException:
            record = batch.to_list()[self._windows.at]
            self._failing.on(record[1] if self._paired else record)
            raise
        is_done = reason is None
        reason = reason or self._windows.gave_up()
        self._attempts.note(gave_up=reason is not None)
        if reason is None:
            native.native += len(batch)
        else:
            native.fell_back(reason)
        return is_done

    def _may_run(self) -> bool:
        """Whether the lifted functions are what they were; Rust calls them then, and not else."""
        holds = bool(self._lifted) and all(each.holds() for each in self._lifted)
        self._windows.run_lifted(holds)
        if self._time is not None:
            self._time.function.run(holds)
        return holds

    def close(self, watermark: float) -> Iterator[list[Result]]:
        """Results, in batches, of the windows that this watermark, in microseconds, completes.

        Read it to its end, which removes the state of these windows.
        """
        self._windows.advance(END_OF_TIME if watermark == AT_THE_END else int(watermark))
        self._may_run()
        while given := self._windows.complete(self._most):
            yield given

    def changed(self) -> list[Result]:
        """Results of the windows that changed since their last result, with `emit="updates"`."""
        self._may_run()
        return self._windows.changed()

    @property
    def has_changed(self) -> bool:
        """Whether there are any."""
        return self._windows.has_changed()

    def snapshot(self, pickle: bool) -> KeyedState:
        """The state of each key: the watermark, or the number of its records, and its values.

        In front of each value stand the start of its slice, or the start and end of its session,
        and 1970 in the form of its times; in count windows only the start.
        """
        kept = _Kept(self._windows.parts(), self._is_timed, self._has_ends, self._forms.kept)
        dicts = [self._windows.keys(), self._windows.values()]
        try:
            return KeyedState.of_dicts(kept.pairs, dicts, pickle=pickle)
        except EncodeError:  # of a value; the error then names the key, too
            kept.parts = self._windows.parts()
            return KeyedState.of(kept.pairs(dicts), pickle=pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]], *, touched: bool = False) -> None:
        """Restore the state of some keys, before the first record.

        `touched` tells that `changed` shall give these windows.
        """
        watermarks = []
        for key, (head, parts) in pairs:
            kept = [(*self._bounds(*bounds), value) for *bounds, value in parts]
            self._windows.restore(key, head, kept)
            if self._is_timed and head is not None:
                watermarks.append(head)
        self._windows.restored(max(watermarks, default=None), touched)

    def _bounds(self, start: int, *others: Any) -> tuple[int, int, int]:
        """The start and end of a kept value, and the number of its form."""
        end = others[0] if self._has_ends else start
        return start, end, self._forms.number(others[-1]) if self._is_timed else 0


class _Forms:
    """Times for Rust: those that are no numbers, and the form of windows' starts."""

    def __init__(self, time: TimeSelector) -> None:
        self._time = time
        self._numbers: dict[tzinfo | type | None, int] = {int: 0, float: 1}
        self.kept: list[Any] = [0, 0.0]
        """The start of 1970 in each form, by its number."""

    def read(self, found: Any) -> tuple[int, int]:
        """The microseconds of a record's time, and the number of its form."""
        time_us = self._time.in_microseconds(found)
        if abs(time_us) >> 100:
            raise ValueError(
                f"the time of the record is {found!r:.80}, which is too far from 1970\n\n"
                "hint: say what numbers count by unit=..., or compute the time by a function"
            )
        return time_us, self.number(found)

    def like(self, number: int) -> Any:
        """The function that turns microseconds into this form."""
        return self._time.like(self.kept[number])

    def number(self, found: Any) -> int:
        """The number of the form of a time."""
        kind: Any = float if isinstance(found, float) else int
        if isinstance(found, datetime):
            kind = found.tzinfo
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self.kept)
            self.kept.append(self._time.like(found)(0))
        return number


class _Kept:
    """The state at one moment, for the thread that writes it."""

    def __init__(self, parts: Any, is_timed: bool, has_ends: bool, forms: list[Any]) -> None:
        self.parts = parts
        self._is_timed = is_timed
        self._has_ends = has_ends
        self._forms = forms

    def pairs(self, dicts: Any) -> Iterator[tuple[Any, Any]]:
        """Each key with its values. The dicts have the numbers of keys, and the values."""
        of_keys, of_values = dicts
        keys = {number: key for key, number in of_keys.items()}
        values = dict(of_values.items())
        for key, head, parts in self.parts:
            kept = [(*self._bounds(*bounds), values[number]) for *bounds, number in parts]
            yield keys[key], (head, kept)

    def _bounds(self, start: int, end: int, form: int) -> tuple[Any, ...]:
        if not self._is_timed:
            return (start,)
        kept = self._forms[form]
        return (start, end, kept) if self._has_ends else (start, kept)
