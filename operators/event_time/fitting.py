"""The likely unit of numeric times, as times of today show it."""

from datetime import datetime, timedelta, timezone

from operators.event_time.highest_time import wall_clock_us
from operators.event_time.selector import MICROSECONDS, Unit


def fitting_unit(time_us: int, unit: Unit, now_us: int | None = None) -> Unit | None:
    """The unit in which a number is a time of the last twenty years; None if its own may be right.

    A time between 2000 and now may be right; so may small numbers, which are near 1970 in every
    unit.

    >>> now = 1_795_600_000_000_000
    >>> fitting_unit(1_795_600_000_000, "us", now), fitting_unit(1_795_600_000, "us", now)
    ('ms', 's')
    >>> fitting_unit(now, "us", now), fitting_unit(1000, "us", now)
    (None, None)
    """
    now_us = wall_clock_us() if now_us is None else now_us
    if _is_of_today(time_us, now_us):
        return None
    others: list[Unit] = ["s", "ms", "us", "ns"]
    others.remove(unit)
    fitting = (each for each in others if _is_of_today(as_unit(time_us, unit, each), now_us))
    return next(fitting, None)


def as_unit(time_us: int, unit: Unit, other: Unit) -> int:
    """The microseconds of a number, read in the other unit."""
    return time_us * _NANOSECONDS[other] // _NANOSECONDS[unit]


def told(time_us: int) -> str:
    """The time as a text."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat(" ", "seconds")
    except OverflowError:
        return f"{time_us // _YEAR_US + 1970:,} A.D."


def _is_of_today(time_us: int, now_us: int) -> bool:
    return now_us - 20 * _YEAR_US <= time_us <= now_us + _DAY_US


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DAY_US = 86_400_000_000
_YEAR_US = 365 * _DAY_US
_NANOSECONDS = {"ns": 1, **{unit: 1000 * us for unit, us in MICROSECONDS.items()}}
