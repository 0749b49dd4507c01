"""An iterator that blocks, for a loop that has to wake meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import Any


class Ahead:
    """Iterates in a thread of its own, which is at most two items ahead of `receive`.

    No item is None, which stands for the end, or an exception, for one that the iterator raised.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items
        self._queue: Queue[Any] = Queue(1)
        self._closed = False
        Thread(target=self._run, name="oka-source", daemon=True).start()

    def receive(self, timeout_seconds: float | None = None) -> Any:
        """The next item, None or an exception at the end. Raises TimeoutError."""
        if timeout_seconds is not None:  # one that looks all the time would keep the GIL to itself
            timeout_seconds = max(timeout_seconds, _LEAST_WAIT_SECONDS)
        try:
            return self._queue.get(timeout=timeout_seconds)
        except Empty:
            raise TimeoutError from None

    def close(self) -> None:
        """Let the thread end, which has nobody to iterate for any more."""
        self._closed = True
        with suppress(Empty):  # it may wait for room
            self._queue.get_nowait()

    def _run(self) -> None:
        failure = None
        try:
            for item in self._items:
                self._queue.put(item)
                if self._closed:
                    return
        except BaseException as error:  # noqa: BLE001 - the source's, for the thread of the task
            failure = error
        self._queue.put(failure)


_LEAST_WAIT_SECONDS = 50e-6
