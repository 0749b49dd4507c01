"""The context of the functions of a `ProcessFunction`: the key, the time, timers, outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import count
from operator import index
from typing import Any

from engine.graph.watermark import START_OF_TIME
from operators.durations import nanoseconds
from operators.process.expiry import Expiry
from operators.process.timers import KeyTimers, TimerQueue


class ProcessContext:
    """The key at work in a task, its timers, and the time.

    A key has one timer of each name, which moves if it is set again. More timers of a name, at
    other times, may be added.
    """

    def __init__(self, now_ns: Callable[[], int], outputs: Mapping[str, list[Any]]) -> None:
        self.key: Any = None
        """The key of the record or timer."""
        self.name: str = ""
        """In `on_timer`, the timer's name."""
        self.watermark: int = START_OF_TIME
        """The event time in front of the record or timer, in microseconds."""
        self.now_ns = now_ns
        """The clock of the task, which only goes forward: nanoseconds since some moment."""
        self._looked_ns: int | None = None
        self._event, self._processing = TimerQueue(), TimerQueue()
        self._numbers = count()
        """The numbers of timers, in the order in which they were set first."""
        self._expiry = Expiry()
        self._outputs = outputs
        self._slots: dict[str, Any] = {}
        """The slots of the key: the values of its states by name, and its timers."""
        self._handles: dict[str, Any] = {}
        """The views of the key's lists and dicts, by the names of states."""
        self._over: set[tuple[Any, str]] | None = None
        """The timers that were called at the end of the input."""

    def set_timer(self, time_us: int, name: str = "") -> None:
        """Have `on_timer` called at this event time: when the watermark is as high.

        If it already is, the call comes behind the batch. At the end of the input each timer is
        called once; a timer that then sets itself again is not.
        """
        self._set(self._event, _microseconds("set_timer", time_us), name)

    def add_timer(self, time_us: int, name: str = "") -> None:
        """As `set_timer`, beside the timers of this name that the key has; each time counts once.

        `set_timer` with this name replaces all of them.
        """
        self._add(self._event, _microseconds("add_timer", time_us), name)

    def set_processing_timer(self, after: timedelta, name: str = "") -> None:
        """Have `on_timer` called after this duration, by the clock of the task.

        It is not called at the end of the input.
        """
        self._set(self._processing, self._after("set_processing_timer", after), name)

    def add_processing_timer(self, after: timedelta, name: str = "") -> None:
        """As `set_processing_timer`, beside the timers of this name that the key has."""
        self._add(self._processing, self._after("add_processing_timer", after), name)

    def delete_timer(self, name: str = "", time_us: int | None = None) -> None:
        """Delete the timers of this name, or the one at this event time.

        Nothing happens if the key has no such timer.
        """
        timers: KeyTimers | None = self._slots.get(TIMERS)
        if timers is None:
            return
        if time_us is None:
            deleted = timers.named(name)
        else:
            time_us = _microseconds("delete_timer", time_us)
            found = timers.at(name, self._event, time_us)
            deleted = [] if found is None else [found]
        for timer in deleted:
            timer.cancel()
            timers.remove(timer)
        if not timers:
            del self._slots[TIMERS]

    def output(self, name: str, record: Any) -> None:
        """Send a record to a side output, one of the class's `outputs`: see `Stream.side`."""
        try:
            self._outputs[name].append(record)
        except (KeyError, TypeError):
            raise ValueError(
                f"output() got {name!r:.80}, expected one of {', '.join(self._outputs) or 'none'}"
                "\n\nhint: the class names its side outputs: outputs = ('late',)"
            ) from None

    def _call_ns(self) -> int:
        """`now_ns` at the first use in a call of the function."""
        if self._looked_ns is None:
            self._looked_ns = self.now_ns()
        return self._looked_ns

    def _after(self, method: str, after: timedelta) -> int:
        if not isinstance(after, timedelta):
            raise TypeError(f"{method}() got {after!r:.80}, expected a timedelta")
        return self.now_ns() + nanoseconds(after)

    def _set(self, queue: TimerQueue, time: int, name: str) -> None:
        if self._over is not None and (self.key, name) in self._over:
            return
        timers = self._timers()
        timer = timers.get(name)
        if timer is None:
            timers[name] = queue.add(time, next(self._numbers), self.key, name)
        elif not isinstance(timer, dict) and timer.queue is queue:
            timer.time = time
            assert timer.queued is not None
            if time < timer.queued:
                queue.put(timer)
        else:
            for each in timers.named(name):
                each.cancel()
            timers[name] = queue.add(time, next(self._numbers), self.key, name)

    def _add(self, queue: TimerQueue, time: int, name: str) -> None:
        if self._over is not None and (self.key, name) in self._over:
            return
        timers = self._timers()
        if timers.at(name, queue, time) is None:
            timers.add(queue.add(time, next(self._numbers), self.key, name))

    def _timers(self) -> KeyTimers:
        """The timers of the key at work, one of which is about to be set."""
        timers: KeyTimers | None = self._slots.get(TIMERS)
        if timers is None:
            timers = self._slots[TIMERS] = KeyTimers()
        return timers


def _microseconds(method: str, time: Any) -> int:
    if type(time) is int:
        return time
    try:
        return int(time) if isinstance(time, float) else index(time)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"{method}() got {type(time).__name__} {time!r:.80}, expected microseconds"
            "\n\nhint: int(moment.timestamp() * 1e6) of a datetime"
        ) from None


TIMERS = ""
"""The name of the timers in the slots of a key, which no state has."""
