"""Looked-up values as a column of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Set, ValuesView
from typing import Any

import numpy as np
import pyarrow as pa

from engine.record.column_values import array_of
from operators.columns.numbers import Numbers
from operators.columns.rows import chosen


class ValueColumn:
    """Adds values as a column "value", of a given type or that of the first value."""

    def __init__(self, is_left: bool, value_type: pa.DataType | None) -> None:
        self._is_left = is_left
        self._type = value_type
        self._is_told = value_type is not None

    def beside(self, batch: pa.RecordBatch, values: list[Any], rows: Numbers) -> pa.RecordBatch:
        """The rows with the values at these indexes.

        Rows without a value are left out, or have null.
        """
        if not self._is_left and None in values:
            is_found = np.array([value is not None for value in values])[rows]
            batch, rows = chosen(batch, is_found), rows[is_found]
        column = self._array(values).take(pa.array(rows))
        name = "value"
        while name in batch.schema.names:
            name += _SUFFIX
        return batch.append_column(name, column)

    def _array(self, values: list[Any]) -> pa.Array:
        try:
            if self._is_told:
                column = array_of(values, self._type)
            else:
                column = pa.array(values, self._type)
                for found, value in zip(column.to_pylist(), values, strict=True):
                    if not _is_same(found, value):
                        raise TypeError(f"{value!r:.80} would be {found!r:.80}")
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            expected = "of one type" if self._type is None else f"of type {self._type}"
            raise TypeError(
                f"lookup_join() found values that are no column, expected all {expected}: {error}"
                "\n\nhint: value_type=pa.float64(), or another, has them converted"
            ) from None
        if not pa.types.is_null(column.type):
            self._type = column.type
        return column


def _is_same(found: Any, value: Any) -> bool:
    """Whether the value read back is the same: PyArrow truncates what a type cannot hold."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, np.ndarray | np.generic):
        kind = value.dtype.kind
        value = (value.astype(f"{kind}8[us]") if kind in "mM" else value).tolist()
    if isinstance(value, Set | ValuesView):
        value = list(value)
    if isinstance(value, Mapping):
        has_all = isinstance(found, dict) and value.keys() <= found.keys()
        return has_all and all(_is_same(each, value.get(name)) for name, each in found.items())
    if isinstance(value, list | tuple):
        is_as_long = isinstance(found, list) and len(found) == len(value)
        return is_as_long and all(map(_is_same, found, value))
    return bool(found == value or (found != found and value != value))  # NaN is not equal to itself


_SUFFIX = "_right"
"""As in joins of two streams."""
