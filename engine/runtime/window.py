"""The steady window of a task: how many records passed between warm-up and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from engine.runtime.description import Window


class SteadyWindow:
    """Counts from `warmup_seconds` after the first record to the last one.

    It reads the task's own counter at those moments and costs nothing per batch. A task that ends
    before its warm-up does is measured whole.
    """

    def __init__(self, warmup_seconds: float, records: Callable[[], int]) -> None:
        self._warmup_seconds = warmup_seconds
        self._records = records
        self._first: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None
        self._timer: threading.Timer | None = None

    def begin(self, after_warmup: Callable[[], None]) -> None:
        """Call when the first record is there; `after_warmup` runs when the warm-up ends."""
        self._first = (time.monotonic_ns(), self._records())

        def warm() -> None:
            self._first = (time.monotonic_ns(), self._records())
            after_warmup()

        if self._warmup_seconds > 0:
            self._timer = threading.Timer(self._warmup_seconds, warm)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Call when the last record has passed."""
        if self._timer is not None:
            self._timer.cancel()
        self._last = (time.monotonic_ns(), self._records())

    def bounds(self) -> Window | None:
        """The window up to now, or None while no record has come."""
        if self._first is None:
            return None
        last = self._last or (time.monotonic_ns(), self._records())
        return Window(self._first[0], last[0], last[1] - self._first[1])
