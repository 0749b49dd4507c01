"""The limit up to which a task's source may read in event time, which the master sets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from engine.graph.logical import LogicalOperator
from engine.graph.watermark import START_OF_TIME


class Drift:
    """Holds a source that is beyond its limit in event time.

    `tell`, `is_ahead` and `wait` are for the thread of the task; the others may come from any.
    """

    def __init__(self, max_drift_us: int) -> None:
        self.say: Callable[[], None] = lambda: None
        """Called when there is progress to `take`."""
        self._step_us = max_drift_us // _STEPS
        self._limit = START_OF_TIME
        self.woken = threading.Event()
        """Ends `wait`."""
        self._lock = threading.Lock()
        self._watermark: int | None = START_OF_TIME
        self._told: int | None = START_OF_TIME
        """The last progress that was taken."""
        self._is_said = False
        """Whether the callback was called for the current progress."""
        self._was_held = False
        self.is_held = False
        """Whether the source waits."""

    def tell(self, watermark_us: int | None) -> None:
        """Note the source's progress; None: it is idle, or has ended.

        The master gets it at each eighth of the drift. That is enough: the limit is at least seven
        eighths above the slowest source.
        """
        if watermark_us == self._watermark:
            return
        with self._lock:
            self._watermark, told = watermark_us, self._told
            is_news = watermark_us is None or told is None or watermark_us >= told + self._step_us
            if self._is_said or not is_news:
                return
            self._is_said = True
        self.say()

    def take(self) -> int | None:
        """The source's progress."""
        with self._lock:
            self._told, self._is_said = self._watermark, False
            return self._watermark

    def raise_limit(self, limit_us: int) -> None:
        """Raise the limit to this event time."""
        self._limit = max(self._limit, limit_us)
        self.woken.set()

    @property
    def is_ahead(self) -> bool:
        """Whether the source has to wait."""
        return self._watermark is not None and self._watermark > self._limit

    def wait(self, seconds: float | None) -> None:
        """Wait for a change, such as a new limit, at most for this long."""
        self._was_held = True
        self.woken.wait(seconds)
        self.woken.clear()

    def has_held(self) -> bool:
        """Whether the source has waited since the last call."""
        was_held, self._was_held = self._was_held, self.is_held
        return was_held


def aligned_operator(
    operators: Sequence[LogicalOperator],
) -> tuple[LogicalOperator, int] | tuple[None, None]:
    """The last operator of a chain with a drift, and the drift; its watermarks leave the chain."""
    for each in reversed(operators):
        if (drift_us := each.operator.properties.max_drift_us) is not None:
            return each, drift_us
    return None, None


_STEPS = 8
"""Reports to the master per drift: the master's knowledge is one such step old at most."""
