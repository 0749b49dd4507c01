"""What the windows of one task are to the operator around them: a state, without clock or I/O."""

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
    """Records that came too late, as they came; whoever reads them empties it."""

    def add(self, batch: list[Any]) -> list[Result]:
        """Take records in; what is complete with them."""

    def close(self, watermark: float) -> Iterator[Result]:
        """What is complete when all that follow are later than this, in microseconds.

        It is to be read to its end. What is gone then has left nothing behind.
        """

    def changed(self) -> Iterator[Result]:
        """The windows that changed and did not come since, where results come before the end."""

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
