"""Keys of rows as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.column_values import values_of
from engine.columns import column_of
from engine.record import dict_key
from operators.keys import Item, unhashable

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64]"


class KeyNumbers:
    """A number for each key of one task, by which rows with equal keys find each other.

    Keys are equal as in Python; so None is equal to None, and all NaN are one key. Integers are
    their own numbers, so that a column of them needs no look at each.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.of_numbers: dict[int, Any] = {}
        """Keys that are not their own numbers: it only grows, and is another when some are gone."""
        self._next = _FIRST_OTHER

    def of(self, columns: Sequence[pa.Array]) -> Numbers:
        """Those of the rows with these columns as their key; a key of several is a tuple."""
        if len(columns) == 1 and (numbers := _integers(columns[0])) is not None:
            return numbers
        keys, rows = distinct_keys(columns)
        found: Numbers = np.fromiter(map(self._number, keys), np.int64, len(keys))[rows]
        return found

    def forget_others(self, rows: int, used_by: Iterable[Numbers]) -> None:
        """Let go of keys that none of so many rows has, if those are too many."""
        if len(self._numbers) > 2 * rows + (_FEW if rows else 0):
            used = set(np.concatenate([_NO_NUMBERS, *used_by]).tolist())
            self.of_numbers = {at: key for at, key in self.of_numbers.items() if at in used}
            self._numbers = {key: at for at, key in self.of_numbers.items()}

    def _number(self, key: Any) -> int:
        if isinstance(key, int | float) and _is_its_number(key):
            return int(key)
        try:
            number = self._numbers.get(key)
            if number is None:
                key = dict_key(key)
                number = self._numbers.setdefault(key, self._next)
                if number == self._next:
                    self.of_numbers[number] = key
                    self._next += 1
        except TypeError:
            raise unhashable(key) from None
        return number


def key_columns(key: Item | tuple[Item, ...], batch: pa.RecordBatch) -> list[pa.Array]:
    """The columns of a key. ValueError where the batch has none, or several, of a name."""
    items = key if isinstance(key, tuple) else (key,)
    columns = [column_of(batch, item) for item in items]
    if any(column is None for column in columns):
        raise ValueError(
            f"the key is column {key!r}, and there are {', '.join(batch.schema.names)}, "
            "expected one column of each name or index"
        )
    return columns


def distinct_keys(columns: Sequence[pa.Array]) -> tuple[list[Any], Numbers]:
    """The distinct keys that rows have in these columns, and for each row which it has."""
    if len(columns) == 1:
        values, rows = _distinct(columns[0])
        return values_of(values), rows
    rows = groups(columns)
    first = pa.array(np.unique(rows, return_index=True)[1])
    return list(zip(*(values_of(column.take(first)) for column in columns), strict=True)), rows


def groups(columns: Sequence[pa.Array]) -> Numbers:
    """For each row which of the distinct keys in these columns it has, without a look at those."""
    _, found = _distinct(columns[0])
    for column in columns[1:]:
        values, more = _distinct(column)
        found = np.unique(found * max(1, len(values)) + more, return_inverse=True)[1]
    return found


def _is_its_number(key: float) -> bool:
    return math.isfinite(key) and abs(key) < _FIRST_OTHER and key == int(key)


def _integers(column: pa.Array) -> Numbers | None:
    """The values of a column of integers that are their own numbers; None of any other."""
    if not pa.types.is_integer(column.type) or column.null_count:
        return None
    numbers = column.to_numpy()
    if len(numbers) and (numbers.max() >= _FIRST_OTHER or numbers.min() <= -_FIRST_OTHER):
        return None
    whole: Numbers = numbers.astype(np.int64)
    return whole


def _distinct(column: pa.Array) -> tuple[pa.Array, Numbers]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
    except pa.ArrowNotImplementedError:
        raise TypeError(
            f"a column of type {column.type} holds no keys\n\n"
            "hint: name another, or cast this one in .map_batches(...) before"
        ) from None
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)


_FIRST_OTHER = 1 << 62
"""The number of the first key that is no integer."""
_FEW = 1024
"""Keys that are not worth looking for."""
_NO_NUMBERS = np.empty(0, np.int64)
