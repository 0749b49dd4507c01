"""When what often gives up is tried again."""

from __future__ import annotations


class Attempts:
    """Whether to try the next batch: not for a while after three of sixteen have given up.

    Each pause is twice as long as the one before it, so that the tries in vain cost next to nothing
    in the end. Sixteen batches without one bring the first pause back.

    >>> attempts = Attempts()
    >>> for _ in range(3):
    ...     attempts.note(gave_up=True)
    >>> sum(attempts.is_due() for _ in range(200))
    136
    """

    def __init__(self) -> None:
        self._last = 0
        """A bit for each of the last batches that were tried; 1 is one that gave up."""
        self._successes = 0
        self._left = 0
        """Batches of the pause that are still to come."""
        self._pause = _FIRST_PAUSE
        self._is_calm = True
        """Whether none of the last sixteen has given up: a success then changes nothing."""

    def is_due(self) -> bool:
        """Whether to try this batch."""
        if self._left:
            self._left -= 1
            return False
        return True

    def rest(self) -> None:
        """Try none for a while, though none has given up."""
        self._left, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)

    def note(self, *, gave_up: bool) -> None:
        """Take in how a try went."""
        if not gave_up:
            if self._is_calm:
                return
            self._last = self._last << 1 & _ALL
            self._successes += 1
            if self._successes == _WINDOW:
                self._pause = _FIRST_PAUSE
                self._is_calm = True
            return
        self._is_calm = False
        self._successes = 0
        self._last = (self._last << 1 | 1) & _ALL
        if self._last.bit_count() >= _MOST:
            self._last = 0
            self.rest()


_WINDOW = 16
_ALL = (1 << _WINDOW) - 1
_MOST = 3
_FIRST_PAUSE = 64
_LONGEST_PAUSE = 4096
