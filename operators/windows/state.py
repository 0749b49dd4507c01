"""The windows of one task as a state, without clock or I/O, for the operator around them."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from engine.state import KeyedState

Result: TypeAlias = tuple[Any, Any, Any, Any]
"""The key, the value, the window's start and its end."""


class WindowState(Protocol):
    """The windows of one task, which records come into and results come out of.

    Results of one call are in the order of the windows' ends, then of their keys' first records.
    """

    late: list[Any]
    """Records that came too late, as they came; the reader empties it."""

    def add(self, batch: list[Any]) -> list[Result]:
        """Take records in; returns the windows that they complete."""

    def close(self, watermark: float) -> Iterator[Result]:
        """The windows that are complete when all that follow are later than this, in microseconds.

        It is to be read to its end. What is gone then has left nothing behind.
        """

    def changed(self) -> Iterator[Result]:
        """The windows that changed since they last came, where results come before the end."""

    @property
    def has_changed(self) -> bool:
        """Whether there are any."""

    def snapshot(self, pickle: bool) -> KeyedState:
        """What is kept of each key."""

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on with what was kept of some keys; before the first record."""


NEVER = float("-inf")
"""The watermark before the first."""
AT_THE_END = float("inf")
"""The watermark behind the last record."""
