"""Keys of rows as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.columns import column_of
from engine.network import plain_keys as to_plain
from engine.network import take_rows
from engine.record.column_values import values_of
from engine.state import encode_value
from operators.key_numbers import FIRST_OTHER, KeyNumbers
from operators.keys import Item

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64]"

Key: TypeAlias = Item | tuple[Item, ...]
"""The name or the index of a column, or several that make a tuple."""


class ColumnKeyNumbers(KeyNumbers):
    """The same of columns. Integers are their own numbers, so a column of them needs no look-up."""

    def of(self, columns: Sequence[pa.Array]) -> Numbers:
        """The numbers of rows with these columns as their key; several columns make a tuple."""
        if len(columns) == 1 and (numbers := _integers(columns[0])) is not None:
            return numbers
        keys, rows = distinct_keys(columns)
        has_own = not _WITH_OWN_NUMBERS.isdisjoint(map(type, keys))
        found: Numbers = np.array(
            list(map(self.number, keys)) if has_own else self.of_keys(keys), np.int64
        )[rows]
        return found

    def number(self, key: Any) -> int:
        """The number of one key, as a value of Python."""
        if isinstance(key, int | float) and _is_its_number(key):
            return int(key)
        return self._numbers.get(key) or self.of_key(key)


def key_columns(key: Key, batch: pa.RecordBatch) -> list[pa.Array]:
    """The columns of a key. ValueError if the batch has none, or several, of a name."""
    columns = [column_of(batch, item) for item in _items(key)]
    if any(column is None for column in columns):
        raise ValueError(
            f"the key is column {key!r}, and there are {', '.join(batch.schema.names)}, "
            "expected one column of each name or index"
        )
    return columns


def plain_keys(key: Key, columns: list[pa.Array]) -> list[pa.Array]:
    """The columns of a key, converted so that equal keys have equal values.

    The values are those by which rows are divided among tasks: times and decimals are bytes.
    TypeError if a column holds no keys.
    """
    if all(column.type in _PLAIN for column in columns):
        return columns
    names = [str(item) for item in _items(key)]
    plain: list[pa.Array] = to_plain(pa.RecordBatch.from_arrays(columns, names)).columns
    return plain


def row_numbers(numbers: ColumnKeyNumbers, batch: pa.RecordBatch) -> Numbers:
    """A number for each row, which only equal rows share."""
    try:
        columns = plain_keys(tuple(range(batch.num_columns)), batch.columns)
    except TypeError:  # of a column that holds no keys, such as one of lists
        rows = [encode_value(tuple(row.values()), pickle=False) for row in batch.to_pylist()]
        return np.array(numbers.of_keys(rows), np.int64)
    return numbers.of(columns)


def kinds_of_keys(columns: Sequence[pa.Array]) -> list[str | None]:
    """The kinds of values in these columns, None for nulls; two kinds are never equal."""
    return [_kind(column.type) for column in columns]


def distinct_keys(columns: Sequence[pa.Array], key: Key = ()) -> tuple[list[Any], Numbers]:
    """The distinct keys of rows in these columns, and for each row the index of its key.

    TypeError, which names the column by `key`, if one holds no keys.
    """
    items = _items(key) or range(len(columns))
    found = [_distinct(column, item) for column, item in zip(columns, items, strict=True)]
    if len(found) == 1:
        values, rows = found[0]
        return values_of(values), rows
    rows = _combined(found)
    first = np.unique(rows, return_index=True)[1]
    parts = []
    for values, of_rows in found:
        distinct = values_of(values)
        parts.append([distinct[at] for at in of_rows[first].tolist()])
    return list(zip(*parts, strict=True)), rows


def groups(columns: Sequence[pa.Array]) -> Numbers:
    """For each row, the index of its key among the distinct keys in these columns."""
    return _combined([_distinct(column) for column in columns])


def _combined(parts: list[tuple[pa.Array, Numbers]]) -> Numbers:
    (_, found), *others = parts
    for values, more in others:
        found = np.unique(found * max(1, len(values)) + more, return_inverse=True)[1]
    return found


def _is_its_number(key: float) -> bool:
    return math.isfinite(key) and abs(key) < FIRST_OTHER and key == int(key)


def _integers(column: pa.Array) -> Numbers | None:
    """The values of a column of integers, which are their own numbers; None for other columns."""
    if not pa.types.is_integer(column.type) or column.null_count:
        return None
    numbers = column.to_numpy()
    if len(numbers) and (numbers.max() >= FIRST_OTHER or numbers.min() <= -FIRST_OTHER):
        return None
    whole: Numbers = numbers.astype(np.int64)
    return whole


def _distinct(column: pa.Array, item: Item = 0) -> tuple[pa.Array, Numbers]:
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        column = pc.run_end_decode(column)
    elif pa.types.is_dictionary(kind):
        column = _decoded(column)
    elif isinstance(kind, pa.BaseExtensionType):
        column = column.storage
    elif pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        column = column.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_string_view(column.type):  # PyArrow treats a null in a view as an empty value
        column = column.cast(pa.large_string())
    elif pa.types.is_binary_view(column.type):
        column = column.cast(pa.large_binary())
    try:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
    except pa.ArrowNotImplementedError:
        raise TypeError(
            f"column {item!r} of type {kind} holds no keys\n\n"
            "hint: name another, or cast this one in .map_batches(...) before"
        ) from None
    values = encoded.dictionary
    if isinstance(kind, pa.BaseExtensionType):
        values = pa.ExtensionArray.from_storage(kind, values)
    return values, encoded.indices.to_numpy().astype(np.int64)


def _decoded(column: pa.DictionaryArray) -> pa.Array:
    try:
        return column.dictionary_decode()
    except pa.ArrowNotImplementedError:  # of views
        values = pa.RecordBatch.from_arrays([column.dictionary], ["value"])
        return take_rows(values, column.indices).column(0)


def _items(key: Key) -> tuple[Item, ...]:
    return key if isinstance(key, tuple) else (key,)


def _kind(of: pa.DataType) -> str | None:
    if isinstance(of, pa.BaseExtensionType):
        of = of.storage_type
    while pa.types.is_dictionary(of) or pa.types.is_run_end_encoded(of):
        of = of.value_type
    if pa.types.is_null(of):
        return None
    if pa.types.is_timestamp(of):
        return "instants" if of.tz else "times without a zone"
    kinds = (name for name, checks in _KINDS.items() if any(is_one(of) for is_one in checks))
    return next(kinds, str(of))


_PLAIN = frozenset(
    {pa.string(), pa.large_string(), pa.large_binary(), pa.float64(), pa.bool_(), pa.null()}
    | {pa.int8(), pa.int16(), pa.int32(), pa.int64()}
    | {pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()}
)
"""Types whose values are equal exactly if keys are."""

_WITH_OWN_NUMBERS = {int, float, bool}
"""Types of keys that may be their own numbers."""
_KINDS: dict[str, tuple[Callable[[pa.DataType], Any], ...]] = {
    "numbers": (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean),
    "texts": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "bytes": (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    ),
    "dates": (pa.types.is_date,),
    "times of day": (pa.types.is_time,),
    "durations": (pa.types.is_duration,),
    "decimals": (pa.types.is_decimal,),
}
