"""Checks of durations, which users give as `timedelta`."""

from datetime import timedelta

from engine.errors import GraphError

ZERO = timedelta(0)


def microseconds(duration: timedelta) -> int:
    """Exactly."""
    return duration // timedelta(microseconds=1)


def nanoseconds(duration: timedelta) -> int:
    """Exactly."""
    return microseconds(duration) * 1000


def check_duration(
    name: str, value: object, least: timedelta | None = timedelta.resolution
) -> None:
    """Raise `GraphError` unless it is a duration of at least `least`: by default, above 0."""
    if not isinstance(value, timedelta):
        raise GraphError(
            f"{name} is {value!r:.80}, expected a timedelta",
            hint="from datetime import timedelta; such as timedelta(seconds=10)",
        )
    if least is not None and value < least:
        expected = "more than 0" if least == timedelta.resolution else f"at least {least}"
        raise GraphError(f"{name} is {value!r}, expected {expected}")
