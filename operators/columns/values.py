"""Values that were found for rows, as a column of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from operators.columns.numbers import Numbers


class ValueColumn:
    """Puts values into a column "value", which has the type of the first of them from then on."""

    def __init__(self, name: str, is_left: bool) -> None:
        self._name = name
        self._is_left = is_left
        self._type: pa.DataType | None = None

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
            so_far = "of one type" if self._type is None else f"of type {self._type}, as before"
            raise TypeError(
                f"{self._name} found values that are no column: {error}\n\n"
                f"hint: values beside columns are {so_far}; or call .to_records() before it"
            ) from None
        if not pa.types.is_null(column.type):
            self._type = column.type
        return column


_SUFFIX = "_right"
"""As in joins of two streams."""
