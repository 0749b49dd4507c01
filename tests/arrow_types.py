"""A column of each type of Arrow, with nulls, and values that do not fit beside their lengths."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

NUMBERS = [3, None, 1, 2, 1, None, 3, 100]
_LONG = "a text that is longer than twelve bytes "
TEXTS = [f"{_LONG}a", None, "b", f"{_LONG}c", "b", None, f"{_LONG}a", "d"]
_DAYS = [date(2024, 1, 1) + timedelta(days=n) if n else None for n in NUMBERS]
_TIMES = [day and datetime(day.year, day.month, day.day, 1, 2, 3) for day in _DAYS]
_INSTANTS = [at and at.replace(tzinfo=timezone.utc) for at in _TIMES]
_CLOCK = [n and time(0, n % 60, 5) for n in NUMBERS]
_LISTS = [t and [t, None, f"{t}!"] for t in TEXTS]
_STRUCTS = [t and {"a": t, "b": len(t)} for t in TEXTS]


def _halves(kind: pa.DataType) -> tuple[pa.DataType, list[Any]]:
    return kind, [n and n + 0.5 for n in NUMBERS]


def _decimals(kind: pa.DataType) -> tuple[pa.DataType, list[Any]]:
    return kind, [n and Decimal(n) / 4 for n in NUMBERS]


_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
INTEGERS = {str(kind): (kind, NUMBERS) for kind in (*_SIGNED, *_UNSIGNED)}
FLOATS = {str(kind): _halves(kind) for kind in (pa.float16(), pa.float32(), pa.float64())}
BOOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [n and n % 2 == 0 for n in NUMBERS])
}
DECIMALS = {
    "decimal32": _decimals(pa.decimal32(7, 2)),
    "decimal64": _decimals(pa.decimal64(15, 2)),
    "decimal128": _decimals(pa.decimal128(20, 2)),
    "decimal256": _decimals(pa.decimal256(50, 2)),
}
STRINGS = {str(kind): (kind, TEXTS) for kind in (pa.string(), pa.large_string(), pa.string_view())}
BINARIES: dict[str, tuple[pa.DataType, list[Any]]] = {
    str(kind): (kind, [t and t.encode() for t in TEXTS])
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
} | {"fixed_size_binary": (pa.binary(16), [t and t.encode().rjust(16)[-16:] for t in TEXTS])}
CLOCKS: dict[str, tuple[pa.DataType, list[Any]]] = (
    {"date32": (pa.date32(), _DAYS), "date64": (pa.date64(), _DAYS)}
    | {
        str(kind): (kind, _CLOCK)
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    }
    | {str(kind): (kind, _TIMES) for kind in map(pa.timestamp, ("s", "ms", "us"))}
    | {
        "instant": (pa.timestamp("us", "UTC"), _INSTANTS),
        "instant in a zone": (pa.timestamp("ms", "Europe/Paris"), _INSTANTS),
    }
    | {
        str(kind): (kind, [n and timedelta(seconds=n) for n in NUMBERS])
        for kind in map(pa.duration, ("s", "ms", "us"))
    }
)
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "list": (pa.list_(pa.string()), _LISTS),
    "large_list": (pa.large_list(pa.string()), _LISTS),
    "list_view": (pa.list_view(pa.string()), _LISTS),
    "large_list_view": (pa.large_list_view(pa.string_view()), _LISTS),
    "list of views": (pa.list_(pa.string_view()), _LISTS),
    "fixed_size_list": (pa.list_(pa.string(), 3), _LISTS),
    "struct": (pa.struct({"a": pa.string(), "b": pa.int64()}), _STRUCTS),
    "struct of views": (pa.struct({"a": pa.string_view(), "b": pa.int64()}), _STRUCTS),
    "map": (pa.map_(pa.string(), pa.int64()), [t and [(t, len(t))] for t in TEXTS]),
    "interval": (
        pa.month_day_nano_interval(),
        [n and pa.MonthDayNano([n, n, n]) for n in NUMBERS],
    ),
    "sparse union": (pa.sparse_union([pa.field("t", pa.string()), pa.field("n", pa.int64())]), []),
    "dense union": (pa.dense_union([pa.field("t", pa.string()), pa.field("n", pa.int64())]), []),
}
NUMBER_CODES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "dictionary of int": (pa.dictionary(pa.int32(), pa.int64()), NUMBERS),
    "dictionary of float": _halves(pa.dictionary(pa.int32(), pa.float64())),
    "runs of int": (pa.run_end_encoded(pa.int16(), pa.int64()), NUMBERS),
}
TEXT_CODES: dict[str, tuple[pa.DataType, list[Any]]] = {
    f"dictionary by {codes}": (pa.dictionary(codes, pa.string()), TEXTS)
    for codes in (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64())
} | {
    "dictionary of views": (pa.dictionary(pa.int32(), pa.string_view()), TEXTS),
    "dictionary of times": (pa.dictionary(pa.int32(), pa.timestamp("us")), _TIMES),
    "runs": (pa.run_end_encoded(pa.int32(), pa.string()), TEXTS),
}
EXTENSIONS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "uuid": (pa.uuid(), [n and UUID(int=n) for n in NUMBERS])
}
NULLS: dict[str, tuple[pa.DataType, list[Any]]] = {"null": (pa.null(), [None] * 8)}

ALL = (
    NULLS
    | BOOLS
    | INTEGERS
    | FLOATS
    | DECIMALS
    | STRINGS
    | BINARIES
    | CLOCKS
    | NESTED
    | NUMBER_CODES
    | TEXT_CODES
    | EXTENSIONS
)

SUMMED = BOOLS | INTEGERS | FLOATS | NUMBER_CODES
"""What has a sum and a mean."""
ORDERED = SUMMED | STRINGS | BINARIES | CLOCKS | TEXT_CODES | EXTENSIONS
"""What has a minimum and a maximum."""
KEYS = ORDERED | DECIMALS | NULLS
"""What can be a key, and be told apart from others."""


def column(name: str, start: int = 0, behind: int = 8) -> pa.Array:
    """Some of the values of a type, eight in all."""
    kind, values = ALL[name]
    if pa.types.is_union(kind):
        return _union(kind).slice(start, behind - start)
    values = values[start:behind]
    if pa.types.is_dictionary(kind):
        coded = pa.array(values, pa.int64() if not any(values) else None).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            coded.indices.cast(kind.index_type), coded.dictionary.cast(kind.value_type)
        )
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type), kind.run_end_type)
    if kind == pa.uuid():
        stored = pa.array([value and value.bytes for value in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(kind, stored)
    return pa.array(values, kind)


def _union(kind: pa.DataType) -> pa.Array:
    which = pa.array([0, 1] * 4, pa.int8())
    if kind.mode == "sparse":
        children = [pa.array(TEXTS), pa.array(NUMBERS, pa.int64())]
        return pa.UnionArray.from_sparse(which, children, ["t", "n"])
    places = pa.array([0, 0, 1, 1, 2, 2, 3, 3], pa.int32())
    children = [pa.array(TEXTS[::2]), pa.array(NUMBERS[1::2], pa.int64())]
    return pa.UnionArray.from_dense(which, places, children, ["t", "n"])


def batches(
    name: str, change: Callable[[pa.Array], pa.Array] = lambda x: x
) -> list[pa.RecordBatch]:
    """Several of them, one cut out of another and one empty; the rows are numbered in `i`.

    `x` is of the type, `k` a key of two, `at` a time in microseconds, a second from row to row.
    """
    found, row = [], 0
    for start, behind, cut in ((0, 8, 0), (2, 8, 1), (0, 0, 0), (0, 5, 0)):
        x = change(column(name, start, behind))
        rows = range(row, row + len(x))
        row = rows.stop
        columns = {
            "x": x,
            "k": pa.array([i % 2 for i in rows], pa.int64()),
            "at": pa.array([1_000_000 * i for i in rows], pa.int64()),
            "i": pa.array(rows, pa.int64()),
        }
        found.append(pa.record_batch(columns).slice(cut))
    return found
