"""An iterator that blocks, for a loop that has to wake meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from threading import Event, Thread
from typing import Any

from engine.task.source.reading import size


class Prefetch:
    """Iterates in a thread of its own, a little ahead of `receive`.

    It goes on while fewer than `records` wait; a list or a batch of columns counts as its records.
    Threads that hand over one record at a time would do nothing else. Items must not be None, which
    stands for the end, or an exception, which stands for one that the iterator raised.
    """

    def __init__(self, items: Iterable[tuple[Any, Any]], records: int, woken: Event) -> None:
        self._items = items
        self._most = records
        self._woken = woken
        """Has `receive` return when it is set."""
        self._is_awaited = False
        self._waiting: deque[tuple[Any, int]] = deque()
        self._given = 0
        """Records from the iterator; only its thread counts them."""
        self._taken = 0
        """Received records; only the other thread counts them."""
        self._room = Event()
        self._closed = False
        Thread(target=self._run, name="oka-source", daemon=True).start()

    def receive(self, timeout_seconds: float | None = None) -> Any:
        """The next item with its companion; None or an exception at the end.

        Raises TimeoutError, and InterruptedError if it was woken without an item.
        """
        if not self._waiting:
            self._wait(timeout_seconds)
        item, records = self._waiting.popleft()
        self._taken += records
        if not self._room.is_set() and 2 * (self._given - self._taken) <= self._most:
            self._room.set()
        return item

    def close(self) -> None:
        """Let the thread end: its items are not needed any more."""
        self._closed = True
        self._room.set()

    def _wait(self, timeout_seconds: float | None) -> None:
        """Return if an item is there."""
        if timeout_seconds is not None:  # a loop that looks all the time would keep the GIL
            timeout_seconds = max(timeout_seconds, _LEAST_WAIT_SECONDS)
        self._is_awaited = True
        was_woken = bool(self._waiting) or self._woken.wait(timeout_seconds)
        self._is_awaited = False
        self._woken.clear()
        if not self._waiting:
            raise InterruptedError if was_woken else TimeoutError

    def _run(self) -> None:
        end = None
        try:
            for pair in self._items:
                self._put(pair, size(pair[0]) or 1)
                while self._given - self._taken >= self._most and not self._closed:
                    self._room.clear()
                    if self._given - self._taken >= self._most and not self._closed:
                        self._room.wait()
                if self._closed:
                    return
        except BaseException as error:  # noqa: BLE001 - the source's, for the thread of the task
            end = error
        self._put(end, 0)

    def _put(self, item: Any, records: int) -> None:
        self._given += records
        self._waiting.append((item, records))
        if self._is_awaited:
            self._woken.set()


_LEAST_WAIT_SECONDS = 50e-6
