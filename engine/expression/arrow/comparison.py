"""What is true: comparisons, `is`, `in` and the truth of a value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expression.arrow.arithmetic import (
    as_float,
    as_int,
    check_exact,
    check_present,
    is_number,
    operand_of,
)
from engine.expression.arrow.merging import lists_of
from engine.expression.arrow.objects import per_value
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

Bools: TypeAlias = Column | Constant
"""A bool in each row."""


def truth(value: Value) -> Bools:
    """`bool(value)`."""
    if isinstance(value, Constant):
        return Constant(bool(value.value))
    if isinstance(value, Fields):
        return Constant(bool(value.keys))
    if isinstance(value, Items):
        return Constant(bool(value.items))
    if isinstance(value, Lists):
        return _bools(pa.array(value.lengths > 0))
    if value.kind == "bool":
        return value if not value.plain.null_count else _bools(value.plain)
    if value.kind == "int":
        return _bools(pc.not_equal(value.plain, 0))
    if value.kind == "float":
        return _bools(pc.not_equal(value.plain, 0.0))
    if value.kind in ("str", "bytes"):
        return _bools(pc.not_equal(pc.binary_length(value.plain), 0))
    if value.kind == "list":
        return _bools(pc.not_equal(pc.list_value_length(value.plain), 0))
    if value.kind == "time" and not pa.types.is_duration(value.plain.type):
        return _bools(pc.is_valid(value.plain))
    raise GivesUp(f"the truth of a {told(value)}")


def number_of(found: Bools, count: int) -> int:
    """In how many of so many rows it is true."""
    if isinstance(found, Constant):
        return count if found.value else 0
    return int(found.plain.true_count)


def negated(value: Value) -> Bools:
    """`not value`."""
    found = truth(value)
    if isinstance(found, Constant):
        return Constant(not found.value)
    return _bools(pc.invert(found.plain))


def compare(operation: str, a: Value, b: Value) -> Value:
    """`a operation b`."""
    python, kernel = _ORDERS.get(operation, (operator.eq, pc.equal))
    if operation == "!=":
        return negated(compare("==", a, b))
    if (found := by_python(python, (a, b))) is not None:
        return found
    if operation == "==":
        return _equal(a, b)
    if is_number(a) and is_number(b):
        left, right = _comparable(a, b)
    elif a.kind == b.kind and a.kind in ("str", "bytes"):
        left, right = operand_of(a), operand_of(b)
    else:
        raise GivesUp(f"{told(a)} {operation} {told(b)}")
    check_present(a)
    check_present(b)
    return _bools(kernel(left, right))


def identical(a: Value, b: Value) -> Value:
    """`a is b`, of which one is None, True or False."""
    for value, constant in ((a, b), (b, a)):
        if isinstance(constant, Constant) and constant.kind in ("none", "bool"):
            return _is(value, constant.value)
    raise GivesUp("identity of objects")


def contains(a: Value, b: Value, count: int) -> Value:
    """`a in b`."""
    if (found := by_python(lambda item, items: item in items, (a, b))) is not None:
        return found
    items = fixed(b)
    if isinstance(b, Constant) and type(b.value) is frozenset:
        items = [Constant(item) for item in b.value]
        if not isinstance(a, Column) or a.kind in ("list", "struct"):
            raise GivesUp(f"{told(a)} in a set")
    if items is not None:
        return _among(a, items)
    if isinstance(b, Fields):
        if isinstance(a, Constant):
            return Constant(a.value in b)
        if isinstance(a, Column) and a.kind in ("bool", "int", "str"):
            return _among(a, list(map(Constant, b.keys)))
    elif b.kind == "str" and a.kind == "str":
        if isinstance(a, Constant) and isinstance(b, Column):
            return _bools(pc.match_substring(b.values, a.value))
        return per_value(lambda part, text: part in text, (a, b), count)
    elif b.kind == "list":
        lists = lists_of(b, count)
        parents = lists.parents
        found = _same(select(a, Selection(places=parents)), lists.items)
        if isinstance(found, Column):
            parents = parents[found.plain.to_numpy(zero_copy_only=False)]
        elif not found.value:
            return found
        return _bools(pa.array(np.bincount(parents, minlength=count) > 0))
    raise GivesUp(f"{told(a)} in {told(b)}")


def _bools(found: pa.Array) -> Column:
    """The bools, with False for null."""
    return Column("bool", found.fill_null(False) if found.null_count else found)


def _equal(a: Value, b: Value) -> Bools:
    """`a == b`, of which one is no constant."""
    for value, constant in ((a, b), (b, a)):
        if isinstance(constant, Constant) and constant.value is None:
            return _is(value, None)
    one, other = (_GROUPS.get(each.kind) for each in (a, b))
    if one is None or other is None or (one == other and one not in ("number", "str", "bytes")):
        raise GivesUp(f"{told(a)} == {told(b)}")
    if one != other:
        found: Bools = Constant(False)
    else:
        left, right = _comparable(a, b) if one == "number" else (operand_of(a), operand_of(b))
        found = _bools(pc.equal(left, right))
    if any(not isinstance(each, Column) or not each.plain.null_count for each in (a, b)):
        return found
    both = _both(_is(a, None), _is(b, None), pc.and_)
    return _both(both, found, pc.or_)


def _both(a: Bools, b: Bools, kernel: Callable[..., pa.Array]) -> Bools:
    one, other = operand_of(a), operand_of(b)
    if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar):
        return Constant(kernel(one, other).as_py())
    return Column("bool", kernel(one, other))


def _comparable(a: Value, b: Value) -> tuple[Any, Any]:
    """Two numbers in one type that has both exactly."""
    if "float" not in (a.kind, b.kind):
        return as_int(a), as_int(b)
    check_exact(a)
    check_exact(b)
    return as_float(a), as_float(b)


def _is(value: Value, constant: bool | None) -> Bools:
    if isinstance(value, Constant):
        return Constant(value.value is constant)
    if not isinstance(value, Column):
        return Constant(False)
    if constant is None:
        return (
            Column("bool", pc.is_null(value.plain)) if value.plain.null_count else Constant(False)
        )
    if value.kind != "bool":
        return Constant(False)
    return _bools(value.plain if constant else pc.invert(value.plain))


def _same(a: Value, b: Value) -> Bools:
    """`a is b or a == b`; gives up for floats that may be one NaN."""
    floats = [each for each in (a, b) if each.kind == "float"]
    if len(floats) == 2 and all(
        not isinstance(each, Constant) or each.value != each.value for each in floats
    ):
        raise GivesUp("a NaN may be among floats")
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(a.value is b.value or a.value == b.value)
    return _equal(a, b)


def _among(a: Value, items: Sequence[Value]) -> Bools:
    """Whether the value is one of the items."""
    if isinstance(a, Column) and a.kind in ("int", "str") and len(items) > 1:
        values = [item.value for item in items if isinstance(item, Constant)]
        if len(values) == len(items):
            return _in_constants(a, values)
    found: Bools = Constant(False)
    for item in items:
        found = _both(found, _same(a, item), pc.or_)
    return found


def _in_constants(a: Column, values: list[Any]) -> Bools:
    """Whether an integer or a text is among constants."""
    wanted: list[Any]
    if a.kind == "str":
        wanted = [value for value in values if type(value) is str]
    else:
        numbers = [value for value in values if isinstance(value, int | float)]
        near = [value for value in numbers if -(1 << 63) <= value < 1 << 63]
        wanted = [int(value) for value in near if value == int(value)]
    found = _bools(pc.is_in(a.plain, pa.array(wanted, a.plain.type)))
    return _both(found, _is(a, None), pc.or_) if None in values else found


_ORDERS: dict[str, tuple[Callable[..., Any], Callable[..., pa.Array]]] = {
    "<": (operator.lt, pc.less),
    "<=": (operator.le, pc.less_equal),
    ">": (operator.gt, pc.greater),
    ">=": (operator.ge, pc.greater_equal),
}
_GROUPS = {
    **dict.fromkeys(("bool", "int", "float"), "number"),
    **dict.fromkeys(("dict", "struct"), "dict"),
    **{kind: kind for kind in ("str", "bytes", "time", "list", "tuple")},
}
"""Kinds of objects: those of one group may be equal, those of two never are."""
