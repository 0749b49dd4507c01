"""The steady window of a task: how many records passed between warm-up and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from engine.runtime.description import Window


class SteadyWindow:
    """Counts from `warmup_seconds` after the first record to the last one.

    It reads the task's own counters (records in, records out) at those moments and costs nothing
    per batch. A task that ends before its warm-up does is measured whole.
    """

    def __init__(self, warmup_seconds: float, records: Callable[[], tuple[int, int]]) -> None:
        self._warmup_seconds = warmup_seconds
        self._records = records
        # Read once: a clock that is set while the task runs does not change its rate.
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        self._first: Window | None = None
        self._last: Window | None = None
        self._timer: threading.Timer | None = None

    def begin(self, after_warmup: Callable[[], None]) -> None:
        """Call when the first record is there; `after_warmup` runs when the warm-up ends."""
        self._first = self._now()

        def warm() -> None:
            self._first = self._now()
            after_warmup()

        if self._warmup_seconds > 0:
            self._timer = threading.Timer(self._warmup_seconds, warm)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Call when the last record has passed."""
        if self._timer is not None:
            self._timer.cancel()
        self._last = self._now()

    def bounds(self) -> Window | None:
        """The window up to now, or None while no record has come."""
        if self._first is None:
            return None
        first, last = self._first, self._last or self._now()
        return Window(
            first.first_ns,
            last.last_ns,
            last.records_in - first.records_in,
            last.records_out - first.records_out,
        )

    def _now(self) -> Window:
        now = time.monotonic_ns() + self._epoch_ns
        return Window(now, now, *self._records())
