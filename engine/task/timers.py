"""The timers of a task's operators, which are called between elements and while the loop waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from engine.task.chain import Chain
from engine.task.clock import Clock, Receive


class Timers:
    """Calls the timers of a chain when they are due.

    Each due timer is called once, then a waiting element goes first: so no storm of timers holds up
    records or controls.
    """

    def __init__(self, chain: Chain, clock: Clock, emit: Callable[[Iterator[Any]], None]) -> None:
        self._chain = chain
        self._clock = clock
        self._emit = emit

    def around(self, receive: Receive) -> Receive:
        """As `receive`, with calls of timers; `receive` itself if no operator has timers."""
        return partial(self.receive, receive) if self._chain.has_timers else receive

    def call(self) -> float | None:
        """Call timers that are due; returns the seconds until the next one, None if there is none.

        While an operator is full, it calls them again and again.
        """
        while True:
            due = self._chain.next_timer()
            if due is None:
                return None
            now_ns = self._clock.now_ns()
            if due <= now_ns:
                self._emit(self._chain.fire(now_ns))
                due = self._chain.next_timer()
            if not self._chain.is_full():
                break
        return None if due is None else min(max(0, due - now_ns) / 1e9, _LONGEST_WAIT_SECONDS)

    def receive(self, receive: Receive) -> Any:
        """The next element; calls timers until there is one."""
        while True:
            seconds = self.call()
            try:
                return receive(seconds)
            except (TimeoutError, InterruptedError):
                continue


_LONGEST_WAIT_SECONDS = 3600.0
"""Seconds that every kind of wait accepts."""
