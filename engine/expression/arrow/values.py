"""What a value of an expression is for all rows of a batch at once.

Each class stands for one Python object per row. A program makes nothing of a value before somebody
looks at it: rows that a filter or a branch has chosen are taken out of a column at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.network import take_rows


class GivesUp(Exception):
    """The batch has something for which only the user's function knows the result; says what."""


class Selection:
    """Some of the rows, in any order and any number of times."""

    def __init__(self, mask: Any = None, places: Any = None) -> None:
        self.mask = mask
        self._places = places

    @property
    def places(self) -> Any:
        """Their numbers, as int64 of NumPy."""
        if self._places is None:
            self._places = np.flatnonzero(self.mask.to_numpy(zero_copy_only=False))
        return self._places

    def __call__(self, rows: Any) -> Any:
        """These rows of an array or of a batch."""
        try:
            if self.mask is not None:
                return rows.filter(self.mask)
            return rows.take(pa.array(self._places))
        except pa.ArrowNotImplementedError:  # string views, lists of them
            places = pa.array(self.places)
            if isinstance(rows, pa.RecordBatch):
                return take_rows(rows, places)
            return take_rows(pa.RecordBatch.from_arrays([rows], [""]), places).column(0)


class Chosen:
    """An array or a batch; of one that is to be cut, the rows are taken out when asked for."""

    def __init__(self, rows: Any, selection: Selection | None = None) -> None:
        before = rows._selection if isinstance(rows, Chosen) else None
        if (
            before is not None
            and before.mask is None
            and selection is not None
            and selection.mask is None
        ):
            rows, selection = rows._rows, Selection(places=before.places[selection.places])
        self._rows = rows
        self._selection: Selection | None = selection

    @property
    def rows(self) -> Any:
        """The array or the batch."""
        if self._selection is not None:
            self._rows = self._selection(self._rows.rows)
            self._selection = None
        return self._rows


class Constant:
    """The same object in each row, which cannot change."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.kind = KIND_OF_CLASS.get(type(value), "other")
        self._scalar: pa.Scalar | None = None

    @property
    def scalar(self) -> pa.Scalar:
        """As Arrow has it, of the type that a computed column of this kind has."""
        if self._scalar is None:
            if self.kind not in COMPUTED:
                raise GivesUp(f"{self.value!r:.40} is in no column")
            try:
                self._scalar = pa.scalar(self.value, COMPUTED[self.kind])
            except OverflowError:
                raise GivesUp(_BEYOND) from None
        return self._scalar


class Column:
    """An Arrow array, and what kind of Python objects it stands for; nulls are None.

    It `is_plain` if its type is the one in which is computed: 64 bits, and no codes.
    """

    def __init__(self, kind: str, rows: Any, *, is_plain: bool = True) -> None:
        self.kind = kind
        self.is_plain = is_plain
        self._rows = rows if isinstance(rows, Chosen) else Chosen(rows)
        self._plain: pa.Array | None = None

    @property
    def given(self) -> pa.Array:
        """The array, of whatever type it came in."""
        return self._rows.rows

    @property
    def plain(self) -> pa.Array:
        """The array in the type in which is computed."""
        if self.is_plain:
            return self._rows.rows
        if self._plain is None:
            self._plain = _plain(self.given, self.kind)
        return self._plain

    @property
    def values(self) -> pa.Array:
        """As `plain`, of rows of which none is None; gives up otherwise."""
        plain = self.plain
        if plain.null_count:
            raise GivesUp(f"None among values of type {self.kind}")
        return plain

    @property
    def numbers(self) -> Any:
        """The values as an array of NumPy, without a copy."""
        return self.values.to_numpy(zero_copy_only=False)

    def select(self, selection: Selection) -> Column:
        """The column in these rows."""
        return Column(self.kind, Chosen(self._rows, selection), is_plain=self.is_plain)


class Fields:
    """A dict in each row, of the same keys in the same order. `batch` has it as a whole, if any.

    The values are made when they are asked for, by `make`, or are all in `entries`.
    """

    kind = "dict"

    def __init__(
        self,
        entries: dict[Any, Value],
        batch: Chosen | None = None,
        keys: Collection[Any] | None = None,
        make: Callable[[Any], Value] | None = None,
    ) -> None:
        self.batch = batch
        self._entries = entries
        self._keys = keys
        self._make = make

    @property
    def keys(self) -> list[Any]:
        """The keys, in order."""
        return list(self._entries if self._keys is None else self._keys)

    def __contains__(self, key: Any) -> bool:
        return key in (self._entries if self._keys is None else self._keys)

    def __getitem__(self, key: Any) -> Value:
        if self._make is not None and key not in self._entries:
            self._entries[key] = self._make(key)
        return self._entries[key]

    @property
    def entries(self) -> dict[Any, Value]:
        """The value of each key."""
        return {key: self[key] for key in self.keys}

    def select(self, selection: Selection) -> Fields:
        """The dicts in these rows."""
        batch = None if self.batch is None else Chosen(self.batch, selection)
        return Fields({}, batch, self.keys, lambda key: select(self[key], selection))


class Items:
    """A tuple or a list in each row, all of the same length."""

    def __init__(self, kind: str, items: Sequence[Value]) -> None:
        self.kind = kind
        self.items = list(items)

    def select(self, selection: Selection) -> Items:
        """The tuples or lists in these rows."""
        return Items(self.kind, [select(item, selection) for item in self.items])


class Lists:
    """A list in each row: row `n` has the items from `offsets[n]` to `offsets[n + 1]`."""

    kind = "list"

    def __init__(self, items: Value, offsets: Any) -> None:
        self.items = items
        self.offsets = offsets

    @property
    def lengths(self) -> Any:
        """How many items each has."""
        return np.diff(self.offsets)

    @property
    def parents(self) -> Any:
        """The row of each item."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.lengths)

    def select(self, selection: Selection) -> Lists:
        """The lists in these rows."""
        places = selection.places
        return self.cut(self.offsets[:-1][places], self.lengths[places])

    def cut(self, starts: Any, lengths: Any) -> Lists:
        """Lists of so many items each, from these on."""
        offsets = offsets_of(lengths)
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Lists(select(self.items, Selection(places=places)), offsets)


Value: TypeAlias = Constant | Column | Fields | Items | Lists


def select(value: Value, selection: Selection) -> Value:
    """The value in these rows."""
    return value if isinstance(value, Constant) else value.select(selection)


def offsets_of(lengths: Any) -> Any:
    """Where lists of these lengths begin, and where the last of them ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def fixed(value: Value) -> list[Value] | None:
    """The items of a tuple or list that has as many in each row; None for other values."""
    if isinstance(value, Items):
        return value.items
    if isinstance(value, Constant) and type(value.value) is tuple:
        return [Constant(item) for item in value.value]
    return None


def constant_of(found: Any) -> Value:
    """An object of Python in each row: each has a list or a dict of its own."""
    if type(found) is list:
        return Items("list", [constant_of(item) for item in found])
    if type(found) is dict:
        return Fields({key: constant_of(item) for key, item in found.items()})
    if type(found) is tuple:
        return Items("tuple", [constant_of(item) for item in found])
    if type(found) in KIND_OF_CLASS or type(found) is frozenset:
        return Constant(found)
    raise GivesUp(f"a constant of class {type(found).__name__}")


def _plain(given: pa.Array, kind: str) -> pa.Array:
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    elif pa.types.is_run_end_encoded(given.type):
        given = pc.run_end_decode(given)
    if is_plain(given.type, kind):
        return given
    try:
        return given.cast(COMPUTED[kind])
    except pa.ArrowInvalid as error:
        raise GivesUp(_BEYOND if kind == "int" else str(error)) from None


def is_plain(given: pa.DataType, kind: str) -> bool:
    """Whether a column of this type and kind is computed with as it is."""
    if kind in PLAIN:
        return given in PLAIN[kind]
    return not pa.types.is_dictionary(given) and not pa.types.is_run_end_encoded(given)


def by_python(function: Callable[..., Any], operands: Sequence[Value]) -> Value | None:
    """What the function gives for constants; None where one of the operands is none."""
    values = []
    for operand in operands:
        if not isinstance(operand, Constant):
            return None
        values.append(operand.value)
    return constant_of(tried(lambda: function(*values)))


def tried(call: Callable[[], Any]) -> Any:
    """What the call gives; gives up where it raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001  # the user's function raises it again
        raise GivesUp(f"{type(error).__name__}: {error}") from None


def told(value: Value) -> str:
    """The kind of the value, for reasons."""
    return type(value.value).__name__ if isinstance(value, Constant) else value.kind


_BEYOND = "an integer beyond 64 bits"
COMPUTED = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
}
"""The types of columns that are computed."""
PLAIN = {
    "bool": (pa.bool_(),),
    "int": (pa.int64(),),
    "float": (pa.float64(),),
    "str": (pa.string(), pa.large_string()),
    "bytes": (pa.binary(), pa.large_binary()),
}
"""The types with which is computed, by kind."""
KIND_OF_CLASS = {
    type(None): "none",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bytes",
    tuple: "tuple",
}
