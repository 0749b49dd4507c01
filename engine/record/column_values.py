"""Values as a column, and back: a value that a column would change is refused.

PyArrow cuts off what a type does not hold: 2.75 is 2 in a column of integers, a datetime its day.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from itertools import starmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def array_of(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array:
    """A column of this type, or else of the type of the values.

    Floats are rounded to the precision of the type. Of a struct, fields that it lacks are left out.
    Raises TypeError for values that do not fit.
    """
    import pyarrow

    try:
        array = pyarrow.array(values, kind)
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        raise TypeError(str(error)) from None
    if _is_exact(array.type, set(map(type, values))):
        return array
    try:
        found = values_of(array)
    except ValueError:  # nanoseconds, which hold whatever a value has
        return array
    for one, value in zip(found, values, strict=True):
        if not _holds(one, value):
            raise TypeError(f"{value!r:.80} would be {one!r:.80}")
    return array


def field_of(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """As `array_of`; raises TypeError also for None where a field is not nullable."""
    array = array_of(values, field.type)
    check_nulls(field, array)
    return array


def check_nulls(field: pa.Field, array: pa.Array) -> None:
    """TypeError for nulls in a field that is not nullable, or in one inside of it."""
    if (name := _null_in(field, array)) is not None:
        raise TypeError(f"{name!r} would be null, and is not nullable")


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column in another type. Raises TypeError where that does not hold each of its values."""
    import pyarrow

    try:
        found = array.cast(kind)
        is_other = _is_other(array, found)
    except pyarrow.ArrowException as error:
        raise TypeError(str(error)) from None
    if is_other:
        raise TypeError(f"values of {array.type} would be others")
    return found


def values_of(array: pa.Array) -> list[Any]:
    """The column's values as Python objects; none is of a class of pandas.

    Raises ValueError as `in_microseconds` does.
    """
    found: list[Any] = in_microseconds(array).to_pylist()
    return found


def in_microseconds(array: pa.Array) -> pa.Array:
    """The column with microseconds in place of nanoseconds; itself where it has none.

    Raises ValueError for a time that is no whole number of microseconds: Python has no class for
    it.
    """
    import pyarrow

    given = array.type  # an object of its own with each look
    if (kind := _in_microseconds(given)) is not given:
        try:
            return array.cast(kind)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(
                f"{array.type} holds what is finer than a microsecond, which no datetime, "
                f"timedelta or time does: {error}\n\nhint: cast it in .map_batches(...), to "
                "microseconds (safe=False rounds down) or to int64"
            ) from None
    return array


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """The type with microseconds in place of nanoseconds; itself where it has none."""
    import pyarrow as pa

    is_a = pa.types
    if is_a.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if kind.unit == "ns" else kind
    if is_a.is_duration(kind):
        return pa.duration("us") if kind.unit == "ns" else kind
    if is_a.is_time64(kind):
        return pa.time64("us") if kind.unit == "ns" else kind
    if is_a.is_dictionary(kind):
        inner = _in_microseconds(kind.value_type)
        return kind if inner is kind.value_type or inner == kind.value_type else inner
    if not is_a.is_nested(kind) or is_a.is_union(kind):
        return kind
    if is_a.is_struct(kind):
        fields = [each.with_type(_in_microseconds(each.type)) for each in kind]
        changed = pa.struct(fields)
    elif is_a.is_map(kind):
        key, item = (_in_microseconds(each) for each in (kind.key_type, kind.item_type))
        changed = pa.map_(key, kind.item_field.with_type(item), kind.keys_sorted)
    elif is_a.is_fixed_size_list(kind):
        inner = kind.value_field.with_type(_in_microseconds(kind.value_type))
        changed = pa.list_(inner, kind.list_size)
    elif is_a.is_list(kind) or is_a.is_large_list(kind):
        inner = kind.value_field.with_type(_in_microseconds(kind.value_type))
        changed = (pa.list_ if is_a.is_list(kind) else pa.large_list)(inner)
    else:
        return kind
    return kind if changed == kind else changed


def _is_exact(kind: pa.DataType, classes: set[type]) -> bool:
    """Whether PyArrow itself refuses all values of these classes that the type does not hold."""
    import pyarrow as pa

    is_a = pa.types
    classes = classes - {type(None)}
    if classes == {int}:
        return bool(is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind))
    if classes == {float}:
        return bool(is_a.is_float64(kind))
    if classes == {str}:
        return bool(is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind))
    if classes == {datetime}:
        return bool(is_a.is_timestamp(kind) and kind.unit in ("us", "ns"))
    return not classes or classes in ({bool}, {bytes}) or isinstance(kind, pa.BaseExtensionType)


def _is_other(given: pa.Array, found: pa.Array) -> bool:
    """Whether a cast that PyArrow calls safe has changed values.

    It makes the day, or the time of day, of a timestamp, true of 5, and infinity of what is too far
    for a float.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    is_a = pa.types
    one, other = (
        each.type.value_type if is_a.is_dictionary(each.type) else each.type
        for each in (given, found)
    )
    checks = (is_a.is_nested, is_a.is_timestamp, is_a.is_integer, is_a.is_floating)
    if one == other or not any(check(one) for check in checks):
        return False
    given, found = (
        each.dictionary_decode() if is_a.is_dictionary(each.type) else each
        for each in (given, found)
    )
    if is_a.is_struct(one) and is_a.is_struct(other):
        named = dict(zip((each.name for each in other), found.flatten(), strict=True))
        inner = zip((each.name for each in one), given.flatten(), strict=True)
        return any(name in named and _is_other(part, named[name]) for name, part in inner)
    if is_a.is_nested(one) and is_a.is_nested(other):
        lists = [_as_list(each) for each in (given, found)]
        return all(hasattr(each, "flatten") for each in lists) and _is_other(
            *(each.flatten() for each in lists)
        )
    if is_a.is_timestamp(one) and is_a.is_time(other):
        return bool(given.null_count < len(given))
    if is_a.is_timestamp(one) and is_a.is_date(other):
        local = given if one.tz is None else pc.local_timestamp(given)
        return not found.cast(local.type).equals(local)
    if is_a.is_boolean(other) and (is_a.is_integer(one) or is_a.is_floating(one)):
        return not found.cast(pa.int8()).cast(one).equals(given)
    if is_a.is_floating(one) and is_a.is_floating(other):
        before, after = (pc.is_inf(each.cast(pa.float64())) for each in (given, found))
        return not before.equals(after)
    return False


def _as_list(array: pa.Array) -> pa.Array:
    """A column of maps as one of lists of pairs, whose items PyArrow gives; others as they are."""
    import pyarrow as pa

    kind = array.type
    if not pa.types.is_map(kind):
        return array
    return array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))


def _null_in(field: pa.Field, array: pa.Array) -> str | None:
    """The name of the field, or of one inside of it, that has nulls and is not nullable."""
    import pyarrow as pa

    if not field.nullable and array.null_count:
        return str(field.name)
    kind = field.type
    if pa.types.is_struct(kind):
        inner = zip(kind, array.drop_null().flatten(), strict=True)
        return next(filter(None, starmap(_null_in, inner)), None)
    if pa.types.is_map(kind):
        items = [item for pairs in array.to_pylist() for _, item in pairs or ()]
        return _null_in(kind.item_field, pa.array(items, kind.item_type))
    if hasattr(kind, "value_field"):
        return _null_in(kind.value_field, array.flatten())
    return None


def _holds(found: Any, value: Any) -> bool:
    """Whether the value read back is the value that was given."""
    value = _plain(value)
    if value is None or found is None:
        return found is value
    if isinstance(found, float):
        # Rounded where it is one, too: but not to what is farther away than any.
        if isinstance(value, int):
            return bool(found == value)
        return math.isnan(found) == math.isnan(value) and math.isinf(found) == math.isinf(value)
    if isinstance(found, datetime) and isinstance(value, datetime):
        one, other = (
            each if each.tzinfo else each.replace(tzinfo=timezone.utc) for each in (found, value)
        )
        return one == other
    if isinstance(found, date) and isinstance(value, datetime):
        return value.replace(tzinfo=None) == datetime.combine(found, time())
    if isinstance(found, date | time | timedelta) and not isinstance(value, type(found)):
        return not isinstance(value, float) or value.is_integer()  # a number of its units
    if isinstance(found, str | bytes):
        return bool(_in_bytes(found) == _in_bytes(value))
    if isinstance(found, dict):
        if not isinstance(value, Mapping):
            return all(map(_holds, found.values(), value))
        return all(_holds(each, value.get(name)) for name, each in found.items())
    if isinstance(found, list | tuple):
        value = list(value.items() if isinstance(value, Mapping) else value)
        return len(found) == len(value) and all(map(_holds, found, value))
    return bool(found == value)


def _plain(value: Any) -> Any:
    """A scalar of PyArrow or NumPy as Python has it."""
    if hasattr(value, "as_py"):
        return value.as_py()
    if hasattr(value, "dtype"):
        is_time = value.dtype.kind in "mM"
        return (value.astype(f"{value.dtype.kind}8[us]") if is_time else value).tolist()
    return value


def _in_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else value
