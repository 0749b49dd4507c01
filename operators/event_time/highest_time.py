"""The highest time of a stream, robust against single wrong records."""

import time
from collections.abc import Callable, Sequence


def wall_clock_us() -> int:
    """The wall clock, in microseconds since 1970."""
    return time.time_ns() // 1000


class HighestTime:
    """The highest of the believed times so far, in microseconds.

    It never falls. It rises by at most `max_jump_us` at once. If three records in a row are farther
    ahead, it rises to the least of the three. Times farther than that ahead of the wall clock are
    never believed. It begins with the least of at least two records: one record alone may be wrong.
    Near 1970, where no time can be far behind, it begins with the first record.

    >>> highest = HighestTime(1000, wall_us=lambda: 10_000)
    >>> for times in ([7000], [100, 200], [90_000, 5000, 300], [5000, 5001, 5002, 5003]):
    ...     highest.see(times)
    ...     print(highest.value, highest.disbelieved)
    None 0
    200 1
    300 3
    5003 3
    """

    def __init__(self, max_jump_us: int | None, wall_us: Callable[[], int] = wall_clock_us) -> None:
        self.value: int | None = None
        """None before it has begun."""
        self.disbelieved = 0
        """The number of times that were too far ahead of all others."""
        self._max_jump = _FOREVER if max_jump_us is None else max_jump_us
        self._wall_us = wall_us
        self._possible = wall_us() + self._max_jump
        """The highest possible time, as of the last look at the wall clock."""
        self._limit = _FOREVER if max_jump_us is None else -_FOREVER
        """The highest time that is believed at once."""
        self._ahead: list[int] = []
        """Successive times that are farther ahead; before the beginning, the first time alone."""

    def go_on_from(self, time_us: int) -> None:
        """Begin with this time, after another one."""
        self._rise(time_us)

    def believes(self, time_us: int) -> bool:
        """Whether a time as high as this is not too far ahead."""
        return time_us <= self._limit

    def see(self, times: Sequence[int]) -> None:
        """Add the times of some records, at least one, in their order."""
        top = max(times)
        if top > self._limit:
            self._see_each(times, top)
            return
        if self._ahead:
            self._fall_back()
        if self.value is None or top > self.value:
            self._rise(top)

    def _see_each(self, times: Sequence[int], top: int) -> None:
        if top > self._possible:
            self._possible = self._wall_us() + self._max_jump
        possible = [each for each in times if each <= self._possible]
        self.disbelieved += len(times) - len(possible)
        if self.value is None:
            possible = [*self._ahead, *possible]
            if not possible:
                return
            if len(possible) == 1 and possible[0] > self._max_jump:
                self._ahead = possible
                return
            self._ahead = []
            self._rise(min(possible))
        elif possible:
            self._rise(self.value)
        for each in possible:
            if each <= self._limit:
                self._fall_back()
                self._rise(each)
            else:
                self._ahead.append(each)
                if len(self._ahead) == _AGREE:
                    self._believe()

    def _believe(self) -> None:
        """Rise to the least of the times ahead, and on to those near it."""
        ahead, self._ahead = sorted(self._ahead), []
        self._rise(ahead[0])
        for each in ahead[1:]:
            if each <= self._limit:
                self._rise(each)
            else:
                self._ahead.append(each)

    def _fall_back(self) -> None:
        self.disbelieved += len(self._ahead)
        self._ahead.clear()

    def _rise(self, time_us: int) -> None:
        if self.value is None or time_us > self.value:
            self.value = time_us
        self._limit = min(self.value + self._max_jump, self._possible)


_AGREE = 3
"""The number of successive times that are believed, however far ahead."""
_FOREVER = 1 << 200
