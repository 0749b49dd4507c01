"""The steady window of a task: its records between warm-up and end."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.deployment.description import Window
from engine.task.clock import Clock


class SteadyWindow:
    """Counts from the first marker that passes `warmup_seconds` after the first record, to the end.

    It reads the task's own counters (records in, records out) at those moments and costs nothing
    per batch without a marker. If a task ends before its warm-up, the window is the whole task.
    """

    def __init__(
        self,
        warmup_seconds: float,
        clock: Clock,
        records: Callable[[], tuple[int, int]],
        after_warmup: Callable[[], None],
    ) -> None:
        self._warmup_ns = round(warmup_seconds * 1e9)
        self._clock = clock
        self._records = records
        self._after_warmup = after_warmup
        # Read once, so that setting the system's clock does not change the rate.
        self._epoch_ns = time.time_ns() - clock.now_ns()
        self._warm_ns: int | None = None
        self._first: Window | None = None
        self._last: Window | None = None

    def begin(self) -> None:
        """Call when the first record is there."""
        self._first = self._now()
        if self._warmup_ns > 0:
            self._warm_ns = self._clock.now_ns() + self._warmup_ns

    def pass_marker(self) -> None:
        """Call when a marker has passed."""
        if self._warm_ns is not None and self._clock.now_ns() >= self._warm_ns:
            self._warm_ns = None
            self._first = self._now()
            self._after_warmup()

    def end(self) -> None:
        """Call when the last record has passed."""
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
        now = self._clock.now_ns() + self._epoch_ns
        return Window(now, now, *self._records())
