"""The time that a thread was at work, as the kernel counts it.

A thread is at work while it has a core, and while it is ready and waits for one: other processes
on the machine make it slower, not idle. What is left it slept, or waited for something.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path


class ThreadTime:
    """Counts from where it is made, for the thread that makes it; any thread may read it."""

    def __init__(self) -> None:
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._start = self._now()

    def seconds_at_work(self) -> float | None:
        """Since the start; None where the kernel does not tell, and once the thread has ended."""
        now = self._now()
        return None if now is None or self._start is None else now - self._start

    def _now(self) -> float | None:
        try:
            # Nanoseconds on a core (of the last tick), ready without one, and how often it had one.
            _, ready_ns, turns = self._schedule.read_bytes().split()
            on_core = time.clock_gettime(self._clock)
        except (OSError, ValueError):
            return None
        return on_core + int(ready_ns) / 1e9 if int(turns) else None
