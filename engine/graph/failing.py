"""The place of a failure: as an exception passes, each level adds what it knows.

Without a failure this costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any


class FailureContext:
    """The facts about a failure in a task besides its exception.

    A loop over records adds the record:

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
        """The operator that failed; None is the first of the task."""
        self.record: tuple[Any] | None = None
        """The record at the failure, from the innermost loop."""

    def at_work(self, operator: str) -> Callable[[], FailureContext]:
        """The function that adds this operator to a failure; its loop keeps it."""

        def tell() -> FailureContext:
            self.operator = operator
            return self

        return tell

    def on(self, record: Any) -> None:
        """Note that this record failed."""
        if self.record is None:
            self.record = (record,)

    def at(self, batch: list[Any], records: Iterator[Any]) -> None:
        """Note that the record failed which this iterator of the list gave last."""
        place = len(batch) - length_hint(records) - 1
        if 0 <= place < len(batch):  # otherwise there was none, or a function has changed the list
            self.on(batch[place])
