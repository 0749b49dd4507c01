"""Figures as a person reads them: three digits, in a unit that suits, never as 1e+03."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def rate(per_second: float) -> str:
    """A rate: `1.23M`, `45.6k`, `789`, `0.5`."""
    return _in_units(per_second, _FACTORS)


def duration(microseconds: float) -> str:
    """A duration: `85 µs`, `1.2 ms`, `3.4 s`, `12.5 min`, `3 days`."""
    return _in_units(microseconds, _TIMES)


def counted(number: int, what: str) -> str:
    """A count with its noun: `1 task`, `1,200 tasks`."""
    return f"{number:,} {what if number == 1 else what + 's'}"


def measure(value: float | Mapping[str, int], unit: str) -> str:
    """A time in this unit, bytes, so many of what is counted, or a number; or a count of each."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {count:,}" for name, count in value.items())
    if unit in _IN_MICROSECONDS:
        return duration(value * _IN_MICROSECONDS[unit])
    if unit == "byte":
        return f"{rate(value)}B"
    return counted(int(value), unit) if unit else f"{value:,}"


def three_digits(value: float) -> str:
    """The value to three significant digits, with all of those before the point: `12,345`."""
    return f"{value:.3g}" if abs(value) < _ALMOST_1000 else f"{value:,.0f}"


def _in_units(value: float, units: Sequence[tuple[float, float, str]]) -> str:
    """In the last unit that the value has reached, as it is rounded."""
    size, unit = next(
        (size, unit) for least, size, unit in reversed(units) if abs(value) >= least or not least
    )
    return f"{three_digits(value / size)}{unit}"


_ALMOST_1000 = 999.5
"""What three digits round up to 1000."""
_FACTORS = ((0.0, 1.0, ""), (_ALMOST_1000, 1e3, "k"), (999.5e3, 1e6, "M"), (999.5e6, 1e9, "G"))
_TIMES = (
    (0.0, 1.0, " µs"),
    (_ALMOST_1000, 1e3, " ms"),
    (999.5e3, 1e6, " s"),
    (600e6, 60e6, " min"),
    (2 * 3600e6, 3600e6, " h"),
    (2 * 86_400e6, 86_400e6, " days"),
    (2 * 31_557_600e6, 31_557_600e6, " years"),
)
"""From what on, in units of how much, and the unit."""
_IN_MICROSECONDS = {"µs": 1.0, "ms": 1e3, "s": 1e6}
