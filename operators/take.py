"""`take`: the first records of a stream, and then no more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.columns import is_columns
from engine.errors import GraphError
from engine.graph.operator import BatchOperator, Properties, TaskContext


@dataclass(frozen=True)
class Take(BatchOperator):
    """Lets `limit` records through; it runs in one task, so that there is one count.

    >>> context = TaskContext("take[0]", 0, 1, 100, "job")
    >>> take = Take(3).open(context)
    >>> take([1, 2]), take([3, 4]), take([5])
    ([1, 2], [3], [])
    """

    limit: int

    @property
    def properties(self) -> Properties:
        """One task, and how many records it lets through."""
        return Properties(parallelism=1, accepts_columns=True, limit=self.limit)

    def __post_init__(self) -> None:
        check_count("take", self.limit)

    def open(self, context: TaskContext) -> Callable[[Any], Any]:
        """The function that counts down."""
        left = self.limit

        def take(batch: Any) -> Any:
            nonlocal left
            if not left:
                return []
            taken = batch
            if len(batch) > left:
                taken = batch.slice(0, left) if is_columns(batch) else batch[:left]
            left -= len(taken)
            return taken

        return take


def check_count(method: str, count: object) -> None:
    """Raise `GraphError` unless it is a number of records."""
    if type(count) is not int or count < 1:
        raise GraphError(f"{method}() got {count!r:.80}, expected a number of records >= 1")
