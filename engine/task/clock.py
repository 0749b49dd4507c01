"""The clock of a task, which is an argument: tests have one that they set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Receive: TypeAlias = Callable[..., Any]
"""Gives the next element, None at the end; raises TimeoutError after this many seconds without one,
and InterruptedError once if it was woken without one."""


class Clock(Protocol):
    """A clock that only goes forward."""

    is_virtual: bool
    """Whether it stands still while a task and its source work."""

    def now_ns(self) -> int:
        """The time in nanoseconds since some moment."""

    def wait(self, seconds: float, event: threading.Event, exact_seconds: float) -> None:
        """Wait for this time. The event ends a wait of `exact_seconds` or more."""

    def around(self, receive: Receive) -> Receive:
        """As `receive`, with seconds of this clock."""


class SystemClock:
    """CLOCK_MONOTONIC."""

    is_virtual = False
    now_ns = staticmethod(time.monotonic_ns)

    def wait(self, seconds: float, event: threading.Event, exact_seconds: float) -> None:
        """Wait; short times exactly."""
        if seconds < exact_seconds:
            time.sleep(seconds)  # more exact than an interruptible wait
        else:
            event.wait(seconds)

    def around(self, receive: Receive) -> Receive:
        """The function itself: its seconds are those of this clock."""
        return receive


SYSTEM_CLOCK = SystemClock()
