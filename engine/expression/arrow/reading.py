"""The rows of a batch as a value: what `engine.columns.rows` would make of it, as dicts.

That raises for some columns, whether anybody looks at them or not: for times that Python has no
class for. So does this give up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from engine.expression.arrow.values import (
    Chosen,
    Column,
    Constant,
    Fields,
    GivesUp,
    Value,
    is_plain,
    tried,
)
from engine.record.column_values import in_microseconds

is_a = pa.types


class Reader:
    """Reads batches of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        names = schema.names
        if not names:
            raise GivesUp("rows without columns")
        if len(set(names)) < len(names):
            raise GivesUp("two columns of a name")
        self._columns = {
            field.name: (at, kind, is_plain(field.type, kind))
            for at, field in enumerate(schema)
            for kind in [kind_of(field.type)]
        }
        self._checks = [
            (at, _check(field.type)) for at, field in enumerate(schema) if _is_checked(field.type)
        ]

    def rows(self, batch: pa.RecordBatch) -> Fields:
        """A dict in each row."""
        for at, check in self._checks:
            check(batch.column(at))

        def column(name: str) -> Value:
            at, kind, plain = self._columns[name]
            return _column(batch.column(at), kind, plain)

        return Fields({}, Chosen(batch), self._columns, column)


def value_of(array: pa.Array) -> Value:
    """The objects of an array."""
    kind = kind_of(array.type)
    return _column(array, kind, is_plain(array.type, kind))


def _column(array: pa.Array, kind: str, plain: bool) -> Value:
    return Constant(None) if kind == "none" else Column(kind, array, is_plain=plain)


def kind_of(kind: pa.DataType) -> str:
    """What objects a column of this type stands for; nulls apart.

    >>> kind_of(pa.int8()), kind_of(pa.dictionary(pa.int8(), pa.string())), kind_of(pa.date32())
    ('int', 'str', 'time')
    """
    if is_a.is_dictionary(kind) or is_a.is_run_end_encoded(kind):
        inner = kind_of(kind.value_type)
        return inner if inner in ("bool", "int", "float", "str", "bytes") else "other"
    for name, checks in _KINDS.items():
        if any(check(kind) for check in checks):
            return name
    return "other"


def _is_checked(kind: pa.DataType) -> bool:
    """Whether there are values of which no Python object can be made.

    Gives up for types of which this is not known.
    """
    if is_a.is_temporal(kind):
        return not is_a.is_interval(kind)
    if is_a.is_dictionary(kind) or is_a.is_run_end_encoded(kind):
        return _is_checked(kind.value_type)
    if is_a.is_union(kind) or (isinstance(kind, pa.BaseExtensionType) and kind != pa.uuid()):
        raise GivesUp(f"a column of type {kind}")
    if is_a.is_nested(kind):
        inner = [kind.field(at) for at in range(kind.num_fields)]
        names = [field.name for field in inner]
        if any(_is_checked(field.type) for field in inner) or (
            is_a.is_struct(kind) and len(set(names)) < len(names)
        ):
            raise GivesUp(f"a column of type {kind}")
    return False


def _check(kind: pa.DataType) -> Callable[[pa.Array], None]:
    """Gives up for a column of this type with a value of which no Python object can be made."""
    if is_a.is_dictionary(kind):
        check = _check(kind.value_type)
        return lambda array: check(array.dictionary)
    if is_a.is_run_end_encoded(kind):
        check = _check(kind.value_type)
        return lambda array: check(array.values)
    unit = "D" if is_a.is_date32(kind) else "ms" if is_a.is_date64(kind) else kind.unit
    first, last = _limits(kind)
    integers = np.int32 if kind.bit_width == 32 else np.int64
    if is_a.is_timestamp(kind) and kind.tz is not None:
        tried(pa.scalar(0, kind).as_py)  # the zone has to be known

    def check_all(array: pa.Array) -> None:
        if unit == "ns":
            array = tried(lambda: in_microseconds(array))
        numbers = array.drop_null() if array.null_count else array
        numbers = np.frombuffer(numbers.buffers()[1], integers)[
            numbers.offset : numbers.offset + len(numbers)
        ]
        if len(numbers) and not (first <= numbers.min() and numbers.max() <= last):
            raise GivesUp(f"a {kind} that no object of Python holds")

    return check_all


def _limits(kind: pa.DataType) -> tuple[int, int]:
    """The first and the last number of which PyArrow makes an object, after the cast from ns."""
    if is_a.is_date32(kind):
        return _DAYS
    per_second = 1000 if is_a.is_date64(kind) else _PER_SECOND[kind.unit]
    if is_a.is_time(kind):
        return 0, 86400 * per_second - 1
    if is_a.is_duration(kind):
        days = timedelta.max.days * 86400 * per_second
        return -days, days
    first, last = (day * 86400 * per_second for day in _DAYS)
    if is_a.is_date64(kind):
        return first, last
    zone = 0 if kind.tz is None else 86400 * per_second
    return first + zone, last + (86400 * per_second) - 1 - zone


_EPOCH = datetime(1970, 1, 1)
_DAYS = ((datetime.min - _EPOCH).days, (datetime.max - _EPOCH).days)
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000}
_KINDS: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "none": (is_a.is_null,),
    "bool": (is_a.is_boolean,),
    "int": (is_a.is_integer,),
    "float": (is_a.is_floating,),
    "str": (is_a.is_string, is_a.is_large_string, is_a.is_string_view),
    "bytes": (
        *(is_a.is_binary, is_a.is_large_binary),
        *(is_a.is_binary_view, is_a.is_fixed_size_binary),
    ),
    "list": (is_a.is_list, is_a.is_large_list, is_a.is_fixed_size_list),
    "struct": (is_a.is_struct,),
    "time": (is_a.is_temporal,),
}
