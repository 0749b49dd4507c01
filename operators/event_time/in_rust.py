"""Times that Rust reads in encoded records: where they are, and those that Python has to read."""

from typing import Any

from operators.event_time.selector import FARTHEST_US, TimeSelector
from operators.keys import Item


def path_to_time(selector: TimeSelector | None) -> tuple[list[Item], str | None, Item | None, int]:
    """The path to the time, or to the record if a function finds it, and its unit.

    Then the column of times, if the path is none of columns, and how far the time is before it.
    """
    if selector is None:
        return [], None, None, 0
    item, unit = selector.item, selector.unit
    found = [] if item is None or callable(item) else [item]
    if selector.in_front:
        found = [0, *found]
    path = [1, *found] if selector.paired else found
    column: Item | None = selector.column
    if column is None and selector.in_front and not callable(item):
        column = item
    return path, None if callable(item) else unit, column, selector.before_us


class TimesForRust:
    """Times for Rust: those that are no numbers, and the form of times in results."""

    def __init__(self, selector: TimeSelector) -> None:
        self._selector = selector
        self.like = selector.like

    def microseconds(self, found: Any) -> int:
        """The microseconds of the value that Rust found. ValueError if it is too far away."""
        time_us = self._selector.in_microseconds(self._time(found))
        if abs(time_us) > FARTHEST_US:
            raise ValueError(
                "its time is more than 146,000 years from 1970\n\n"
                "hint: say what numbers count by unit=..., or compute the time by a function"
            )
        return time_us

    def form(self, found: Any) -> Any:
        """The start of 1970, in the form of this time."""
        return self.like(self._time(found))(0)

    def _time(self, found: Any) -> Any:
        item = self._selector.item
        return item(found) if callable(item) else found
