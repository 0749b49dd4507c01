"""The clock of a task, which is passed in: tests have one that they set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Receive: TypeAlias = Callable[..., Any]
"""Gives the next element, None at the end; raises TimeoutError if so many seconds bring none, and
InterruptedError once if it was woken and none is there."""


class Clock(Protocol):
    """Time that only goes forward."""

    is_virtual: bool
    """Whether it stands still while a task works, its source included."""

    def now_ns(self) -> int:
        """Nanoseconds since some moment."""

    def wait(self, seconds: float, event: threading.Event, exact_seconds: float) -> None:
        """Return when so much time has passed. The event ends a wait of `exact_seconds` or more."""

    def around(self, receive: Receive) -> Receive:
        """As `receive`, whose seconds are those of this clock."""


class SystemClock:
    """CLOCK_MONOTONIC."""

    is_virtual = False
    now_ns = staticmethod(time.monotonic_ns)

    def wait(self, seconds: float, event: threading.Event, exact_seconds: float) -> None:
        """Wait, a short time exactly."""
        if seconds < exact_seconds:
            time.sleep(seconds)  # more exact than a wait that can be interrupted
        else:
            event.wait(seconds)

    def around(self, receive: Receive) -> Receive:
        """The function itself: its seconds are those of this clock."""
        return receive


SYSTEM_CLOCK = SystemClock()
