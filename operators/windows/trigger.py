"""Triggers: classes that say when a window gives its result, and when its records go."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from engine.errors import GraphError
from engine.graph.checks import check_integer

if TYPE_CHECKING:
    from operators.process import ProcessContext

Decision: TypeAlias = Literal["continue", "fire", "purge", "fire_and_purge"]
"""What a trigger answers: nothing is to be done, the window gives its result, its records are
removed, or both in this order."""


class TriggerWindow:
    """A window of a key, as its trigger sees it. All times are microseconds since 1970 in UTC."""

    __slots__ = ("_context", "_id", "_kept", "_like", "_reach", "end", "start", "state")

    _context: ProcessContext

    def __init__(self, start: int, end: int, name: str, like: Any, reach: int) -> None:
        self.start = start
        """Its first moment."""
        self.end = end
        """The first moment after it."""
        self.state: dict[Any, Any] = {}
        """What the trigger keeps of this window, in checkpoints, too."""
        self._id = name
        """Its name among the windows of its key; a session keeps it when it grows."""
        self._reach = reach
        """1 if the end lies inside."""
        self._kept: list[Any] = []
        """The value of its records; empty if there are none."""
        self._like = like
        """1970 in the form of its times."""

    @property
    def key(self) -> Any:
        """The key; `()` of windows without one."""
        return self._context.key

    @property
    def watermark(self) -> int:
        """The event time in front of the record or timer."""
        return self._context.watermark

    @property
    def last(self) -> int:
        """Its last moment, with which it is complete: a microsecond before the end.

        In inclusive sessions it is the end.
        """
        return self.end - 1 + self._reach

    @property
    def is_complete(self) -> bool:
        """Whether the watermark has come to its last moment: a record that comes now is late."""
        return self._context.watermark >= self.last

    def add_timer(self, time_us: int) -> None:
        """Have `on_event_time` called when the watermark has come to this time.

        If it already has, the call comes behind the batch.
        """
        self._context.add_timer(time_us, f"{AT_TIME} {self._id}")

    def add_processing_timer(self, after: timedelta) -> None:
        """Have `on_processing_time` called after this duration, by the clock of the task.

        It is not called at the end of the input.
        """
        self._context.add_processing_timer(after, f"{BY_CLOCK} {self._id}")

    def delete_timers(self) -> None:
        """Delete the timers that were added; the call at the window's end still comes."""
        for kind in (AT_TIME, BY_CLOCK):
            self._context.delete_timer(f"{kind} {self._id}")


class Trigger:
    """Says when windows give their results: `.window(Tumbling(...), emit=MyTrigger())`.

    Each method answers a `Decision`. This class gives a window's result when it is complete, and
    again with each late record that `allowed_lateness` lets in, as `emit="final"` does (Flink's
    EventTimeTrigger). Override what should be different.

    One object serves all windows: what it keeps of a window is in `window.state`, never in an
    attribute. A result has all records since the last purge. A window without records gives none.
    What a window still has when it goes, its `allowed_lateness` after its end, goes with it.

    >>> from datetime import timedelta
    >>> import engine.testing
    >>> from operators import Trigger, Tumbling, source
    >>> from operators.sinks import Collect
    >>> from operators.sources import Collection
    >>> class AtOnceIfHigh(Trigger):
    ...     def on_record(self, record, time, window):
    ...         if record[2] >= 100:
    ...             return "fire_and_purge"
    ...         return super().on_record(record, time, window)
    >>> paid = [("ann", 1, 20), ("ann", 2, 100), ("ann", 3, 5), ("bob", 4, 7)]
    >>> tens = Tumbling(timedelta(seconds=10))
    >>> windows = source(Collection(paid)).key_by(0).window(
    ...     tens, time=1, unit="s", emit=AtOnceIfHigh())
    >>> for result in engine.testing.run(windows.sum(2).sink(Collect()))["collect"]:
    ...     print(result)
    ('ann', 120, 0, 10)
    ('ann', 5, 0, 10)
    ('bob', 7, 0, 10)
    """

    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        """Decide when a record, with this time, has been added to a window."""
        return "fire" if window.is_complete else "continue"

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        """Decide when the watermark has come to a timer, or to the window's last moment.

        For the last moment no timer is needed. At the end of the input all timers are called.
        """
        return "fire" if time == window.last else "continue"

    def on_processing_time(self, time: int, window: TriggerWindow) -> Decision:
        """Decide when a timer by the clock is due."""
        return "continue"

    def on_merge(self, window: TriggerWindow, other: TriggerWindow) -> None:
        """Add what `other.state` has to `window.state`: a record joins these two sessions.

        `window` is the earlier one and goes on. The timers of `other` are deleted. `on_record`
        follows. A trigger of sessions that overrides `on_record` must have this method.
        """


class CountTrigger(Trigger):
    """Gives the result with each `records` records of a window, and what came since at its end.

    >>> from datetime import timedelta
    >>> import engine.testing
    >>> from operators import CountTrigger, Tumbling, source
    >>> from operators.sinks import Collect
    >>> from operators.sources import Collection
    >>> clicks = source(Collection([("ann", 1), ("ann", 2), ("ann", 3)])).key_by(0)
    >>> tens = clicks.window(
    ...     Tumbling(timedelta(seconds=10)), time=1, unit="s", emit=CountTrigger(2))
    >>> engine.testing.run(tens.count().sink(Collect()))["collect"]
    [('ann', 2, 0, 10), ('ann', 3, 0, 10)]

    Flink's CountTrigger gives nothing at the end; `on_event_time` that answers "continue" does so.
    """

    def __init__(self, records: int) -> None:
        check_integer("CountTrigger(): records", records, 1)
        self.records = records

    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        """Count it."""
        count: int = window.state.get("count", 0) + 1
        is_due = count >= self.records or window.is_complete
        window.state["count"] = 0 if is_due else count
        return "fire" if is_due else "continue"

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        """Give what came since."""
        is_due = time == window.last and window.state.pop("count", 0)
        return "fire" if is_due else "continue"

    def on_merge(self, window: TriggerWindow, other: TriggerWindow) -> None:
        """Add the counts of both."""
        window.state["count"] = window.state.get("count", 0) + other.state.get("count", 0)


class Purging(Trigger):
    """Does what another trigger does, and removes the records of a window when that fires.

    So each record is in one result: `emit=Purging(CountTrigger(100))`.
    """

    def __init__(self, trigger: Trigger) -> None:
        check_trigger("Purging", trigger)
        self.trigger = trigger

    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        """Ask the other."""
        return _purging(self.trigger.on_record(record, time, window))

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        """Ask the other."""
        return _purging(self.trigger.on_event_time(time, window))

    def on_processing_time(self, time: int, window: TriggerWindow) -> Decision:
        """Ask the other."""
        return _purging(self.trigger.on_processing_time(time, window))

    def on_merge(self, window: TriggerWindow, other: TriggerWindow) -> None:
        """Ask the other."""
        self.trigger.on_merge(window, other)


def check_trigger(method: str, trigger: object) -> Trigger:
    """The trigger; `GraphError` if it is none."""
    if isinstance(trigger, Trigger):
        return trigger
    is_class = isinstance(trigger, type) and issubclass(trigger, Trigger)
    name = trigger.__name__ if isinstance(trigger, type) else f"{trigger!r:.80}"
    raise GraphError(
        f"{method}() got {name}, expected a trigger",
        hint=f"{name}(...) is one" if is_class else "such as CountTrigger(100)",
    )


def can_merge(trigger: Trigger) -> bool:
    """Whether it knows what becomes of its state where two sessions become one."""
    if isinstance(trigger, Purging):
        return can_merge(trigger.trigger)
    kind = type(trigger)
    return kind.on_merge is not Trigger.on_merge or kind.on_record is Trigger.on_record


def in_words(trigger: Trigger) -> str:
    """The class of a trigger, and of those inside, for `Properties.meaning`."""
    inner = f"({in_words(trigger.trigger)})" if isinstance(trigger, Purging) else ""
    return f"{type(trigger).__qualname__}{inner}"


def decided(trigger: Trigger, method: str, *about: Any) -> Decision:
    """The answer of a method of a trigger. TypeError unless it is a `Decision`."""
    answer = getattr(trigger, method)(*about)
    if answer in _DECISIONS:
        return cast(Decision, answer)
    raise TypeError(
        f"{type(trigger).__name__}.{method}() gave {answer!r:.80}, expected "
        f"{', '.join(map(repr, _DECISIONS))}"
        f"\n\nhint: return super().{method}(...) does what is usual"
    )


def _purging(decision: Decision) -> Decision:
    return "fire_and_purge" if decision == "fire" else decision


_DECISIONS = get_args(Decision)
AT_TIME, BY_CLOCK = "timer", "clock"
"""What names of timers begin with: those that triggers add."""
