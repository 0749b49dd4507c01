"""A clock for tests of jobs whose tasks are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from engine.task.clock import Receive


class VirtualClock:
    """A clock that stands still while any task works, and takes no real time.

    When all tasks wait and nothing is on its way to any of them, it jumps to the first moment that
    one of them waits for. If several tasks wait for the same moment, the last in the graph goes on
    first, alone. So a timer is called before a record comes that is due at that moment, and the
    order does not depend on the machine. That holds with channels in shared memory, the default,
    which deliver at once.
    """

    is_virtual = True

    def __init__(self) -> None:
        self._tasks = 0
        """The number of tasks that have not ended."""
        self._now_ns = 0
        self._lock = threading.Lock()
        self._moves = 0
        """Counts the beginnings and ends of waits: a thread that has looked before must look
        again."""
        self._idle: dict[int, tuple[int, int | None]] = {}
        """For each waiting thread: the count at its last look in vain, and the moment it waits
        for."""
        self._order: dict[int, int] = {}
        """The number of the task that each thread runs."""
        self._turn: int | None = None
        """The thread that goes on at the current moment."""

    def begin_task(self) -> None:
        """Do not jump before this task waits, too."""
        with self._lock:
            self._tasks += 1

    def run_task(self, number: int) -> None:
        """The task with this number in the graph waits in the thread that calls."""
        self._order[threading.get_ident()] = number

    def end_task(self) -> None:
        """Go on without a task that has ended."""
        with self._lock:
            self._tasks -= 1

    def now_ns(self) -> int:
        """Nanoseconds since the clock was made."""
        return self._now_ns

    def wait(self, seconds: float, event: threading.Event, exact_seconds: float = 0.0) -> None:  # noqa: ARG002 - all are
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
        is_due = due is not None and due <= self._now_ns
        self._move(me)
        try:
            while True:
                moves = self._moves
                try:
                    return look(_LOOK_SECONDS)
                except TimeoutError:
                    if is_due or self._turn == me:
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
            if self._turn == me:
                self._turn = None

    def _jump(self) -> None:
        """Jump to the next moment, if all threads have looked since the last one began to wait."""
        due = [
            (due, -self._order.get(thread, 0), thread)
            for thread, (_, due) in self._idle.items()
            if due is not None
        ]
        if due and len(self._idle) == self._tasks and self._all_have_looked():
            self._now_ns, _, self._turn = min(due)
            self._moves += 1

    def _all_have_looked(self) -> bool:
        return all(moves == self._moves for moves, _ in self._idle.values())


_LOOK_SECONDS = 0.0002
"""Seconds of real time that each thread looks for an element before it checks the others."""
