"""Operators without state: `MapBatches`, and conversions between records and columns.

`map`, `filter` and `flat_map` are `RecordOperator`s, which the runtime turns into loops. Here is
only their check of arguments (`check_function`).
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.columns import (
    Rows,
    as_columns,
    columns_of,
    fitted,
    import_pyarrow,
    is_columns,
    joined,
    slices,
)
from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator, PureFunction
from engine.graph.checks import check_integer
from engine.graph.context import TaskContext
from engine.graph.operator import Properties


@dataclass(frozen=True)
class MapBatches(BatchOperator):
    """Calls a function with each batch, in pieces of at most `max_records` if that is given.

    A batch is a list of records, or a `pyarrow.RecordBatch` if the stream has columns. With
    `paired`, pairs of a key and a record arrive, and the function gets the records.

    >>> context = TaskContext("map_batches[0]", 0, 1, 100, "job")
    >>> MapBatches(sorted, max_records=2).open(context).process([3, 1, 2])
    [1, 3, 2]
    """

    function: Callable[[Any], Any]
    max_records: int | None = None
    paired: bool = False

    properties = Properties(accepts_columns=True)

    def __post_init__(self) -> None:
        check_function("map_batches", self.function, 1)
        if self.max_records is not None:
            check_integer("max_records", self.max_records, 1)

    def open(self, context: TaskContext) -> BatchFunction:
        """The function with a check of what it returns."""
        function, limit, paired = self.function, self.max_records, self.paired

        def map_batch(batch: Any) -> Any:
            if paired:
                batch = [pair[1] for pair in batch]
            if not len(batch):
                return []
            if limit is None or len(batch) <= limit:
                return checked_batch(function(batch))
            if is_columns(batch):
                return _joined([checked_batch(function(piece)) for piece in slices(batch, limit)])
            pieces = (batch[start : start + limit] for start in range(0, len(batch), limit))
            return _joined([checked_batch(function(piece)) for piece in pieces])

        return PureFunction(map_batch)


@dataclass(frozen=True)
class ToColumns(BatchOperator):
    """Makes a `pyarrow.RecordBatch` of each batch of dicts; columns pass as they are.

    `schema` is a `pyarrow.Schema` with the fields of the result. Without one, the columns of a
    batch are the fields of all its dicts, with the types of the values.
    """

    schema: Any = None

    properties = Properties(accepts_columns=True, accepts_rows=True, emits_columns=True)

    def __post_init__(self) -> None:
        import_pyarrow("to_columns()")

    def open(self, context: TaskContext) -> BatchFunction:
        """The conversion."""
        schema = self.schema

        def to_columns(batch: Any) -> Any:
            if is_columns(batch):
                return batch if schema is None else fitted(batch, schema)
            if not len(batch):
                return []
            if type(batch) is Rows:
                return batch.to_columns(schema, context.failing)
            return columns_of(batch, schema, context.failing)

        return PureFunction(to_columns)


@dataclass(frozen=True)
class ToRecords(BatchOperator):
    """Makes a dict of each row of columns; records pass as they are."""

    properties = Properties(emits_records=True, emits_rows=True, accepts_columns=True)

    def open(self, context: TaskContext) -> BatchFunction:
        """The conversion."""

        def to_records(batch: Any) -> Any:
            return Rows.of(batch) if is_columns(batch) else batch

        return PureFunction(to_records)


def check_function(
    method: str, function: object, arguments: int, expected: str = "a function"
) -> None:
    """Raise `GraphError` unless it can be called with this many arguments."""
    if not callable(function):
        raise GraphError(
            f"{method}() got {type(function).__name__} {function!r:.80}, expected {expected}",
            hint=f"pass the function itself, such as .{method}(f), not what it returns",
        )
    if inspect.iscoroutinefunction(function):
        raise GraphError(
            f"{method}() got the coroutine function {_name(function)}, expected a plain function",
            hint="a function that is awaited goes into .map_async(f)",
        )
    check_arguments(method, function, arguments)


def check_arguments(method: str, function: Callable[..., Any], arguments: int) -> None:
    """Raise `GraphError` unless the function can be called with this many arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError:
        raise GraphError(
            f"{method}() got {_name(function)}{signature}, "
            f"expected a function of {arguments} argument{'s' * (arguments > 1)}"
        ) from None


def checked_batch(result: object, method: str = "map_batches") -> Any:
    """The batch that a user's function has returned; TypeError if it is none."""
    if type(result) is list:
        return result
    columns = as_columns(result)
    if columns is None:
        columns = _items(result)
    if columns is None:
        raise TypeError(
            f"the function of {method} returned {type(result).__name__} {result!r:.80}, "
            "expected a list, an array of NumPy, a pyarrow.RecordBatch, a pyarrow.Table or a frame "
            "of pandas or Polars\n\nhint: return list(…) of what has the records"
        )
    # A frame without columns has no schema, like an empty list.
    return columns if len(columns) or getattr(columns, "num_columns", 0) else []


def _items(result: Any) -> list[Any] | None:
    """The items of an array of NumPy or a series; None for other values.

    Numbers and texts become Python's own, which travel faster; rows of an array stay arrays.
    """
    package, kind = type(result).__module__.partition(".")[0], type(result).__name__
    if (package, kind) == ("polars", "Series"):
        return list(result.to_list())
    if (package, kind) == ("pandas", "Series"):
        return list(result.tolist())
    if (package, kind) != ("numpy", "ndarray") or not result.ndim:
        return None
    is_plain = result.ndim == 1 and result.dtype.kind in "biufcUSO"
    return list(result.tolist() if is_plain else result)


def _joined(results: list[Any]) -> Any:
    """One batch from the pieces' results, which must be of one kind; an empty list fits both."""
    columns = [result for result in results if is_columns(result)]
    records = [record for result in results if type(result) is list for record in result]
    if columns and records:
        raise TypeError(
            "the function of map_batches returned a list for one piece of a batch and columns for "
            "another, expected one kind"
        )
    return joined(columns) if columns else records


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
