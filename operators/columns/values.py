"""Values that were found for rows, as a column of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from operators.columns.numbers import Numbers


class ValueColumn:
    """Puts values into a column "value", of a type that is told or that of the first of them."""

    def __init__(self, is_left: bool, value_type: pa.DataType | None) -> None:
        self._is_left = is_left
        self._type = value_type

    def beside(self, batch: pa.RecordBatch, values: list[Any], rows: Numbers) -> pa.RecordBatch:
        """The rows with the values that have these numbers.

        Those whose value is None are left out, or have null.
        """
        if not self._is_left and None in values:
            chosen = np.array([value is not None for value in values])[rows]
            batch, rows = batch.filter(pa.array(chosen)), rows[chosen]
        column = self._array(values).take(pa.array(rows))
        name = "value"
        while name in batch.schema.names:
            name += _SUFFIX
        return batch.append_column(name, column)

    def _array(self, values: list[Any]) -> pa.Array:
        try:
            column = pa.array(values, self._type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            expected = "of one type" if self._type is None else f"of type {self._type}"
            raise TypeError(
                f"lookup_join() found values that are no column, expected all {expected}: {error}"
                "\n\nhint: value_type=pa.float64(), or another, has them converted"
            ) from None
        if not pa.types.is_null(column.type):
            self._type = column.type
        return column


_SUFFIX = "_right"
"""As in joins of two streams."""
