"""The clock of a task, which is passed in: tests have one that they set."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Time that only goes forward."""

    def now_ns(self) -> int:
        """Nanoseconds since some moment."""

    def wait(self, seconds: float, event: threading.Event) -> None:
        """Return when so much time has passed; a long wait may end with the event."""


class SystemClock:
    """CLOCK_MONOTONIC."""

    now_ns = staticmethod(time.monotonic_ns)

    def wait(self, seconds: float, event: threading.Event) -> None:
        """Wait, a short time exactly."""
        if seconds < _SHORT_WAIT_SECONDS:
            time.sleep(seconds)  # more exact than a wait that can be interrupted
        else:
            event.wait(seconds)


SYSTEM_CLOCK = SystemClock()
_SHORT_WAIT_SECONDS = 0.05
