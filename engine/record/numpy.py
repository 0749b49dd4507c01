"""NumPy scalars and arrays as records: extension codes 48 and 49 of `engine.record`.

A payload is the length and the text of the dtype (and of an array's shape), then the data in the
machine's memory layout. Arrays arrive writable, with memory of their own.
"""

from __future__ import annotations

import ast
import math
import struct
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt


def code_of(kind: type) -> int | None:
    """The extension code of NumPy scalars of this type, or of arrays; None for other types."""
    if kind is np.ndarray:
        return 49
    return 48 if issubclass(kind, np.generic) else None


def encode(value: Any) -> bytes:
    """The payload of a value whose type has a code; TypeError for dtypes of objects."""
    if type(value) is np.ndarray:
        order: Literal["F", "C"] = "F" if value.flags.fnc else "C"
        head = repr((dtype_text(value.dtype), value.shape, order))
        return _join(head, value.tobytes(order))
    if isinstance(value, np.str_):
        return _join("U", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, np.bytes_):
        return _join("S", bytes(value))
    # The character distinguishes types of one layout, such as np.int64 and np.longlong.
    head = value.dtype.char if value.dtype.kind in "biufc" else dtype_text(value.dtype)
    return _join(head, value.tobytes())


def decode(code: int, payload: bytes) -> object:
    """The value of this code and payload, as `encode` made them."""
    (length,) = struct.unpack_from("<I", payload)
    head, data = payload[4 : 4 + length].decode(), memoryview(payload)[4 + length :]
    if code == 49:
        text, shape, order = _array_head(head)
        array: npt.NDArray[Any] = np.ndarray(shape, dtype_of(text), bytearray(data), order=order)
        return array
    if head == "U":
        return np.str_(str(data, "utf-8", "surrogatepass"))
    if head == "S":
        return np.bytes_(bytes(data))
    return np.ndarray((), dtype_of(head), bytearray(data))[()]


def is_key(value: object) -> bool:
    """Whether `value` can be a key: a number or a text."""
    return isinstance(value, np.number | np.bool_ | np.str_ | np.bytes_) and not isinstance(
        value, np.timedelta64
    )


def plain_key(value: Any) -> object:
    """The Python value that equals a NumPy key."""
    if isinstance(value, np.complexfloating):
        if np.isnan(value):
            return math.nan
        real = plain_key(value.real)
        return real if value.imag == 0 else ("complex", real, plain_key(value.imag))
    if not isinstance(value, np.longdouble):
        return value.item()
    number = float(value)
    if number == value or value != value:
        return number
    ratio = value.as_integer_ratio()
    return ratio[0] if ratio[1] == 1 else ("longdouble", *ratio)


def number(value: object) -> object:
    """The number that stands for `value` in a sum, Python's if there is one; None if none."""
    if not isinstance(value, np.number | np.bool_) or isinstance(value, np.timedelta64):
        return None
    return value.item()


def is_nan(value: object) -> bool:
    """Whether `value` is a NaN of NumPy's."""
    return isinstance(value, np.inexact) and bool(np.isnan(value))


def _join(head: str, data: bytes) -> bytes:
    text = head.encode()
    return struct.pack("<I", len(text)) + text + data


@lru_cache(maxsize=1024)
def dtype_text(dtype: np.dtype[Any]) -> str:
    """The dtype as a text for `dtype_of`; TypeError if it has objects."""
    if not dtype.hasobject and dtype.type.__module__ == "numpy":
        text = dtype.str if dtype.names is None else repr(np.lib.format.dtype_to_descr(dtype))
        if dtype_of(text) == dtype:
            return text
    raise TypeError(
        f"a NumPy value of dtype {dtype} cannot travel in a record, expected numbers, times, or "
        "texts of fixed length\n\nhint: convert it with astype() or tolist()"
    )


@lru_cache(maxsize=1024)
def dtype_of(text: str) -> np.dtype[Any]:
    """The dtype of such a text."""
    if text.startswith(("[", "{", "(")):
        dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    else:
        dtype = np.dtype(text)
    if dtype.hasobject:  # NumPy would read its bytes as addresses
        raise TypeError(f"dtype {dtype} has objects, expected plain data")
    return dtype


@lru_cache(maxsize=1024)
def _array_head(head: str) -> tuple[str, tuple[int, ...], Any]:
    text, shape, order = ast.literal_eval(head)
    return text, shape, order
