"""A source that runs a generator function of the user's."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

from engine.columns import is_columns, slices
from engine.errors import GraphError
from engine.graph.operator import Properties, SourceOperator, TaskContext
from operators.sources.batches import batches
from operators.sources.rate import check_rate

T = TypeVar("T")


class Function(SourceOperator[T]):
    """Calls the function once in every task; what it returns is iterated over.

    It gets the `TaskContext` if it has a parameter for one. It gives records, lists of records (of
    any length, so a record that is a list must be inside a list) or `pyarrow.RecordBatch`es, whose
    rows are the records. `rate` is records per second over all tasks.

    >>> def numbers(context):
    ...     yield from range(context.index, 10, context.parallelism)
    >>> list(Function(numbers).open(TaskContext("function[1]", 1, 3, 100, "job")))
    [1, 4, 7]
    """

    @overload
    def __init__(
        self: "Function[T]", function: Callable[..., Iterable[list[T]]], rate: float | None = None
    ) -> None: ...
    @overload
    def __init__(self, function: Callable[..., Iterable[T]], rate: float | None = None) -> None: ...
    def __init__(self, function: Callable[..., Iterable[Any]], rate: float | None = None) -> None:
        check_rate(rate)
        self.function = function
        self.takes_context = _takes_context(function)
        self.rate = rate

    @property
    def properties(self) -> Properties:
        """Its rate."""
        return Properties(rate=self.rate)

    def open(self, context: TaskContext) -> Iterator[Any]:
        """What the function gives; its lists divided into batches."""
        given = self.function(context) if self.takes_context else self.function()
        if not isinstance(given, Iterable):
            raise TypeError(
                f"the source function returned {type(given).__name__} {given!r:.80}, "
                "expected a generator or another iterable"
            )
        size = context.batch_size
        for item in given:
            if type(item) is list and len(item) > size:
                yield from batches(item, size)
            elif is_columns(item):
                yield from slices(item, size)
            else:
                yield item


def _takes_context(function: object) -> bool:
    if not callable(function) or isinstance(function, type):
        raise GraphError(
            f"Function got {type(function).__name__} {function!r:.80}, "
            "expected a generator function",
            hint="pass the function itself, Function(f); for a list there is Collection([...])",
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise GraphError("Function got an async function, expected a plain generator function")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return False
    for arguments in ((None,), ()):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise GraphError(
        f"Function got a function of {signature}, expected no argument or one, the TaskContext"
    )
