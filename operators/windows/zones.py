"""The offsets of a time zone from UTC: when its clocks change, and by how much they are ahead."""

from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.errors import GraphError

Offsets = tuple[int, tuple[tuple[int, int], ...]]
"""The first offset, and the moments since 1970 with the offset from then on; in microseconds."""


def zone_of(name: object) -> ZoneInfo:
    """The zone of this name. Raises `GraphError` if there is none."""
    if isinstance(name, str):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise GraphError(
        f"Calendar() got zone={name!r:.80}, expected the name of a time zone",
        hint='such as "Europe/Berlin" or "UTC"; zoneinfo.available_timezones() has all that this '
        "machine knows, and the package tzdata brings them where it knows none",
    )


@lru_cache(maxsize=64)
def offsets_of(name: str) -> Offsets:
    """The offsets of a zone from 1900 to 2200; before and behind, clocks do not change.

    `zoneinfo` tells the offset at a moment alone, so that one is looked at each week, and the
    moment of a change is found between two. It takes some 20 ms.
    """
    zone = zone_of(name)
    first = before = _at(zone, _FIRST_S)
    changes = []
    for second in range(_FIRST_S + _WEEK_S, _LAST_S, _WEEK_S):
        offset = _at(zone, second)
        if offset != before:
            low, high = second - _WEEK_S, second
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _at(zone, middle) == before else (low, middle)
            changes.append((high * 1_000_000, offset))
            before = offset
    return first, tuple(changes)


def _at(zone: tzinfo, second: int) -> int:
    """The offset at a moment, in microseconds."""
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST_S = (datetime(1900, 1, 1, tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)
_LAST_S = (datetime(2200, 1, 1, tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)
_WEEK_S = 7 * 86_400
