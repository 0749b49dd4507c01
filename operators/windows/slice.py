"""A slice of time, with the value of each key in it."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from operators.event_time import TimeSelector


class Slice:
    """A span of time, with the value of each key in it."""

    __slots__ = ("changed", "first_end", "form", "place", "start", "values")

    def __init__(
        self, start: int, form: Any, first_end: int, bounds: tuple[Any, Any], tells_changes: bool
    ) -> None:
        self.start = start
        self.form = form
        """1970, in the form of the first time that came."""
        self.first_end = first_end
        """The end of the first window that it is in."""
        self.changed: dict[Any, None] = {}
        """The keys that changed, where that is told, until it is noted for its windows."""
        self.values: dict[Any, Any] = _Noting(self.changed) if tells_changes else {}
        self.place = (*bounds, self.values)
        """See `Slices.place_of`."""

    def has(self, time: Any) -> bool:
        """Whether a time is between the bounds, and can be compared with them."""
        first, last, *_ = self.place
        try:
            return bool(first <= time <= last)
        except TypeError:
            return False


class _Noting(dict[Any, Any]):
    """Values of keys, which notes the keys that are set."""

    def __init__(self, changed: dict[Any, None]) -> None:
        super().__init__()
        self._changed = changed

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._changed[key] = None


class Again:
    """The values of a slice whose windows are complete: it tells of each new value."""

    def __init__(self, each: Slice, tell: Callable[[Any], None]) -> None:
        self._values = each.values
        self._tell = tell
        self.get = each.values.get

    def __contains__(self, key: Any) -> bool:
        return key in self._values

    def __getitem__(self, key: Any) -> Any:
        return self._values[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key] = value
        self._tell(key)


def bounds_of(time: TimeSelector, form: Any, start: int, end: int) -> tuple[Any, Any]:
    """A first and a last of what is there for a time, between which all are in the slice.

    Times rise with their microseconds, so it is enough that these two are in it.
    """
    with suppress(OverflowError):  # no datetime is that far away
        first, last = map(time.like(form), (start + time.before_us, end - 1 + time.before_us))
        if isinstance(first, datetime) and first.tzinfo is not None:
            # Of one zone, Python compares what clocks show, which go back once a year.
            first, last = first.astimezone(timezone.utc), last.astimezone(timezone.utc)
        if (*map(time.in_microseconds, (first, last)),) == (start, end - 1):
            return first, last
    return NEVER_IN, NEVER_IN


class _Never:
    """The first and the last time of no slice: no time is behind it, of whatever kind."""

    def __le__(self, time: Any) -> bool:
        return False


NEVER_IN = _Never()
NOWHERE: Any = (NEVER_IN, NEVER_IN, {})
"""The place in which no time is; see `Slices.place_of`."""
