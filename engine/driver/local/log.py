"""Passes the workers' stderr on to that of the driver. Invariant: `pass_on` never waits.

Another thread does, so that a stderr that nobody reads holds up neither workers nor driver; above a
limit, lines are dropped and counted.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from engine import console


class LogWriter:
    """Writes to the driver's stderr, in the order of the calls. `hear` is given all of it, too."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear
        self._texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._dropped = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="oka-log", daemon=True)
        self._thread.start()

    def pass_on(self, text: str) -> None:
        """Have the text written, or drop it while too much waits."""
        self._hear(text)
        with self._lock:
            if self._waiting > _MOST_WAITING:
                self._dropped += len(text)
                return
            self._waiting += len(text)
        self._texts.put(text)

    def close(self) -> None:
        """Write what waits, as long as stderr takes it without delay; idempotent."""
        self._closing.set()
        self._texts.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (text := self._texts.get()) is not None:
            for start in range(0, len(text), _PIECE):
                while not (self._closing.is_set() or console.is_ready(_LOOK_SECONDS)):
                    pass
                console.write(text[start : start + _PIECE], patience=0.0)
            with self._lock:
                self._waiting -= len(text)
                dropped, self._dropped = self._dropped, 0
            if dropped:
                console.write(
                    f"… {dropped:,} characters of the workers' log were dropped\n", patience=0.0
                )


_MOST_WAITING = 1 << 20
_PIECE = 1024
"""Characters, of at most four bytes each: what a pipe that is ready takes at once."""
_LOOK_SECONDS = 0.1
