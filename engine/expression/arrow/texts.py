"""Texts: methods of `str` by kernels of Arrow where these do the same, otherwise value by value.

Arrow's tables of letters and spaces are others than Python's, so its kernels have ASCII only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expression.arrow.merging import kept, lists_of
from engine.expression.arrow.objects import per_value
from engine.expression.arrow.values import (
    Column,
    Constant,
    GivesUp,
    Value,
    by_python,
    told,
)


def join(parts: Sequence[Value]) -> Value:
    """The texts one behind the other, as in an f-string and in `a + b`."""
    if not parts:
        return Constant("")
    if (found := by_python(lambda *texts: "".join(texts), parts)) is not None:
        return found
    operands = [_operand(part) for part in parts]
    if len(operands) == 1:
        return parts[0]
    if any(pa.types.is_large_string(each.type) for each in operands):
        operands = [each.cast(pa.large_string()) for each in operands]
    return Column("str", pc.binary_join_element_wise(*operands, pa.scalar("", operands[0].type)))


def text_of(value: Value, count: int) -> Value:
    """`str(value)`."""
    if (found := by_python(str, (value,))) is not None:
        return found
    if isinstance(value, Column):
        if value.kind == "str":
            _ = value.values
            return value
        if value.kind == "bool":
            return Column("str", pc.if_else(value.values, "True", "False"))
        if value.kind == "int":
            return Column("str", value.values.cast(pa.string()))
    return per_value(str, (value,), count)


def formatted(value: Value, how: tuple[str, str], count: int) -> Value:
    """A replacement field of an f-string, of a conversion and a format."""
    conversion, spec = how
    if conversion in ("r", "a"):
        value = per_value(repr if conversion == "r" else ascii, (value,), count)
    elif conversion == "s":
        value = text_of(value, count)
    if not spec:
        return text_of(value, count)
    return per_value(lambda each: format(each, spec), (value,), count)


def method(name: str, operands: Sequence[Value], count: int) -> Value:
    """The method of a text; of bytes, `decode` alone, as `str.lower(x)` is a method, too."""
    of, *others = operands
    if told(of) != ("bytes" if name == "decode" else "str"):
        raise GivesUp(f"{name} of a {told(of)}")
    if (found := by_python(lambda each, *more: getattr(each, name)(*more), operands)) is not None:
        return found
    if isinstance(of, Column) and of.kind == "str" and (kernel := _KERNELS.get(name)) is not None:
        found = kernel(of, [_plain(other) for other in others])
        if found is not None:
            return found
    return per_value(lambda each, *more: getattr(each, name)(*more), operands, count)


def is_leaf(value: Value) -> bool:
    """Whether the objects are of classes whose methods change nothing."""
    return isinstance(value, Constant | Column) and value.kind in _LEAVES


def is_ascii(texts: pa.Array) -> bool:
    """Whether no character is beyond ASCII."""
    return not len(data := _data(texts)) or bool(data.max() < 0x80)


def _operand(part: Value) -> Any:
    if not isinstance(part, Column | Constant) or part.kind != "str":
        raise GivesUp(f"str + {told(part)}")
    return part.scalar if isinstance(part, Constant) else part.values


def _data(texts: pa.Array) -> Any:
    """The bytes of all texts."""
    _, ends, data = texts.buffers()
    if data is None or ends is None or not len(texts):
        return np.empty(0, np.uint8)
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    ends = np.frombuffer(ends, width)
    return np.frombuffer(data, np.uint8)[ends[texts.offset] : ends[texts.offset + len(texts)]]


def _plain(value: Value) -> Any:
    """The object of a constant; something that no kernel takes for other values."""
    return value.value if isinstance(value, Constant) else value


def _in_ascii(kernel: Callable[[pa.Array], pa.Array]) -> Callable[..., Value | None]:
    def call(of: Column, others: list[Any]) -> Value | None:
        texts = of.values
        return Column("str", kernel(texts)) if not others and is_ascii(texts) else None

    return call


def _strip(kernel: Callable[..., pa.Array]) -> Callable[..., Value | None]:
    def call(of: Column, others: list[Any]) -> Value | None:
        texts = of.values
        if not others or others == [None]:
            return Column("str", kernel(texts, _SPACES)) if is_ascii(texts) else None
        return Column("str", kernel(texts, others[0])) if _are_texts(others, 1) else None

    return call


def _with_part(kernel: Callable[..., pa.Array]) -> Callable[..., Value | None]:
    def call(of: Column, others: list[Any]) -> Value | None:
        texts = of.values
        if len(others) == 1 and type(others[0]) is tuple and _are_texts(others[0]):
            found = pa.repeat(False, len(texts))
            for part in others[0]:
                found = pc.or_(found, kernel(texts, part))
            return Column("bool", found)
        return Column("bool", kernel(texts, others[0])) if _are_texts(others, 1) else None

    return call


def _replace(of: Column, others: list[Any]) -> Value | None:
    if not _are_texts(others, 2) or not others[0]:
        return None
    return Column("str", pc.replace_substring(of.values, *others))


def _find(of: Column, others: list[Any]) -> Value | None:
    texts = of.values
    if not _are_texts(others, 1) or not is_ascii(texts):
        return None
    return Column("int", pc.find_substring(texts, others[0]).cast(pa.int64()))


def _count(of: Column, others: list[Any]) -> Value | None:
    if not _are_texts(others, 1) or not others[0]:
        return None
    return Column("int", pc.count_substring(of.values, others[0]).cast(pa.int64()))


def _split(of: Column, others: list[Any]) -> Value | None:
    texts = of.values
    if _are_texts(others, 1) and others[0]:
        return lists_of(Column("list", pc.split_pattern(texts, others[0])), len(texts))
    if others and others != [None]:
        return None
    data = _data(texts)
    if len(data) and (data.max() >= 0x80 or np.any((data >= 0x1C) & (data <= 0x1F))):
        return None
    found = lists_of(Column("list", pc.ascii_split_whitespace(texts)), len(texts))
    pieces = found.items
    assert isinstance(pieces, Column)
    lengths = pc.binary_length(pieces.plain).to_numpy(zero_copy_only=False)
    return kept(found, lengths > 0)


def _are_texts(values: Sequence[Any], number: int | None = None) -> bool:
    return all(type(value) is str for value in values) and number in (None, len(values))


_LEAVES = ("none", "bool", "int", "float", "str", "bytes", "time")
_SPACES = " \t\n\v\f\r\x1c\x1d\x1e\x1f"
_KERNELS: dict[str, Callable[[Column, list[Any]], Value | None]] = {
    "lower": _in_ascii(pc.ascii_lower),
    "upper": _in_ascii(pc.ascii_upper),
    "strip": _strip(pc.utf8_trim),
    "lstrip": _strip(pc.utf8_ltrim),
    "rstrip": _strip(pc.utf8_rtrim),
    "startswith": _with_part(pc.starts_with),
    "endswith": _with_part(pc.ends_with),
    "replace": _replace,
    "find": _find,
    "count": _count,
    "split": _split,
}
