"""Functions of rows of columns that several queries share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def selected(*names: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function of rows that leaves these columns, in this order."""

    def select(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.select([*names])

    return select


def without(name: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function of rows that drops the column."""

    def drop(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.drop_columns(name)

    return drop


def renamed(names: Sequence[str]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function of rows that gives the columns these names."""

    def rename(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.rename_columns([*names])

    return rename
