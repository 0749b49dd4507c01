"""Record batches, as far as the engine knows them: PyArrow is imported only where it is used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from engine.errors import GraphError

if TYPE_CHECKING:
    import pyarrow as pa


def is_columns(batch: object) -> bool:
    """Whether this is a `pyarrow.RecordBatch`; does not import PyArrow.

    >>> is_columns([1, 2])
    False
    """
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(batch, pyarrow.RecordBatch)


def slices(batch: pa.RecordBatch, rows: int) -> list[pa.RecordBatch]:
    """The batch in slices of at most so many rows, in order and without a copy."""
    if batch.num_rows <= rows:
        return [batch]
    return [batch.slice(start, rows) for start in range(0, batch.num_rows, rows)]


def as_columns(result: object) -> Any:
    """A RecordBatch as it is, a Table as one RecordBatch, None for anything else."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None:
        return None
    if isinstance(result, pyarrow.RecordBatch):
        return result
    if isinstance(result, pyarrow.Table):
        parts = result.combine_chunks().to_batches()
        return parts[0] if parts else pyarrow.RecordBatch.from_pylist([], result.schema)
    return None


def import_pyarrow(what: str) -> Any:
    """The module `pyarrow`; `GraphError` where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise GraphError(
            f"{what} needs PyArrow, which is not installed", hint="pip install 'oka[arrow]'"
        ) from None
    return pyarrow


def refusal(operator: str, batch: pa.RecordBatch, hint: str | None = None) -> TypeError:
    """The exception for columns where records were expected; `hint` is the operator's own."""
    names = batch.schema.names or [""]
    ways = "map_batches takes a function of a RecordBatch; to_records() makes a dict of each row"
    return TypeError(
        f"{operator} got columns ({', '.join(names)}: a pyarrow.RecordBatch), expected records\n\n"
        f"hint: {'' if hint is None else hint.format(column=names[0]) + '; '}{ways}"
    )
