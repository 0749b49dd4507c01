"""Operators on records of which none needs another: the check of functions, and `MapBatches`.

`map`, `filter` and `flat_map` are `RecordOperator`s, which the runtime turns into loops; so all
there is to do here for them is to refuse what could not work.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.errors import GraphError
from engine.graph.operator import BatchOperator, TaskContext


@dataclass(frozen=True)
class MapBatches(BatchOperator):
    """Calls a function with each batch, in pieces of at most `max_records` where that is given.

    `paired` tells that what arrives are pairs of a key and the record that the function wants.

    >>> context = TaskContext("map_batches[0]", 0, 1, 100, "job")
    >>> MapBatches(sorted, max_records=2).open(context)([3, 1, 2])
    [1, 3, 2]
    """

    function: Callable[[list[Any]], list[Any]]
    max_records: int | None = None
    paired: bool = False

    def __post_init__(self) -> None:
        check_function("map_batches", self.function, 1)
        limit = self.max_records
        if limit is not None and (type(limit) is not int or limit < 1):
            raise GraphError(f"max_records is {limit!r}, expected an integer >= 1")

    def open(self, context: TaskContext) -> Callable[[list[Any]], list[Any]]:
        """The function with a check of what it returns."""
        function, limit, paired = self.function, self.max_records, self.paired

        def map_batch(batch: list[Any]) -> list[Any]:
            if paired:
                batch = [pair[1] for pair in batch]
            if not batch:
                return []
            if limit is None or len(batch) <= limit:
                return _checked(function(batch))
            out: list[Any] = []
            for start in range(0, len(batch), limit):
                out += _checked(function(batch[start : start + limit]))
            return out

        return map_batch


def check_function(
    method: str, function: object, arguments: int, expected: str = "a function"
) -> None:
    """Raise `GraphError` unless it can be called with so many records."""
    if not callable(function):
        raise GraphError(
            f"{method}() got {type(function).__name__} {function!r:.80}, expected {expected}",
            hint=f"pass the function itself, such as .{method}(f), not what it returns",
        )
    if inspect.iscoroutinefunction(function):
        raise GraphError(
            f"{method}() got the coroutine function {_name(function)}, expected a plain function"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError:
        raise GraphError(
            f"{method}() got {_name(function)}{signature}, "
            f"expected a function of {arguments} argument{'s' * (arguments > 1)}"
        ) from None


def _checked(result: object) -> list[Any]:
    if type(result) is not list:
        raise TypeError(
            f"the function of map_batches returned {type(result).__name__} {result!r:.80}, "
            "expected a list"
        )
    return result


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
