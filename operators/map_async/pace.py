"""The moments at which calls may begin, so that they are no more a second than a rate says."""

from __future__ import annotations


class Pace:
    """Evenly spaced moments at a rate: a token bucket that holds a tenth of a second's calls.

    Within any t seconds there are at most `per_second * (t + 0.1) + 1` of them. The bucket is empty
    at the start.
    """

    def __init__(self, per_second: float) -> None:
        self._between = 1 / per_second
        self._next: float | None = None
        """The moment of the next call if none is ever late."""

    def turn(self, now: float) -> float:
        """Take the next moment, in seconds of the caller's clock; `now` or later."""
        due = now if self._next is None else max(self._next, now - _BURST_SECONDS)
        self._next = due + self._between
        return max(due, now)


_BURST_SECONDS = 0.1
