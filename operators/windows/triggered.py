"""The operator of windows with a trigger, which are states and timers of keys as in `process`.

Each window has a value of its own, since a trigger may remove its records. So where windows
overlap, a record is added to each of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from engine.graph.batch_operator import BatchFunction
from engine.graph.context import TaskContext
from engine.graph.operator import OnError, Properties
from engine.network import WindowSpans
from engine.state import KeyedState
from operators.aggregates import NativeAggregate
from operators.aggregates.fold import Fold
from operators.durations import microseconds
from operators.event_time import LATE, GivesTime, TimeSelector, with_units_checked
from operators.process.context import ProcessContext
from operators.process.function import KeyedFunction
from operators.process.operator import Process, ProcessTask
from operators.process.states import MapState, ValueState
from operators.windows.assigners import Session
from operators.windows.kept import FoldedValues, NativeValues, Values
from operators.windows.trigger import AT_TIME, BY_CLOCK, Trigger, TriggerWindow, decided, in_words
from operators.windows.windowing import Windowing, in_numbers


@dataclass(frozen=True)
class TriggeredWindows(Process, GivesTime):
    """Computes a value from the records of each key and window, and gives it as a trigger says."""

    function: TriggeredFunction

    @classmethod
    def of(
        cls, windowing: Windowing, values: Fold | NativeAggregate, on_error: OnError
    ) -> TriggeredWindows:
        """The windows, and what is computed of them."""
        function = TriggeredFunction(windowing, values)
        return cls(function, windowing.key, windowing.paired, on_error)

    @property
    def given_time(self) -> TimeSelector | None:
        """The selector of results' time."""
        return self.function.windowing.time_of_results

    @property
    def properties(self) -> Properties:
        """The output of late records, the treatment of those that fail, the state's meaning."""
        by = self.function.windowing
        meaning = {
            "kind": "windows with a trigger",
            **by.meaning,
            "trigger": in_words(self.function.trigger),
            "computed": repr(self.function.computed.meaning),
        }
        return Properties(
            alone=not by.is_keyed,
            on_error=self.on_error,
            outputs=(LATE,),
            way=f"{in_words(self.function.trigger)} in Python",
            meaning=meaning,
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The windows of one task, still without records."""
        return with_units_checked(
            _TriggeredTask(self, context), [self.function.windowing.time], context
        )


class TriggeredFunction(KeyedFunction):
    """Brings records and timers to a trigger, and does what it decides."""

    outputs = (LATE,)
    windows = MapState[str, TriggerWindow]()
    """The windows of a key by their names."""
    sessions = ValueState[Any]()
    """The starts and names of a key's sessions, in order; None without any."""
    watermark = ValueState[Any]()
    """How far event time was; only in what is saved."""

    def __init__(self, windowing: Windowing, computed: Fold | NativeAggregate) -> None:
        assert isinstance(windowing.emit, Trigger)
        assert windowing.time is not None
        self.windowing = windowing
        self.computed = computed
        self.trigger = windowing.emit

    def open(self, pickle: bool) -> None:
        """Make what one task needs."""
        by = self.windowing
        assert by.time is not None
        self._time = replace(by.time, paired=False)
        self._find_time = self._time.time
        self._lateness = microseconds(by.allowed_lateness)
        computed = self.computed
        self._values: Values = (
            FoldedValues(computed) if isinstance(computed, Fold) else NativeValues(computed, pickle)
        )
        sessions = by.assigner if isinstance(by.assigner, Session) else None
        self._spans = None if sessions else WindowSpans(in_numbers(by.assigner))
        self._gap = microseconds(sessions.gap) if sessions else 0
        self._reach = 1 if sessions and sessions.inclusive else 0
        """How far sessions reach at their ends."""

    def saved(self, window: TriggerWindow) -> Any:
        """What a window goes on with."""
        kept = [self._values.saved(value) for value in window._kept]
        return window.start, window.end, window._like, kept, window.state

    def loaded(self, name: str, saved: Any) -> TriggerWindow:
        """A window that goes on."""
        start, end, like, kept, state = saved
        window = TriggerWindow(start, end, name, like, self._reach)
        window._kept = [self._values.loaded(value) for value in kept]
        window.state = dict(state)
        return window

    def process(self, record: Any, context: ProcessContext) -> list[Any] | None:
        """Add a record to its windows, then ask the trigger for each of them."""
        found = self._find_time(record)
        time = self._time.in_microseconds(found)
        windows, other = self._windows_of(time, found)
        if not windows:
            return None  # it lies between two
        windows = [each for each in windows if each.last + self._lateness > context.watermark]
        if not windows:
            context.output(LATE, record)
            return None
        values = [self._with(window, record) for window in windows]
        for window in windows:
            window._context = context
        if other is not None:
            values[0] = [self._values.merge([*values[0], *other._kept])]
            other._context = context
            self.trigger.on_merge(windows[0], other)
            self._remove(other)
        for window, value in zip(windows, values, strict=True):
            window._kept = value
            if self._spans is None:
                self._grow(window, time, other)
            elif window._id not in self.windows:
                self._add(window)
        decisions = [decided(self.trigger, "on_record", record, time, each) for each in windows]
        pairs = zip(windows, decisions, strict=True)
        return [result for pair in pairs for result in self._done(*pair)]

    def on_timer(self, time: int, context: ProcessContext) -> list[Any] | None:
        """Ask the trigger, or remove a window that is gone."""
        kind, _, name = context.name.partition(" ")
        window = self.windows.get(name)
        if window is None:
            return None
        window._context = context
        if kind == _GONE:
            self._remove(window)
            return None
        method = "on_processing_time" if kind == BY_CLOCK else "on_event_time"
        results = self._done(window, decided(self.trigger, method, time, window))
        if kind == _END:
            if self._lateness:
                self._let_go(window)
            else:
                self._remove(window)
        return results

    def _windows_of(
        self, time: int, found: Any
    ) -> tuple[list[TriggerWindow], TriggerWindow | None]:
        """The windows of a time, and the session that merges into the only one of them."""
        if self._spans is not None:
            return [self._window(*span, found) for span in self._spans.of(time)], None
        joined = self._joined(time) or [self._begun(time, time + self._gap, found)]
        return joined[:1], joined[1] if len(joined) > 1 else None

    def _window(self, start: int, end: int, found: Any) -> TriggerWindow:
        """The window of slices with these bounds."""
        return self.windows.get(str(start)) or self._begun(start, end, found)

    def _begun(self, start: int, end: int, found: Any) -> TriggerWindow:
        """A new window, in the form of this time."""
        return TriggerWindow(start, end, str(start), self._time.like(found)(0), self._reach)

    def _joined(self, time: int) -> list[TriggerWindow]:
        """The sessions that a record at this time joins, in order: two at most."""
        sessions, reach = self.sessions or [], self._reach
        behind = bisect_left(sessions, (time + self._gap + reach,))
        near = [self.windows[name] for _, name in sessions[max(behind - 2, 0) : behind]]
        return [window for window in near if time < window.end + reach]

    def _grow(self, window: TriggerWindow, time: int, other: TriggerWindow | None) -> None:
        """Have a session reach over a time, and over another session."""
        is_new = window._id not in self.windows
        before = window.start, window.end
        ends = [window.end, time + self._gap, *([other.end] if other else [])]
        window.start, window.end = min(window.start, time), max(ends)
        if window.start != before[0] or is_new:
            sessions = self.sessions
            if sessions is None:
                self.sessions = sessions = []
            if not is_new:
                sessions.remove((before[0], window._id))
            insort(sessions, (window.start, window._id))
        if window.end != before[1] or is_new:
            self._add(window)

    def _add(self, window: TriggerWindow) -> None:
        """Keep a window until its end, which is new, or until it goes if it is complete."""
        self.windows[window._id] = window
        if window.is_complete:
            self._let_go(window)
        else:
            window._context.set_timer(window.last, f"{_END} {window._id}")
            window._context.delete_timer(f"{_GONE} {window._id}")

    def _let_go(self, window: TriggerWindow) -> None:
        """Keep a complete window for as long as late records are allowed."""
        window._context.set_timer(window.last + self._lateness, f"{_GONE} {window._id}")

    def _remove(self, window: TriggerWindow) -> None:
        """Forget a window and its timers."""
        del self.windows[window._id]
        for kind in (_END, _GONE, AT_TIME, BY_CLOCK):
            window._context.delete_timer(f"{kind} {window._id}")
        if self._spans is None:
            self.sessions.remove((window.start, window._id))
            if not self.sessions:
                del self.sessions

    def _with(self, window: TriggerWindow, record: Any) -> list[Any]:
        """The value of a window with one more record."""
        if not window._kept:
            return [self._values.create(record)]
        return [self._values.add(window._kept[0], record)]

    def _done(self, window: TriggerWindow, decision: str) -> list[Any]:
        """Do what a trigger decided: results, none or one."""
        results: list[Any] = []
        if window._kept and decision.startswith("fire"):
            like, key = self._time.like(window._like), window.key
            start, end = like(window.start), like(window.end)
            value = self._values.result(key, window._kept[0], start, end)
            is_keyed = self.windowing.is_keyed
            results.append((key, value, start, end) if is_keyed else (value, start, end))
        if decision.endswith("purge"):
            window._kept = []
        return results


class _TriggeredTask(ProcessTask):
    """The windows of one task."""

    _function: TriggeredFunction

    def __init__(self, operator: TriggeredWindows, context: TaskContext) -> None:
        super().__init__(operator, context)
        self._function.open(context.pickle)

    def on_watermark(self, watermark_us: int) -> Iterator[list[Any]]:
        return super().on_watermark(max(watermark_us, self._context.watermark))

    def restore(self, state: KeyedState) -> None:
        super().restore(state)
        context = self._context
        for slots in self._keys.values():
            context.watermark = max(context.watermark, slots.pop("watermark"))
            for name, saved in slots["windows"].items():
                slots["windows"][name] = self._function.loaded(name, saved)
            if "sessions" in slots:
                slots["sessions"] = [tuple(each) for each in slots["sessions"]]

    def _saved(self, slots: dict[str, Any], now_ns: int) -> Any:
        windows = {name: self._function.saved(each) for name, each in slots["windows"].items()}
        more = {"windows": windows, "watermark": self._context.watermark}
        return super()._saved({**slots, **more}, now_ns)

    def _send(self) -> None:
        self.late += len(self._outputs[LATE])
        super()._send()


_END, _GONE = "end", "gone"
"""What names of timers begin with: a window is complete, and it goes."""
