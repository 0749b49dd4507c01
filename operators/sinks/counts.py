"""A sink that keeps the last value of each key."""

import math
from typing import Any, ClassVar

import numpy as np

from engine.columns import import_pyarrow, is_columns
from engine.graph.operator import SinkOperator, SinkWriter, TaskContext


class Counts(SinkOperator[tuple[Any, Any]]):
    """A dict of the last value of each key, from records (key, value), as the job's output.

    Where the stream has columns, there are two: keys and values.
    It takes what a keyed aggregation emits. The order of a key's updates must be kept on the way:
    it is at the aggregation's own parallelism and at any lower one.
    """

    driver: ClassVar[bool] = True
    accepts_columns = True

    def open(self, context: TaskContext) -> SinkWriter:
        """An empty dict."""
        return _CountsWriter()

    def merge(self, results: list[dict[Any, Any]]) -> dict[Any, Any]:
        """The dicts of the tasks in one; each key was in one task only."""
        merged: dict[Any, Any] = {}
        for result in results:
            merged.update(result)
        return merged


class _CountsWriter(SinkWriter):
    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}
        self._columns = _LastRows()

    def write(self, records: Any) -> None:
        if is_columns(records):
            if records.num_columns != 2:
                names = ", ".join(records.schema.names)
                raise TypeError(f"Counts got the columns {names}, expected two: keys and values")
            if not self._columns.add(records):
                self._values.update(self._columns.take())
                self._columns.add(records)
            return
        try:
            self._values.update(records)
        except (TypeError, ValueError):
            # Find the record; `record` is the name that error reports look for.
            for record in records:
                if not isinstance(record, tuple | list) or len(record) != 2:
                    raise TypeError(
                        f"Counts got {type(record).__name__}, expected pairs (key, value)"
                    ) from None
                self._values[record[0]] = record[1]

    def close(self) -> dict[Any, Any]:
        self._values.update(self._columns.take())
        return self._values


class _LastRows:
    """Updates that wait until there are many: most are overtaken and become no Python objects."""

    def __init__(self) -> None:
        self._batches: list[Any] = []
        self._rows = 0
        self._most_rows = 0

    def add(self, batch: Any) -> bool:
        """Keep the batch; false, and it was not kept, if those before must be taken first."""
        if self._batches and (
            self._rows >= self._most_rows or not self._batches[0].schema.equals(batch.schema)
        ):
            return False
        if not self._batches:
            self._most_rows = _MOST_BYTES * batch.num_rows // max(1, batch.nbytes)
        self._batches.append(batch)
        self._rows += batch.num_rows
        return True

    def take(self) -> list[tuple[Any, Any]]:
        """The last value of each key of the batches, which are gone then."""
        if not self._batches:
            return []
        pyarrow = import_pyarrow("Counts")
        rows = pyarrow.Table.from_batches(self._batches).combine_chunks()
        self._batches, self._rows = [], 0
        keys = rows.column(0)
        try:
            if not pyarrow.types.is_dictionary(keys.type):
                keys = keys.dictionary_encode(null_encoding="encode")
        except pyarrow.ArrowNotImplementedError:
            pass  # no hash for this type: every row becomes an object
        else:
            codes = keys.chunk(0).indices.fill_null(-1).to_numpy()
            last = np.full(len(keys.chunk(0).dictionary) + 1, -1)
            last[codes] = np.arange(len(codes))  # of equal codes the last one stays
            rows = rows.take(last[last >= 0])
        pairs = zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True)
        return [(math.nan if key != key else key, value) for key, value in pairs]


_MOST_BYTES = 1 << 22
