"""A source that runs a user's generator function."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from engine.columns import is_columns, part, slices
from engine.errors import GraphError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator, SourceReader
from operators.sources.batches import batches
from operators.sources.rate import check_rate

T = TypeVar("T")


@dataclass(frozen=True)
class At:
    """The next records of a source function, and the position after them."""

    position: Any
    """Numbers and texts, in tuples; not None."""
    item: Any
    """A record, a list of them, or a `pyarrow.RecordBatch`."""


class Function(SourceOperator[T]):
    """Calls the function once in every task, and iterates over the result.

    It gets the `TaskContext` if it has a parameter for one. It gives records, lists of records (of
    any length, so a record that is a list must be inside a list) or `pyarrow.RecordBatch`es, whose
    rows are the records. `rate` is records per second over all tasks.

    >>> def numbers(context):
    ...     yield from range(context.index, 10, context.parallelism)
    >>> list(Function(numbers).open(TaskContext("function[1]", 1, 3, 100, "job")))
    [1, 4, 7]

    In a job with checkpoints it has a second parameter, `position`, where it begins: None at first.
    It gives each item as an `At`, with the position behind the item. From a position it has to give
    the same items again. The context stays that of its share, however many tasks there are.

    >>> def pairs(context, position):
    ...     for number in range(position or 0, 6, 2):
    ...         yield At(number + 2, [number, number + 1])
    >>> first = Function(pairs).open(context := TaskContext("function[0]", 0, 1, 100, "job"))
    >>> next(iter(first))
    [0, 1]
    >>> second = Function(pairs).open(context)
    >>> second.restore(first.position)
    >>> list(second)
    [[2, 3], [4, 5]]
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
        self.parameters = _parameters(function)
        self.rate = rate

    @property
    def properties(self) -> Properties:
        """Its rate, and whether it gives positions."""
        meaning = {"kind": "function"}
        return Properties(rate=self.rate, goes_on=self.parameters == 2, meaning=meaning)

    def open(self, context: TaskContext) -> Iterable[Any]:
        """The function's items; its lists are cut into batches."""
        if self.parameters == 2:
            return _Reader(self.function, context)
        return self._batches(context)

    def _batches(self, context: TaskContext) -> Iterator[Any]:
        for item in _called(self.function, *(context,) * self.parameters):
            yield from _cut(item, context.batch_size)


class _Reader(SourceReader):
    """The items of one task. A position is the function's, and a number of records behind it."""

    def __init__(self, function: Callable[..., Iterable[At]], context: TaskContext) -> None:
        self._function = function
        self._context = context
        self._at: tuple[Any, int] = (None, 0)

    @property
    def position(self) -> tuple[Any, int]:
        return self._at

    def restore(self, position: tuple[Any, int]) -> None:
        self._at = position

    def __iter__(self) -> Iterator[Any]:
        begin, skipped = self._at
        for at in _called(self._function, self._context, begin):
            if not isinstance(at, At):
                raise TypeError(
                    f"the source function gave {type(at).__name__} {at!r:.80}, expected At(…): it "
                    "has a parameter for the position"
                )
            item, given = at.item, 0
            if skipped:  # an item without a record may come again in front of those that were given
                given = min(skipped, len(item))
                item = part(item, given)
                skipped -= given
            cut = _cut(item, self._context.batch_size)
            for batch in cut[:-1]:
                given += len(batch)
                self._at = begin, given
                yield batch
            begin = at.position
            self._at = begin, skipped
            yield from cut[-1:]


def _called(function: Callable[..., Iterable[Any]], *arguments: Any) -> Iterable[Any]:
    given = function(*arguments)
    if not isinstance(given, Iterable):
        raise TypeError(
            f"the source function returned {type(given).__name__} {given!r:.80}, "
            "expected a generator or another iterable"
        )
    return given


def _cut(item: Any, size: int) -> list[Any]:
    if type(item) is list and len(item) > size:
        return batches(item, size)
    return list(slices(item, size)) if is_columns(item) else [item]


def _parameters(function: object) -> int:
    """The number of its arguments: none, the context, or the context and a position."""
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
    except (TypeError, ValueError):  # some built-in functions have no signature
        return 0
    most = 2 if "position" in signature.parameters else 1
    for count in range(most, -1, -1):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count
    raise GraphError(
        f"Function got a function of {signature}, expected no argument, "
        "the TaskContext, or that and position"
    )
