"""Tuples, lists and dicts: made, taken apart, put together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expression.arrow import arithmetic, texts
from engine.expression.arrow.merging import lists_of
from engine.expression.arrow.objects import per_value
from engine.expression.arrow.reading import value_of
from engine.expression.arrow.values import (
    Column,
    Constant,
    Fields,
    GivesUp,
    Items,
    Lists,
    Selection,
    Value,
    by_python,
    fixed,
    select,
    told,
)


def item(a: Value, b: Value, count: int) -> Value:
    """`a[b]`."""
    if isinstance(b, Constant):
        if (fields := fields_of(a)) is not None:
            return _entry(fields, b.value)
        if (items := fixed(a)) is not None:
            return _at(items, b.value)
        if isinstance(a, Constant):
            found = by_python(lambda each, place: each[place], (a, b))
            assert found is not None
            return found
        if type(b.value) is int and isinstance(a, Lists | Column):
            if a.kind == "list":
                return _item_of_each(lists_of(a, count), b.value)
            if a.kind == "str" and isinstance(a, Column):
                return _character(a, b.value)
    if texts.is_leaf(a) and texts.is_leaf(b):
        return per_value(lambda each, place: each[place], (a, b), count)
    raise GivesUp(f"an item of a {told(a)}")


def part(a: Value, bounds: Sequence[Value], count: int) -> Value:
    """`a[start:stop:step]`."""
    places: list[Any] = [bound.value if isinstance(bound, Constant) else bound for bound in bounds]
    if all(place is None or type(place) is int for place in places):
        items = fixed(a)
        if items is not None and places[2] != 0:
            return Items(told(a), items[slice(*places)])
        if (
            isinstance(a, Column)
            and a.kind == "str"
            and places[2] in (None, 1)
            and (place := _near(places)) is not None
        ):
            return Column("str", pc.utf8_slice_codeunits(a.values, *place))
        if a.kind == "list" and places[2] in (None, 1) and (place := _near(places)) is not None:
            return _part_of_each(lists_of(a, count), *place)
    operands = (a, *bounds)
    found = by_python(lambda each, *cut: each[slice(*cut)], operands)
    if found is not None:
        return found
    if a.kind in ("str", "bytes") and all(map(texts.is_leaf, operands)):
        return per_value(lambda each, *cut: each[slice(*cut)], operands, count)
    raise GivesUp(f"a slice of a {told(a)}")


def dict_of(operands: Sequence[Value]) -> Value:
    """`{k: v, …}`."""
    entries: dict[Any, Value] = {}
    for key, value in zip(operands[::2], operands[1::2], strict=True):
        if not isinstance(key, Constant):
            raise GivesUp("a dict of keys from the record")
        entries[key.value] = value
    return Fields(entries)


def dict_from(a: Value) -> Value:
    """`dict(a)`, of a dict or of pairs."""
    if (fields := fields_of(a)) is not None:
        return Fields(dict(fields.entries))
    pairs = [fixed(pair) for pair in fixed(a) or [a]]
    if any(pair is None or len(pair) != 2 for pair in pairs):
        raise GivesUp(f"a dict of a {told(a)}")
    return dict_of([each for pair in pairs for each in pair or []])


def merge(a: Value, b: Value) -> Value:
    """`{**a, **b}`."""
    one, other = fields_of(a), fields_of(b)
    if one is None or other is None:
        raise GivesUp(f"a dict of {told(a)} and {told(b)}")
    return Fields({**one.entries, **other.entries})


def extend(a: Value, b: Value) -> Value:
    """`[*a, *b]`."""
    one, other = fixed(a), items_of(b)
    if one is None or other is None:
        raise GivesUp(f"a list of the items of {told(b)}")
    return Items("list", [*one, *other])


def add(a: Value, b: Value) -> Value:
    """`a + b`."""
    one, other = fixed(a), fixed(b)
    if one is not None and other is not None and told(a) == told(b):
        return Items(told(a), [*one, *other])
    if a.kind == b.kind == "str":
        return texts.join((a, b))
    return arithmetic.binary("+", a, b)


def multiply(a: Value, b: Value, count: int) -> Value:
    """`a * b`."""
    for one, other in ((a, b), (b, a)):
        times = other.value if isinstance(other, Constant) else None
        if isinstance(times, int) and (items := fixed(one)) is not None:
            if len(items) * times > _MOST:
                raise GivesUp(f"{times} times the items of a {told(one)}")
            return Items(told(one), items * times)
    if {a.kind, b.kind} in ({"str", "int"}, {"str", "bool"}):
        return per_value(operator.mul, (a, b), count)
    return arithmetic.binary("*", a, b)


def remainder(a: Value, b: Value, count: int) -> Value:
    """`a % b`, of numbers or of a text that is a format."""
    if a.kind == "str":
        return by_python(operator.mod, (a, b)) or per_value(operator.mod, (a, b), count)
    return arithmetic.binary("%", a, b)


def either(a: Value, b: Value) -> Value:
    """`a | b`."""
    if fields_of(a) is not None and fields_of(b) is not None:
        return merge(a, b)
    return arithmetic.binary("|", a, b)


def unpack(a: Value, number: int, count: int) -> Value:
    """`a`, which has so many items in each row."""
    if (items := fixed(a)) is None:
        lists = lists_of(a, count)
        if (lists.lengths != number).any():
            raise GivesUp(f"other than {number} items to unpack")
        items = [_item_of_each(lists, at) for at in range(number)]
    elif len(items) != number:
        raise GivesUp(f"{len(items)} items to unpack, not {number}")
    return Items("list", items)


def length(a: Value) -> Value:
    """`len(a)`."""
    if (found := by_python(len, (a,))) is not None:
        return found
    if (items := fixed(a)) is not None:
        return Constant(len(items))
    if (fields := fields_of(a)) is not None:
        return Constant(len(fields.keys))
    if isinstance(a, Lists):
        return Column("int", pa.array(a.lengths))
    if isinstance(a, Column) and a.kind in _LENGTHS:
        return Column("int", _LENGTHS[a.kind](a.values).cast(pa.int64()))
    raise GivesUp(f"len of a {told(a)}")


def fields_of(value: Value) -> Fields | None:
    """The dict in each row, also of a column of structs; None for other values."""
    if isinstance(value, Fields):
        return value
    if not isinstance(value, Column) or value.kind != "struct":
        return None
    arrays = value.values.flatten()
    names = [field.name for field in value.given.type]
    return Fields(dict(zip(names, map(value_of, arrays), strict=True)))


def items_of(value: Value) -> list[Value] | None:
    """What a loop over it goes through, if that is as much in each row: of a dict, its keys."""
    if (fields := fields_of(value)) is not None:
        return list(map(Constant, fields.keys))
    return fixed(value)


def of_dict(name: str, operands: Sequence[Value]) -> Value:
    """The method of a dict: `a.get(key)`, `a.get(key, default)`, or a list of what is in it."""
    fields = fields_of(operands[0])
    assert fields is not None
    if name == "keys":
        return Items("list", list(map(Constant, fields.keys)))
    if name == "values":
        return Items("list", list(fields.entries.values()))
    if name == "items":
        pairs = [(Constant(key), value) for key, value in fields.entries.items()]
        return Items("list", [Items("tuple", pair) for pair in pairs])
    if name != "get":
        raise GivesUp(f"{name} of a dict")
    key, *default = operands[1:]
    if not isinstance(key, Constant):
        raise GivesUp("get with a key of the record")
    if key.value in fields:
        return fields[key.value]
    return default[0] if default else Constant(None)


def _entry(fields: Fields, key: Any) -> Value:
    if key not in fields:
        raise GivesUp(f"no field {key!r:.40}")
    return fields[key]


def _at(items: list[Value], place: Any) -> Value:
    if not isinstance(place, int) or not -len(items) <= place < len(items):
        raise GivesUp(f"no item {place!r:.40}")
    return items[place]


def _item_of_each(lists: Lists, place: int) -> Value:
    lengths = lists.lengths
    if len(lengths) and lengths.min() < (place + 1 if place >= 0 else -place):
        raise GivesUp(f"no item {place}")
    places = lists.offsets[:-1] + place if place >= 0 else lists.offsets[1:] + place
    return select(lists.items, Selection(places=places))


def _part_of_each(lists: Lists, start: int, stop: int | None) -> Lists:
    lengths = lists.lengths
    first, end = (
        np.clip(place if place >= 0 else lengths + place, 0, lengths)
        for place in (start, _FAR if stop is None else stop)
    )
    return lists.cut(lists.offsets[:-1] + first, np.maximum(end - first, 0))


def _character(a: Column, place: int) -> Value:
    texts_ = a.values
    needed = place + 1 if place >= 0 else -place
    if needed >= _FAR or not pc.all(pc.greater_equal(pc.utf8_length(texts_), needed)).as_py():
        raise GivesUp(f"no character {place}")
    stop = None if place == -1 else place + 1
    return Column("str", pc.utf8_slice_codeunits(texts_, place, stop))


def _near(places: Sequence[Any]) -> tuple[int, int | None] | None:
    """Where a slice begins and ends; None for places that Arrow cannot have."""
    start, stop = places[0] or 0, places[1]
    if abs(start) >= _FAR or (stop is not None and abs(stop) >= _FAR):
        return None
    return start, stop


_FAR = 1 << 31
_MOST = 1000
"""Items of a tuple or list, each a column."""
_LENGTHS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "str": pc.utf8_length,
    "bytes": pc.binary_length,
    "list": pc.list_value_length,
}
