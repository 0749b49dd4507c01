"""Record types that Rust does not encode itself, and how they travel.

What comes out of a channel equals what went in, type included; a type of which that cannot be
promised is refused. Rust encodes None, bool, int, float, str, bytes, tuple, list, dict, set and
frozenset. The functions here serve the other types, as msgpack extensions of these codes:

    16  str with a lone surrogate           32  datetime         36  Decimal
    17  date                                33  time             37  complex
    18  timedelta                           34  timezone         38  bytearray
    19  UUID                                35  ZoneInfo         48  NumPy scalar
                                                                 49  NumPy array
                                                                 50  model (engine.broadcast)

Codes 16 to 31 are for types whose equal values have equal payloads: Rust takes them as keys of
native aggregates. Subclasses (named tuples, enums, OrderedDict, …) would come out as their base
and are refused; so are NumPy arrays of objects, and objects in general: pickle is not used.
"""

from __future__ import annotations

import cmath
import math
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from operator import is_
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo


def encode_extension(value: object) -> tuple[int, bytes]:
    """The extension code and payload of `value`; TypeError, with a hint, for an unknown type."""
    kind = type(value)
    encoding = _ENCODINGS.get(kind)
    if encoding is not None:
        code, encode = encoding
        return code, encode(value)
    if kind.__module__ == "numpy":
        from engine import record_numpy  # here: most workers never import NumPy

        if record_numpy.is_encodable(value):
            return record_numpy.encode(value)
    raise TypeError(
        f"{_name(kind)} cannot travel in a record, expected None, bool, int, float, str, bytes, "
        "tuple, list, dict, set, frozenset, date and time types, timezone, Decimal, complex, "
        "bytearray, UUID, or NumPy scalars and arrays, of exactly these types\n\n"
        f"hint: {_hint(value)}"
    )


def decode_extension(code: int, payload: bytes) -> object:
    """The value that `encode_extension` turned into `code` and `payload`."""
    decode = _DECODERS.get(code)
    if decode is not None:
        return decode(payload)
    if code in (48, 49):
        from engine import record_numpy

        return record_numpy.decode(code, payload)
    raise ValueError(f"extension code {code}, expected one of engine.record")


def register_type(
    kind: type, code: int, encode: Callable[[Any], bytes], decode: Callable[[bytes], object]
) -> None:
    """Let values of exactly this type travel, too, under a code from 50 on.

    For packages that lie above this one: what comes out need not be of the type that went in.
    """
    assert code >= 50, f"codes below 50 are of this module, {code} is not free"
    _ENCODINGS[kind] = (code, encode)
    _DECODERS[code] = decode


def plain_key(value: object) -> object:
    """`value` as None, bool, int, float, str, bytes or a tuple of them, equal for equal values.

    It decides the task of a record only; the record keeps its key. TypeError, with a hint, for
    values that are no keys.
    """
    kind = type(value)
    key = _PLAIN_KEYS.get(kind)
    if key is not None:
        return key(value)
    if kind.__module__ == "numpy":
        from engine import record_numpy

        if record_numpy.is_key(value):
            return record_numpy.plain_key(value)
    raise TypeError(
        f"{_name(kind)} cannot be a key, expected None, bool, int, float, str, bytes, date and "
        "time types, Decimal, complex, UUID, NumPy numbers and texts, or tuples and frozensets of "
        "them\n\nhint: key by something that names it, with key_by(lambda record: …)"
    )


def dict_key(value: Any) -> Any:
    """`value` as a dict finds it again: itself, but `math.nan` for what is a NaN of any type.

    So it is inside tuples and frozensets. A NaN is unequal to itself: a dict finds it by its
    identity alone, and a signaling one not at all.
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
        from engine import record_numpy

        return math.nan if record_numpy.is_nan(value) else value
    return value


def _name(kind: type) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def _hint(value: object) -> str:
    for base in (str, int, float, bytes, tuple, list, dict, set, frozenset):
        if isinstance(value, base):
            return f"it would arrive as a plain {base.__name__}; emit {base.__name__}(value)"
    if hasattr(value, "__dataclass_fields__"):
        return "emit dataclasses.astuple(value) or dataclasses.asdict(value)"
    if hasattr(value, "__next__"):
        return "emit its items with flat_map, or list(value)"
    return "emit its parts as a tuple or dict"


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


def _decimal_key(value: Decimal) -> object:
    if not value.is_finite():
        return math.nan if value.is_nan() else float(value)
    if abs(value.adjusted()) > 5_000:  # nothing equals it but a Decimal, for all practical purposes
        return ("Decimal", str(value.normalize()))
    ratio = value.as_integer_ratio()
    if ratio[1] == 1:
        return ratio[0]
    return float(value) if float(value).as_integer_ratio() == ratio else ("Decimal", *ratio)


def _datetime_key(value: datetime) -> object:
    if value.utcoffset() is not None:
        value = value.astimezone(timezone.utc)
    return ("datetime", _encode_datetime(value.replace(fold=0)))


def _time_key(value: time) -> object:
    offset = value.utcoffset()
    since = timedelta(
        hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
    )
    return ("time", _encode_timedelta(since if offset is None else since - offset))


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
    complex: _complex_key,
}
