"""Where an operator was when it failed: told as the exception passes, by what it passes through.

While nothing fails, nothing is told, and it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any


class Failing:
    """What is known of a failure in a task beside its exception.

    A loop over records tells which one it was at:

        records = iter(batch)
        try:
            for record in records:
                out.append(function(record))
        except BaseException:
            failing.at(batch, records)
            raise
    """

    def __init__(self) -> None:
        self.operator: str | None = None
        """The operator that was at work; None is the first of the task."""
        self.record: tuple[Any] | None = None
        """The record that it was at, as the innermost loop has told."""

    def at_work(self, operator: str) -> Callable[[], Failing]:
        """What this operator calls to tell of itself: one thing for its loop to hold."""

        def tell() -> Failing:
            self.operator = operator
            return self

        return tell

    def on(self, record: Any) -> None:
        """Tell that it was this record."""
        if self.record is None:
            self.record = (record,)

    def at(self, batch: list[Any], records: Iterator[Any]) -> None:
        """Tell that it was the record which this iterator of the list gave last."""
        place = len(batch) - length_hint(records) - 1
        if 0 <= place < len(batch):  # else there was none, or a function has changed the list
            self.on(batch[place])
