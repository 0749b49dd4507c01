"""One value of all rows from values of some of them each: where branches or items come together.

A column has objects of one class, so values of different classes give up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expression.arrow.reading import value_of
from engine.expression.arrow.values import (
    COMPUTED,
    Column,
    Constant,
    Fields,
    GivesUp,
    Items,
    Lists,
    Selection,
    Value,
    fixed,
    offsets_of,
    select,
    told,
    tried,
)


class Merge(ABC):
    """How the values come together."""

    @abstractmethod
    def arrays(self, values: Sequence[pa.Array | Constant], kind: pa.DataType) -> pa.Array:
        """One array of arrays and constants of this type."""

    @abstractmethod
    def lists(self, values: Sequence[Lists]) -> Lists:
        """The lists of all rows."""

    @property
    @abstractmethod
    def counts(self) -> list[int]:
        """How many rows each value has."""

    def __call__(self, values: Sequence[Value]) -> Value:
        """The value of all rows; gives up where the values have no class in common."""
        first = values[0]
        if all(value is first for value in values) and isinstance(first, Constant):
            return first
        if all(type(value) is Column for value in values):
            return self._column(values)
        if all(isinstance(value, Fields) for value in values):
            return self._dicts(values)
        if (items := self._items(values)) is not None:
            return items
        if any(isinstance(value, Items | Lists) or told(value) == "tuple" for value in values):
            parts = [lists_of(each, count) for each, count in zip(values, self.counts, strict=True)]
            return self.lists(parts)
        if any(isinstance(value, Fields) for value in values):
            raise _mixed(values)
        return self._column(values)

    def _dicts(self, values: Sequence[Any]) -> Fields:
        keys = values[0].keys
        for value in values[1:]:
            others = value.keys
            if others != keys or list(map(type, others)) != list(map(type, keys)):
                raise GivesUp("dicts of different fields")
        return Fields({key: self([value[key] for value in values]) for key in keys})

    def _items(self, values: Sequence[Value]) -> Items | None:
        """Tuples or lists of one length; None for others."""
        found = [fixed(value) for value in values]
        lengths = {None if items is None else len(items) for items in found}
        if len(lengths) > 1 or None in lengths:
            return None
        if len({told(value) for value in values}) > 1:
            raise _mixed(values)
        columns = zip(*[items or [] for items in found], strict=True)
        return Items(told(values[0]), [self(column) for column in columns])

    def _column(self, values: Sequence[Any]) -> Value:
        kinds = {value.kind for value in values} - {"none"}
        if not kinds:
            return Constant(None)
        if len(kinds) > 1:
            raise _mixed(values)
        (kind,) = kinds
        columns = [value for value in values if isinstance(value, Column)]
        others = [value for value in values if isinstance(value, Constant)]
        given = _common([column.given.type for column in columns])
        if given is not None and all(value.kind == "none" for value in others):
            arrays = [value.given if isinstance(value, Column) else value for value in values]
            plain = all(column.is_plain for column in columns)
            return Column(kind, self.arrays(arrays, given), is_plain=plain)
        if kind not in COMPUTED:
            raise GivesUp(f"a {kind} of several types")
        computed = COMPUTED[kind]
        if columns:
            types = [column.plain.type for column in columns]
            computed = _common(types) or (pa.large_string() if kind == "str" else pa.large_binary())
        arrays = [
            value if isinstance(value, Constant) else value.plain.cast(computed) for value in values
        ]
        return Column(kind, self.arrays(arrays, computed))


class Choice(Merge):
    """Of two values of all rows, one or the other in each."""

    def __init__(self, mask: pa.Array) -> None:
        self._mask = mask

    @property
    def counts(self) -> list[int]:
        """How many rows each value has."""
        return [len(self._mask)] * 2

    def __call__(self, values: Sequence[Value]) -> Value:
        """The value of all rows; gives up where the values have no class in common."""
        return values[0] if values[0] is values[1] else super().__call__(values)

    def arrays(self, values: Sequence[pa.Array | Constant], kind: pa.DataType) -> pa.Array:
        """One array of two."""
        then, otherwise = (
            _scalar(value, kind) if isinstance(value, Constant) else value for value in values
        )
        if then is self._mask:
            return pc.or_kleene(then, otherwise)
        if otherwise is self._mask:
            return pc.and_kleene(then, otherwise)
        return pc.if_else(self._mask, then, otherwise)

    def lists(self, values: Sequence[Lists]) -> Lists:
        """It gives up: their items have other rows."""
        raise GivesUp(f"{len(values)} lists of different lengths")


class Scatter(Merge):
    """Each value is of some of the rows: `places` has their numbers, together all of them once."""

    def __init__(self, places: Sequence[Any]) -> None:
        self._places = places
        self._where: Any = None

    @property
    def counts(self) -> list[int]:
        """How many rows each value has."""
        return [len(each) for each in self._places]

    @property
    def _from(self) -> Any:
        """For each row its number among the rows of all values, one behind the other."""
        placed = np.concatenate(self._places)
        found = np.empty(len(placed), np.int64)
        found[placed] = np.arange(len(placed))
        return found

    def arrays(self, values: Sequence[pa.Array | Constant], kind: pa.DataType) -> pa.Array:
        """One array of several, each with its rows."""
        parts = [
            pa.repeat(_scalar(value, kind), count) if isinstance(value, Constant) else value
            for value, count in zip(values, self.counts, strict=True)
        ]
        if self._where is None:
            self._where = self._from
        return Selection(places=self._where)(pa.concat_arrays(parts))

    def lists(self, values: Sequence[Lists]) -> Lists:
        """The lists of all rows."""
        lengths = np.concatenate([value.lengths for value in values])[self._from]
        offsets = offsets_of(lengths)
        places = [
            np.repeat(offsets[rows] - value.offsets[:-1], value.lengths)
            + np.arange(value.offsets[-1])
            for rows, value in zip(self._places, values, strict=True)
        ]
        filled = [at for at, each in enumerate(places) if len(each)]
        if not filled:
            return Lists(Constant(None), offsets)
        if len(filled) == 1:  # in order, as all places of some of the rows
            return Lists(values[filled[0]].items, offsets)
        merge = Scatter([places[at] for at in filled])
        return Lists(merge([values[at].items for at in filled]), offsets)


def lists_of(value: Value, count: int) -> Lists:
    """A list in each of so many rows; gives up for what is none."""
    if isinstance(value, Lists):
        return value
    if isinstance(value, Items) and value.kind == "list":
        return interleaved(value.items, count)
    if isinstance(value, Column) and value.kind == "list":
        array = value.values
        if pa.types.is_fixed_size_list(array.type):
            offsets = np.arange(len(array) + 1) * array.type.list_size
        else:
            offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
            offsets = offsets - offsets[0]
        return Lists(value_of(array.flatten()), offsets)
    raise GivesUp(f"a list and a {told(value)}")


def interleaved(items: Sequence[Value], count: int) -> Lists:
    """Lists of these items, so many of them; gives up where they have no class in common."""
    width = len(items)
    offsets = np.arange(count + 1) * width
    if not width:
        return Lists(Constant(None), offsets)
    if width == 1:
        return Lists(items[0], offsets)
    return Lists(Scatter([offsets[:-1] + at for at in range(width)])(items), offsets)


def kept(lists: Lists, keep: Any) -> Lists:
    """The lists with those of their items for which there is True in an array of NumPy."""
    if keep.all():
        return lists
    ends = offsets_of(keep)
    return Lists(select(lists.items, Selection(mask=pa.array(keep))), ends[lists.offsets])


def _scalar(value: Constant, kind: pa.DataType) -> pa.Scalar:
    return tried(lambda: pa.scalar(value.value, kind))


def _common(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type, if it is one."""
    if not types or any(not kind.equals(types[0]) for kind in types[1:]):
        return None
    return types[0]


def _mixed(values: Sequence[Value]) -> GivesUp:
    return GivesUp(" or ".join(sorted({told(value) for value in values})) + " in one place")
