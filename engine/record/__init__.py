"""Record types that Rust does not encode itself, and how they travel.

A record that comes out of a channel equals the one that went in, type included; other types are
refused. Rust encodes None, bool, int, float, str, bytes, tuple, list, dict, set and frozenset. The
functions here serve the other types, as msgpack extensions of these codes:

     5  named tuple                         35  ZoneInfo
     6  enum that equals its value          36  Decimal
     7  dataclass or enum that is a key     37  complex
    16  str with a lone surrogate           38  bytearray
    17  date                                39  other object by its parts
    18  timedelta                           40  object by its attributes
    19  UUID                                41  pickle
    32  datetime                            42  Fraction
    33  time                                48  NumPy scalar
    34  timezone                            49  NumPy array
                                            50  model (engine.broadcast)

Codes 16 to 30 are for types whose equal values have equal payloads: Rust takes them as keys of
native aggregates, as it takes 5, 6 and 7, which begin with a class (engine.record.registry). In its
tables, 31 stands for a key of another type (`canonical_key`). Subclasses of other types would come
out as their base and are refused. NumPy arrays of objects are refused, too, and so are other
objects unless the stream pickles them.
"""

from __future__ import annotations

import cmath
import dataclasses
import math
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from operator import is_
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from engine.record import classes as record_classes
from engine.record import registry as record_registry
from engine.record.classes import Shape

PICKLED = 41
"""The extension code of a pickle, whose payload is `engine.record.pickles`'s."""


def travel(kind: type) -> Shape:
    """The form in which values of exactly this type travel; TypeError, with a hint, if none."""
    encoding = _ENCODINGS.get(kind)
    if encoding is not None:
        code, encode = encoding
        return Shape("payload", code, encode, decode_extension)
    if kind.__module__ == "numpy":
        from engine.record import numpy as record_numpy  # here: most workers never import NumPy

        found = record_numpy.code_of(kind)
        if found is not None:
            return Shape("payload", found, record_numpy.encode, decode_extension)
    shape = record_classes.shape_of(kind)
    if shape is not None:
        return shape
    raise TypeError(
        f"{_name(kind)} cannot travel in a record, expected None, bool, int, float, str, bytes, "
        "tuple, list, dict, set, frozenset, date and time types, timezone, Decimal, Fraction, "
        "complex, bytearray, UUID, NumPy scalars and arrays, of exactly these types, or a "
        "dataclass, named tuple, enum, OrderedDict, defaultdict, Counter, deque, path or pydantic "
        "model\n\n"
        f"hint: {_hint(kind)}"
    )


def find_class(reference: record_registry.Reference) -> type:
    """The class that a record refers to; LookupError, with a hint, if there is none."""
    kind = record_registry.find(reference)
    if not record_classes.is_known(kind):
        raise LookupError(
            f"a record of class {_name(kind)}, expected a dataclass, named tuple, enum or the like"
            "\n\nhint: do all tasks run the same version of the pipeline?"
        )
    return kind


def decode_extension(code: int, payload: bytes) -> object:
    """The value of this code and payload."""
    decode = _DECODERS.get(code)
    if decode is not None:
        return decode(payload)
    if code in (48, 49):
        from engine.record import numpy as record_numpy

        return record_numpy.decode(code, payload)
    if code == PICKLED:
        from engine.record import pickles as record_pickle

        return record_pickle.loads(payload)
    raise ValueError(f"extension code {code}, expected one of engine.record")


def pickle(value: object) -> bytes:
    """The payload of a value of any type; TypeError if it cannot be pickled."""
    from engine.record import pickles as record_pickle  # here: most workers never pickle a record

    return record_pickle.dumps(value)


def register_type(
    kind: type, code: int, encode: Callable[[Any], bytes], decode: Callable[[bytes], object]
) -> None:
    """Register a further type under a code from 50 on; values of exactly this type then travel.

    For packages above this one: a value may come out as another type.
    """
    assert code >= 50, f"codes below 50 are of this module, {code} is not free"
    _ENCODINGS[kind] = (code, encode)
    _DECODERS[code] = decode


def plain_key(value: object) -> object:
    """`value` as None, bool, int, float, str, bytes or a tuple of them, equal for equal values.

    It only decides the task of a record, which keeps its key. TypeError, with a hint, for values
    that are no keys.
    """
    kind = type(value)
    key = _PLAIN_KEYS.get(kind)
    if key is not None:
        return key(value)
    if kind.__module__ == "numpy":
        from engine.record import numpy as record_numpy

        if record_numpy.is_key(value):
            return record_numpy.plain_key(value)
    key = record_classes.key_of(kind)
    if key is not None:
        _PLAIN_KEYS[kind] = key
        return key(value)
    hint = "key by something that names it, with key_by(lambda record: …)"
    if "__dataclass_fields__" in vars(kind) and kind.__hash__ is None:
        hint = f"@dataclass(frozen=True) makes {kind.__name__} hashable"
    raise TypeError(
        f"{_name(kind)} cannot be a key, expected None, bool, int, float, str, bytes, date and "
        "time types, Decimal, Fraction, complex, UUID, NumPy numbers and texts, enums, paths, "
        "frozen dataclasses with the __eq__ of dataclass, or tuples and frozensets of them\n\n"
        f"hint: {hint}"
    )


def canonical_key(value: object) -> object:
    """As `plain_key`, but also different for different keys, as tables of native aggregates need.

    Rust ensures that a tuple of this function equals no tuple of a user's.
    """
    key = plain_key(value)
    if dataclasses.is_dataclass(value) and isinstance(key, tuple):
        return (record_registry.reference(type(value)), *key)
    return key


def number(value: object) -> object:
    """The number that stands for `value` in an exact sum; None if it is no number.

    NumPy's numbers become Python's, so that sums of np.int8 do not overflow.
    """
    kind = type(value)
    if kind is Decimal:
        return 0 + value  # type: ignore[operator]  # as `sum` begins
    if kind is Fraction or kind is complex or kind is timedelta:
        return value
    if isinstance(value, int):
        return int.__index__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if kind.__module__ == "numpy":
        from engine.record import numpy as record_numpy

        return record_numpy.number(value)
    return None


def dict_key(value: Any) -> Any:
    """`value` in a form that a dict finds again: itself, but `math.nan` for a NaN of any type.

    It looks inside tuples and frozensets, too. A NaN is unequal to itself: a dict finds it by its
    identity alone, and never finds a signaling NaN.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bytes:
        return value
    if kind is float:
        return value if value == value else math.nan
    if kind is tuple or kind is frozenset:
        items = [dict_key(item) for item in value]
        return value if all(map(is_, items, value)) else kind(items)
    if kind is Decimal:
        return math.nan if value.is_nan() else value
    if kind is complex:
        return math.nan if cmath.isnan(value) else value
    if kind.__module__ == "numpy":
        from engine.record import numpy as record_numpy

        return math.nan if record_numpy.is_nan(value) else value
    return value


def comparable_key(value: Any) -> Any:
    """`value` with Python's integers for NumPy's, inside tuples and frozensets, too.

    `Decimal(1) == np.int64(1)` raises TypeError, where a dict compares keys of one hash.
    """
    kind = type(value)
    if kind is tuple or kind is frozenset:
        return kind(map(comparable_key, value))
    if kind.__module__ == "numpy" and isinstance(value, Integral):
        return int(value)
    return value


def _name(kind: type) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def _hint(kind: type) -> str:
    if issubclass(kind, date) and kind.__module__.partition(".")[0] == "pandas":
        return (
            "value.to_pydatetime() is a plain datetime; the rows of a frame travel as columns, "
            "pyarrow.RecordBatch.from_pandas(frame), or Collection(frame)"
        )
    for base in (str, int, float, bytes, tuple, list, dict, set, frozenset):
        if issubclass(kind, base):
            return f"it would arrive as a plain {base.__name__}; emit {base.__name__}(value)"
    if hasattr(kind, "__next__"):
        return "emit its items with flat_map, or list(value)"
    return "emit its parts as a tuple or dict; or .with_pickle() lets a stream carry any object"


def _encode_text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _decode_text(payload: bytes) -> str:
    return payload.decode("utf-8", "surrogatepass")


def _encode_date(value: date) -> bytes:
    return struct.pack("<I", value.toordinal())


def _decode_date(payload: bytes) -> date:
    return date.fromordinal(*struct.unpack("<I", payload))


def _encode_timedelta(value: timedelta) -> bytes:
    return struct.pack("<iII", value.days, value.seconds, value.microseconds)


def _decode_timedelta(payload: bytes) -> timedelta:
    return timedelta(*struct.unpack("<iII", payload))


def _encode_datetime(value: datetime) -> bytes:
    head = struct.pack("<HBB", value.year, value.month, value.day)
    return head + _encode_time(value)


def _decode_datetime(payload: bytes) -> datetime:
    year, month, day = struct.unpack_from("<HBB", payload)
    return datetime.combine(date(year, month, day), _decode_time(payload[4:]))


def _encode_time(value: time | datetime) -> bytes:
    parts = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return struct.pack("<BBBIB", *parts) + _encode_tzinfo(value.tzinfo)


def _decode_time(payload: bytes) -> time:
    hour, minute, second, microsecond, fold = struct.unpack_from("<BBBIB", payload)
    zone = _decode_tzinfo(payload[8:])
    return time(hour, minute, second, microsecond, zone, fold=fold)


def _encode_tzinfo(value: tzinfo | None) -> bytes:
    if value is None:
        return b""
    if type(value) is timezone:
        return b"o" + _encode_timezone(value)
    if type(value) is ZoneInfo:
        return b"z" + _encode_zone(value)
    raise TypeError(
        f"tzinfo {value!r} cannot travel in a record, expected datetime.timezone or ZoneInfo\n\n"
        "hint: value.astimezone(datetime.timezone.utc)"
    )


def _decode_tzinfo(payload: bytes) -> tzinfo | None:
    if not payload:
        return None
    return _decode_zone(payload[1:]) if payload[:1] == b"z" else _decode_timezone(payload[1:])


def _encode_timezone(value: timezone) -> bytes:
    offset = _encode_timedelta(value.utcoffset(None))
    name = value.tzname(None)
    has_name = repr(value) != repr(timezone(value.utcoffset(None)))
    return offset + (b"n" + _encode_text(name) if has_name else b"")


def _decode_timezone(payload: bytes) -> timezone:
    offset, name = _decode_timedelta(payload[:12]), payload[12:]
    return timezone(offset, _decode_text(name[1:])) if name else timezone(offset)


def _encode_zone(value: ZoneInfo) -> bytes:
    if value.key is None:
        raise TypeError(
            f"{value!r} cannot travel in a record: it has no key\n\nhint: ZoneInfo('Area/City')"
        )
    return value.key.encode()


def _decode_zone(payload: bytes) -> ZoneInfo:
    return ZoneInfo(payload.decode())


def _encode_complex(value: complex) -> bytes:
    return struct.pack("<dd", value.real, value.imag)


def _decode_complex(payload: bytes) -> complex:
    return complex(*struct.unpack("<dd", payload))


def _decode_fraction(payload: bytes) -> Fraction:
    numerator, denominator = payload.decode().split("/")
    return Fraction(int(numerator, 16), int(denominator, 16))


def _decimal_key(value: Decimal) -> object:
    if not value.is_finite():
        return math.nan if value.is_nan() else float(value)
    if abs(value.adjusted()) > 5_000:  # nothing equals it but a Decimal, for all practical purposes
        sign, digits, exponent = value.as_tuple()
        text = "".join(map(str, digits))
        shortest = text.rstrip("0")
        assert isinstance(exponent, int), "it is finite"
        return ("Decimal", sign, shortest, exponent + len(text) - len(shortest))
    return _ratio_key(*value.as_integer_ratio())


def _ratio_key(numerator: int, denominator: int) -> object:
    """The integer or the float that equals a fraction in lowest terms, if there is one."""
    if denominator == 1:
        return numerator
    try:
        number = numerator / denominator
        if number.as_integer_ratio() == (numerator, denominator):
            return number
    except OverflowError:  # farther than any float
        pass
    return ("Decimal", numerator, denominator)


def _datetime_key(value: datetime) -> object:
    """The moment; for a time that a zone has twice or not at all, the time that its clock shows.

    Python compares such a time with those of its own zone alone, and leaves `fold` out.
    """
    first = value.replace(fold=0)
    offset = first.utcoffset()
    if offset is None or offset != value.replace(fold=1).utcoffset():
        return ("datetime", _encode_datetime(first))
    try:
        return ("datetime", _encode_datetime(first.astimezone(timezone.utc)))
    except OverflowError:  # in UTC it is in the year 0 or 10000
        since = first.replace(tzinfo=None) - datetime.min - offset
        return ("datetime", _encode_timedelta(since))


def _time_key(value: time) -> object:
    offset = value.utcoffset()
    since = timedelta(
        hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
    )
    if offset is None:
        return ("time", _encode_timedelta(since))
    return ("time", _encode_timedelta(since - offset), "utc")


def _complex_key(value: complex) -> object:
    if cmath.isnan(value):
        return math.nan
    return value.real if value.imag == 0 else ("complex", value.real, value.imag)


_ENCODINGS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    str: (16, _encode_text),
    date: (17, _encode_date),
    timedelta: (18, _encode_timedelta),
    UUID: (19, lambda value: value.bytes),
    datetime: (32, _encode_datetime),
    time: (33, _encode_time),
    timezone: (34, _encode_timezone),
    ZoneInfo: (35, _encode_zone),
    Decimal: (36, lambda value: str(value).encode()),
    complex: (37, _encode_complex),
    bytearray: (38, bytes),
    Fraction: (42, lambda value: f"{value.numerator:x}/{value.denominator:x}".encode()),
}
_DECODERS: dict[int, Callable[[bytes], object]] = {
    16: _decode_text,
    17: _decode_date,
    18: _decode_timedelta,
    19: lambda payload: UUID(bytes=payload),
    32: _decode_datetime,
    33: _decode_time,
    34: _decode_timezone,
    35: _decode_zone,
    36: lambda payload: Decimal(payload.decode()),
    37: _decode_complex,
    38: bytearray,
    42: _decode_fraction,
}
_PLAIN_KEYS: dict[type, Callable[[Any], object]] = {
    str: lambda value: ("str", _encode_text(value)),
    date: lambda value: ("date", value.toordinal()),
    timedelta: lambda value: ("timedelta", _encode_timedelta(value)),
    UUID: lambda value: ("UUID", value.bytes),
    datetime: _datetime_key,
    time: _time_key,
    timezone: lambda value: ("timezone", _encode_timedelta(value.utcoffset(None))),
    Decimal: _decimal_key,
    Fraction: lambda value: _ratio_key(value.numerator, value.denominator),
    complex: _complex_key,
}
