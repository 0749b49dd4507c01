"""Calls of builtins and of methods, which change nothing."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expression.arrow import containers, sequences, texts
from engine.expression.arrow.arithmetic import as_float, as_int, check_present, is_number
from engine.expression.arrow.comparison import compare, identical, negated, truth
from engine.expression.arrow.merging import Choice, lists_of
from engine.expression.arrow.objects import per_value
from engine.expression.arrow.values import (
    Column,
    Constant,
    GivesUp,
    Items,
    Lists,
    Value,
    by_python,
    fixed,
)


def call(name: str, operands: Sequence[Value], count: int) -> Value:
    """The builtin of this name, with these arguments."""
    if name.startswith("isinstance:"):
        return _is_of(operands[0], set(name.partition(":")[2].split("|")))
    if (made := _LISTS.get(name)) is not None:
        return made(operands, count)
    if name == "dict" and operands:
        return containers.dict_from(operands[0])
    if name not in PURE:
        raise GivesUp(f"a call of {name.partition(':')[0]}")
    function = getattr(builtins, name)
    if (found := by_python(function, operands)) is not None:
        return found
    if name in ("list", "tuple"):
        if operands and (items := containers.items_of(operands[0])) is not None:
            return Items(name, items)
        if operands[0].kind == "list":
            if name == "tuple":
                raise GivesUp("tuples of different lengths")
            return lists_of(operands[0], count)
    if len(operands) == 1 and (known := _OF_ONE.get(name)) is not None:
        result: Value | None = known(operands[0], count)
        if result is not None:
            return result
    if name in ("min", "max"):
        of = list(operands) if len(operands) > 1 else fixed(operands[0])
        if of:
            return _extreme("<" if name == "min" else ">", of)
    if name in ("min", "max", "sorted") and any(map(_has_others, operands)):
        raise GivesUp(f"{name} of lists, which may be of one NaN")
    return per_value(function, operands, count)


def method(name: str, operands: Sequence[Value], count: int) -> Value:
    """The method of this name of the first operand."""
    if containers.fields_of(operands[0]) is not None:
        return containers.of_dict(name, operands)
    return texts.method(name, operands, count)


def _is_of(value: Value, classes: set[str]) -> Value:
    """`isinstance(value, …)`, with a class of these names."""
    if isinstance(value, Constant):
        classes_of = {each.__name__ for each in type(value.value).__mro__}
        return Constant(not classes.isdisjoint(classes_of))
    if value.kind in ("time", "other"):
        raise GivesUp(f"the class of a {value.kind}")
    kind = "dict" if value.kind == "struct" else value.kind
    is_of = kind in classes or (kind == "bool" and "int" in classes)
    if not isinstance(value, Column) or is_of == ("NoneType" in classes):
        return Constant(is_of)
    is_none = identical(value, Constant(None))
    return is_none if "NoneType" in classes else negated(is_none)


def _extreme(operation: str, items: Sequence[Value]) -> Value:
    """The first of the items to which none compares so."""
    found = items[0]
    for each in items[1:]:
        better = compare(operation, each, found)
        if isinstance(better, Constant):
            found = each if better.value else found
        else:
            assert isinstance(better, Column)
            found = Choice(better.plain)((each, found))
    return found


def _has_others(value: Value) -> bool:
    """Whether there are tuples, lists or dicts in it: of these, Python compares items."""
    items = fixed(value)
    if items is None:
        if not isinstance(value, Lists):
            return not texts.is_leaf(value)
        items = [value.items]
    return not all(map(texts.is_leaf, items))


def _abs(value: Value, _count: int) -> Value | None:
    if not is_number(value):
        return None
    check_present(value)
    if value.kind == "float":
        return Column("float", pc.abs(as_float(value)))
    return Column("int", pc.abs_checked(as_int(value)))


def _int(value: Value, _count: int) -> Value | None:
    if not is_number(value):
        return None
    check_present(value)
    if value.kind != "float":
        return Column("int", as_int(value))
    assert isinstance(value, Column)
    numbers = value.numbers
    if not np.all(np.abs(numbers) < _BEYOND):
        raise GivesUp("an integer beyond 64 bits")
    return Column("int", pa.array(numbers.astype(np.int64)))


def _float(value: Value, _count: int) -> Value | None:
    if not is_number(value):
        return None
    check_present(value)
    return Column("float", as_float(value))


PURE = {
    *("abs", "all", "any", "ascii", "bin", "bool", "bytes", "chr", "dict", "divmod", "float"),
    *("format", "hex", "int", "len", "list", "max", "min", "oct", "ord", "pow", "repr", "round"),
    *("sorted", "str", "sum", "tuple"),
}
"""Builtins whose result is of their arguments alone, and which change none of them."""
_LISTS: dict[str, Callable[[Sequence[Value], int], Value]] = {
    "enumerate": sequences.enumerated,
    "range": sequences.numbers,
    "reversed": sequences.backwards,
    "zip": sequences.zipped,
}
_BEYOND = float(1 << 63)
_OF_ONE: dict[str, Callable[[Value, int], Any]] = {
    "abs": _abs,
    "bool": lambda value, _count: truth(value),
    "float": _float,
    "int": _int,
    "len": lambda value, _count: containers.length(value),
    "str": texts.text_of,
}
