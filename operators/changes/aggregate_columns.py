"""Aggregates of the rows of each key of a table, of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.columns import column_of, without_rows
from engine.state import KeyedState
from operators.aggregates import Aggregation
from operators.changes.change import kind_numbers, with_kinds, without_kinds
from operators.changes.groups import Groups, NoRow, Unusable, unknown, unusable
from operators.columns.kept import Kept
from operators.columns.numbers import ColumnKeyNumbers, key_columns, plain_keys
from operators.columns.rows import decoded_parts, encoded_runs


class ColumnGroups:
    """The groups of a task: their keys are rows of the key's columns."""

    def __init__(
        self, key: Any, wanted: Sequence[Aggregation], names: Sequence[str] | None
    ) -> None:
        """The columns of the key; and the aggregates, with their names if they have any."""
        self._key = key
        self._wanted = wanted
        self._names = names or [each.kind for each in wanted]
        self._groups = Groups(wanted, skips_none=True)
        self._numbers = ColumnKeyNumbers()
        self._kept = Kept("an aggregate of a table", "", None)
        self._types: list[pa.DataType] = []
        self._rows: dict[int, int] = {}
        """By the number of a key the number of its row."""
        self._last = 0

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The changes that a batch makes: columns of the key, and one for each aggregate."""
        kinds, rows = kind_numbers(batch), without_kinds(batch)
        columns = key_columns(self._key, rows)
        keys = self._kept.fit(pa.RecordBatch.from_arrays(columns, self._key_names(rows)))
        values = [self._values(each, rows) for each in self._wanted]
        self._types = [
            _type(each, column) for each, column in zip(self._wanted, values, strict=True)
        ]
        numbers = self._numbers.of(plain_keys(self._key, columns)).tolist()
        self._keep(numbers, keys)
        lists = [None if column is None else column.to_pylist() for column in values]
        try:
            found = list(self._groups.take(numbers, kinds, lists))
        except NoRow as error:
            raise unknown(rows.slice(error.args[0], 1).to_pylist()[0]) from None
        except Unusable as error:
            row = rows.slice(error.args[0], 1).to_pylist()[0]
            raise unusable(self._wanted, row, error.args[1]) from None
        made = self._made(found)
        gone = [number for number in set(numbers) if number not in self._groups.of_keys]
        self._kept.remove(_u32([self._rows.pop(number) for number in gone]))
        self._numbers.forget_others(len(self._rows), lambda: self._rows)
        return made

    def snapshot(self, pickle: bool) -> KeyedState:
        """Of each key its row, the number of its rows, and of each aggregate what it keeps."""
        if self._kept.schema is None:
            return KeyedState.of([])
        order = list(self._groups.of_keys)
        pairs = []
        if order:
            batch = self._kept.take(_u32([self._rows[number] for number in order]))
            runs = encoded_runs(batch, np.arange(len(order)), np.array(order, np.int64))
            saved = dict(self._groups.saved())
            of_numbers = self._numbers.of_numbers
            pairs = [
                (of_numbers.get(number, number), (encoded, *saved[number]))
                for number, _, _, encoded in runs
            ]
        columns = pa.schema([*self._kept.schema, *self._fields()]).serialize().to_pybytes()
        return KeyedState(KeyedState.of(pairs, pickle=pickle).entries, columns)

    def restore(self, state: KeyedState) -> None:
        """Go on with what others kept."""
        schema = pa.ipc.read_schema(pa.py_buffer(state.columns))
        self._types = [field.type for field in schema][-len(self._wanted) :]
        for key, (encoded, rows, saved) in state.items():
            number = self._numbers.number(key)
            for row in decoded_parts([encoded]):
                self._keep([number], self._kept.fit(row))
            self._groups.load(number, rows, saved)

    def _keep(self, numbers: list[int], keys: pa.RecordBatch) -> None:
        """Keep the row of each key that has none."""
        own = []
        for number in numbers:
            is_new = number not in self._rows
            if is_new:
                self._last += 1
                self._rows[number] = self._last
            own.append(self._rows[number] if is_new else 0)
        self._kept.add(keys, _u32(own))

    def _made(self, found: list[tuple[int, int, list[Any]]]) -> pa.RecordBatch:
        fields = self._fields()
        keys = without_rows(self._kept.schema)
        if found:
            keys = self._kept.take(_u32([self._rows[number] for _, number, _ in found]))
        columns = [
            pa.array([values[at] for _, _, values in found], field.type)
            for at, field in enumerate(fields)
        ]
        names = [*keys.schema.names, *(field.name for field in fields)]
        batch = pa.RecordBatch.from_arrays([*keys.columns, *columns], names)
        return with_kinds(batch, [kind for kind, _, _ in found])

    def _fields(self) -> list[pa.Field]:
        assert self._kept.schema is not None
        names = list(self._kept.schema.names)
        fields = []
        for name, kind in zip(self._names, self._types, strict=True):
            while name in names:
                name += "_right"
            names.append(name)
            fields.append(pa.field(name, kind))
        return fields

    def _values(self, aggregation: Aggregation, rows: pa.RecordBatch) -> pa.Array | None:
        if aggregation.kind == "count":
            return None
        item = aggregation.item
        column = None if item is None else column_of(rows, item)
        if column is None:
            raise ValueError(
                f"{aggregation.kind}() is of column {item!r}, and there are "
                f"{', '.join(rows.schema.names)}, expected one column of that name or index"
            )
        return column

    def _key_names(self, rows: pa.RecordBatch) -> list[str]:
        key = self._key if isinstance(self._key, tuple) else (self._key,)
        return [each if isinstance(each, str) else rows.schema.names[each] for each in key]


def _type(aggregation: Aggregation, column: pa.Array | None) -> pa.DataType:
    """The type of an aggregate's column, by that of its values."""
    if column is None or aggregation.kind == "count_distinct":
        return pa.int64()
    kind: Any = column.type
    if aggregation.kind in ("min", "max"):
        return kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    if aggregation.kind == "mean" or pa.types.is_floating(kind):
        return pa.float64()
    return kind if pa.types.is_duration(kind) else pa.int64()


def _u32(numbers: list[int]) -> bytes:
    return np.array(numbers, np.uint32).tobytes()
