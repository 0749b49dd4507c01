"""Checks of users' arguments that several declarations share."""

from engine.errors import GraphError


def check_integer(setting: str, value: object, least: int) -> None:
    """Raise `GraphError` unless the value is an int of at least `least`."""
    if type(value) is not int or value < least:
        raise GraphError(f"{setting} is {value!r}, expected an integer >= {least}")
