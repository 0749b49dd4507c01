"""`take`: the first records of a stream."""

from dataclasses import dataclass
from typing import Any

from engine.columns import is_columns
from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.state import KeyedState


@dataclass(frozen=True)
class Take(BatchOperator):
    """Passes `limit` records; it runs in one task, so that there is one count.

    >>> context = TaskContext("take[0]", 0, 1, 100, "job")
    >>> take = Take(3).open(context)
    >>> take.process([1, 2]), take.process([3, 4]), take.process([5])
    ([1, 2], [3], [])
    """

    limit: int

    @property
    def properties(self) -> Properties:
        """One task, and the number of records that it passes."""
        return Properties(
            parallelism=1,
            accepts_columns=True,
            limit=self.limit,
            meaning={"kind": "take", "limit": self.limit},
        )

    def __post_init__(self) -> None:
        check_count("take", self.limit)

    def open(self, context: TaskContext) -> BatchFunction:
        """The function that counts down."""
        return _Take(self.limit)


class _Take(BatchFunction):
    def __init__(self, limit: int) -> None:
        self._left = limit

    def process(self, batch: Any) -> Any:
        left = self._left
        if not left:
            return []
        taken = batch
        if len(batch) > left:
            taken = batch.slice(0, left) if is_columns(batch) else batch[:left]
        self._left = left - len(taken)
        return taken

    def snapshot(self) -> KeyedState:
        return KeyedState.of([(None, self._left)])

    def restore(self, state: KeyedState) -> None:
        ((_, self._left),) = state.items()


def check_count(method: str, count: object) -> None:
    """Raise `GraphError` unless it is a number of records."""
    if type(count) is not int or count < 1:
        raise GraphError(f"{method}() got {count!r:.80}, expected a number of records >= 1")
