"""Values as Arrow's arrays, or as Python's objects, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa

from engine.columns import rows
from engine.expression.arrow.merging import interleaved
from engine.expression.arrow.values import (
    COMPUTED,
    Column,
    Constant,
    Fields,
    GivesUp,
    Items,
    Lists,
    Value,
    offsets_of,
    tried,
)


class NotAColumn(Exception):
    """No column gives these objects back."""


def array_of(value: Value, count: int) -> pa.Array:
    """An array whose objects are those of the value; raises `NotAColumn` where there is none."""
    if isinstance(value, Column):
        return value.given
    if isinstance(value, Constant):
        if value.value is None:
            return pa.nulls(count)
        try:
            return pa.repeat(value.scalar, count)
        except (GivesUp, UnicodeEncodeError):
            raise NotAColumn from None
    if isinstance(value, Fields):
        if not _are_names(value):
            raise NotAColumn
        arrays = [array_of(value[key], count) for key in value.keys]
        return pa.StructArray.from_arrays(arrays, value.keys)
    if isinstance(value, Items):
        if value.kind == "tuple":
            raise NotAColumn
        try:
            value = interleaved(value.items, count)
        except GivesUp:
            raise NotAColumn from None
    offsets = pa.array(value.offsets).cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, array_of(value.items, int(value.offsets[-1])))


def records_of(value: Value, count: int) -> Any:
    """A batch of columns if the value is a dict in each row and columns hold it; else a list."""
    if isinstance(value, Fields):
        if value.batch is not None:
            return value.batch.rows
        if _are_names(value):
            try:
                arrays = [array_of(value[key], count) for key in value.keys]
                return pa.RecordBatch.from_arrays(arrays, value.keys)
            except (NotAColumn, UnicodeEncodeError):
                pass
    return objects_of(value, count)


def objects_of(value: Value, count: int) -> list[Any]:
    """The object of each row; each row has dicts and lists of its own."""
    if isinstance(value, Constant):
        return [value.value] * count
    if isinstance(value, Column):
        return _of_column(value)
    if isinstance(value, Lists):
        items = objects_of(value.items, int(value.offsets[-1]))
        ends = value.offsets.tolist()
        return [items[start:end] for start, end in pairwise(ends)]
    if isinstance(value, Fields):
        return _dicts(value, count)
    if not value.items:
        return [() if value.kind == "tuple" else [] for _ in range(count)]
    found = zip(*[objects_of(item, count) for item in value.items], strict=True)
    return list(found) if value.kind == "tuple" else list(map(list, found))


def per_value(function: Callable[..., Any], operands: Sequence[Value], count: int) -> Value:
    """What the function gives for each row; gives up where it raises, or for several classes.

    The objects are new ones, so the function is to be one that does not look whether two of them
    are the same.
    """
    given = [objects_of(operand, count) for operand in operands]
    return value_of_objects(tried(lambda: list(map(function, *given))))


def value_of_objects(found: list[Any]) -> Value:
    """The value which has these objects; gives up for objects of several classes."""
    classes = set(map(type, found))
    if classes == {list}:
        items = list(chain.from_iterable(found))
        return Lists(
            value_of_objects(items) if items else Constant(None),
            offsets_of(list(map(len, found))),
        )
    if classes == {tuple} and len(set(map(len, found))) == 1:
        return Items("tuple", [value_of_objects(list(each)) for each in zip(*found, strict=True)])
    kinds = {_KINDS.get(one, one.__name__) for one in classes} - {"none"}
    if not kinds:
        return Constant(None)
    (kind, *others) = sorted(kinds)
    if others or kind not in COMPUTED:
        raise GivesUp(" or ".join(sorted(kinds)) + " in one place")
    return Column(kind, tried(lambda: pa.array(found, COMPUTED[kind])))


def _are_names(value: Fields) -> bool:
    """Whether the keys can be the names of columns."""
    keys = value.keys
    return bool(keys) and all(type(key) is str for key in keys)


def _of_column(column: Column) -> list[Any]:
    given, found = column.given, []
    if column.kind in ("int", "float") and pa.types.is_primitive(given.type):
        found = (given.to_numpy() if not given.null_count else given).tolist()
    elif column.kind in COMPUTED:
        found = column.plain.to_pylist()
    else:
        found = [row[""] for row in rows(pa.RecordBatch.from_arrays([given], [""]))]
    return found


def _dicts(value: Fields, count: int) -> list[Any]:
    keys = value.keys
    if not keys:
        return [{} for _ in range(count)]
    if value.batch is not None:
        return rows(value.batch.rows)
    if all(type(key) is str and type(entry) is Column for key, entry in value.entries.items()):
        arrays = [entry.given for entry in value.entries.values() if isinstance(entry, Column)]
        return rows(tried(lambda: pa.RecordBatch.from_arrays(arrays, keys)))
    columns = [objects_of(entry, count) for entry in value.entries.values()]
    return [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]


_KINDS = {type(None): "none", bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}
