"""A clock for tests of jobs whose tasks are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from engine.runtime.clock import Receive


class VirtualClock:
    """Time that stands still while any task works, and costs a test nothing.

    When all tasks wait and nothing is on its way to any of them, it jumps to the first moment that
    one of them waits for. So what each does before it and behind it does not depend on the machine.
    That holds with channels in shared memory, the usual ones: what is sent there is there at once.
    """

    is_virtual = True

    def __init__(self) -> None:
        self._tasks = 0
        """How many have not ended."""
        self._now_ns = 0
        self._lock = threading.Lock()
        self._moves = 0
        """Counts what tasks begin and end to wait for: who has looked before must look again."""
        self._idle: dict[int, tuple[int, int | None]] = {}
        """Of each waiting thread: the moves before it looked in vain, and what it waits for."""

    def begin_task(self) -> None:
        """Do not jump before this task waits, too."""
        with self._lock:
            self._tasks += 1

    def end_task(self) -> None:
        """Go on without a task that has ended."""
        with self._lock:
            self._tasks -= 1

    def now_ns(self) -> int:
        """Nanoseconds since the clock was made."""
        return self._now_ns

    def wait(self, seconds: float, event: threading.Event) -> None:
        """Return when so much time has passed, or the event is set."""

        def look(real_seconds: float) -> None:
            if not event.wait(real_seconds):
                raise TimeoutError

        try:
            self._wait(seconds, look)
        except TimeoutError:
            return

    def around(self, receive: Receive) -> Receive:
        """As `receive`, whose seconds are those of this clock."""

        def receive_in_time(seconds: float | None = None) -> Any:
            return self._wait(seconds, receive)

        return receive_in_time

    def _wait(self, seconds: float | None, look: Callable[[float], Any]) -> Any:
        me = threading.get_ident()
        due = None if seconds is None else self._now_ns + round(seconds * 1e9)
        self._move(me)
        try:
            while True:
                moves = self._moves
                try:
                    return look(_LOOK_SECONDS)
                except TimeoutError:
                    if due is not None and due <= self._now_ns:
                        raise
                with self._lock:
                    self._idle[me] = (moves, due)
                    self._jump()
        finally:
            self._move(me)

    def _move(self, me: int) -> None:
        with self._lock:
            self._moves += 1
            self._idle.pop(me, None)

    def _jump(self) -> None:
        """To the next moment, if all have looked since the last of them began to wait."""
        waits = self._idle.values()
        due = [due for _, due in waits if due is not None]
        if due and len(waits) == self._tasks and all(moves == self._moves for moves, _ in waits):
            self._now_ns = min(due)
            self._moves += 1


_LOOK_SECONDS = 0.0002
"""How long each looks, in real time, before it looks whether all do."""
