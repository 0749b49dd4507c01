"""Numbers: what Python computes, or nothing.

Integers have 64 bits; whatever needs more gives up, as does what raises. A bool is an integer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expression.arrow.values import (
    Column,
    Constant,
    GivesUp,
    Value,
    by_python,
    told,
    tried,
)

Operand = Any
"""A `pyarrow.Array`, or a `pyarrow.Scalar`."""


def binary(operation: str, a: Value, b: Value) -> Value:
    """`a operation b` for numbers; gives up for others."""
    python, integers, floats = _BINARY[operation]
    found = by_python(python, (a, b))
    if found is not None:
        return found
    if not (is_number(a) and is_number(b)):
        raise GivesUp(f"{told(a)} {operation} {told(b)}")
    check_present(a)
    check_present(b)
    if operation in _OF_BITS and a.kind == b.kind == "bool":
        return Column("bool", _OF_BITS[operation](*map(operand_of, (a, b))))
    if operation == "/" and "float" not in (a.kind, b.kind):
        check_exact(a)
        check_exact(b)
        return Column("float", floats(as_float(a), as_float(b)))
    if "float" in (a.kind, b.kind):
        return Column("float", floats(as_float(a), as_float(b)))
    return Column("int", integers(as_int(a), as_int(b)))


def unary(operation: str, a: Value) -> Value:
    """`-a`, `+a` or `~a`."""
    python, integers, floats = _UNARY[operation]
    found = None if a.kind == "bool" and operation == "invert" else by_python(python, (a,))
    if found is not None:
        return found
    check_present(a)
    if a.kind == "float":
        return Column("float", floats(as_float(a)))
    if a.kind == "int" or (a.kind == "bool" and operation != "invert"):  # of a bool, that warns
        return Column("int", integers(as_int(a)))
    raise GivesUp(f"{operation} of {told(a)}")


def is_number(value: Value) -> bool:
    """Whether the value is a number or a bool in all rows but where it is None."""
    return isinstance(value, Column | Constant) and value.kind in ("bool", "int", "float")


def check_present(value: Value) -> None:
    """Gives up where the value is None in a row."""
    if isinstance(value, Column):
        _ = value.values


def operand_of(value: Any) -> Operand:
    """A column or a constant, in the type in which is computed."""
    return value.scalar if isinstance(value, Constant) else value.plain


def as_int(value: Any) -> Operand:
    """Integers, or bools as such, in 64 bits."""
    if isinstance(value, Constant):
        return Constant(int(value.value)).scalar
    return value.plain.cast(pa.int64()) if value.kind == "bool" else value.plain


def as_float(value: Any) -> Operand:
    """Numbers as floats, rounded to the nearest as Python does."""
    if isinstance(value, Constant):
        return pa.scalar(tried(lambda: float(value.value)), pa.float64())
    if value.kind == "float":
        return value.plain
    return as_int(value).cast(pa.float64(), safe=False)


def check_exact(value: Any) -> None:
    """Gives up unless each integer is a float."""
    if isinstance(value, Constant):
        if value.kind == "int" and not -_EXACT <= value.value <= _EXACT:
            raise GivesUp("an integer beyond 2 ** 53")
    elif value.kind == "int" and value.given.type not in _NARROW:
        ends = pc.min_max(value.plain).as_py()
        if ends["min"] is not None and not (ends["min"] >= -_EXACT and ends["max"] <= _EXACT):
            raise GivesUp("an integer beyond 2 ** 53")


def _numbers(operand: Operand) -> Any:
    """As NumPy has it."""
    if isinstance(operand, pa.Scalar):
        return operand.as_py()
    return operand.to_numpy(zero_copy_only=False)


def _by_numpy(function: Callable[[Any, Any], Any]) -> Callable[[Operand, Operand], pa.Array]:
    """The function of NumPy, which has a number for what Python raises for."""

    def call(a: Operand, b: Operand) -> pa.Array:
        with np.errstate(all="ignore"):
            return pa.array(function(_numbers(a), _numbers(b)))

    return call


def _divided(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Floor division or its remainder, of two integers or two floats of NumPy."""

    def divide(a: Any, b: Any) -> Any:
        if not np.all(b):
            raise GivesUp("a division by zero")
        if np.any(np.equal(b, -1)) and np.any(np.equal(a, _LEAST)):
            raise GivesUp("an integer beyond 64 bits")
        return function(a, b)

    return divide


def _integer_power(a: Operand, b: Operand) -> pa.Array:
    if np.any(np.less(_numbers(b), 0)):
        raise GivesUp("a power of a negative exponent")
    return pc.power_checked(a, b)


def _power(a: Operand, b: Operand) -> pa.Array:
    found = pc.power(a, b)
    if not pc.all(pc.is_finite(found)).as_py():
        raise GivesUp("a power that is no finite float")
    return found


def _left(a: Any, b: Any) -> Any:
    if np.any(np.less(b, 0)) or np.any(np.greater(b, 62)):
        raise GivesUp("a shift by less than 0 or more than 62 bits")
    found = np.left_shift(a, b)
    if np.any(np.not_equal(np.right_shift(found, b), a)):
        raise GivesUp("an integer beyond 64 bits")
    return found


def _right(a: Any, b: Any) -> Any:
    if np.any(np.less(b, 0)):
        raise GivesUp("a shift by less than 0 bits")
    return np.right_shift(a, np.minimum(b, 63))


def _no_float(*_operands: Operand) -> pa.Array:
    raise GivesUp("bits of a float")


_EXACT = 1 << 53
_LEAST = -(1 << 63)
_NARROW = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
_OF_BITS = {"&": pc.and_, "|": pc.or_, "^": pc.xor}
_BINARY: dict[str, tuple[Callable[..., Any], Callable[..., pa.Array], Callable[..., pa.Array]]] = {
    "+": (operator.add, pc.add_checked, pc.add),
    "-": (operator.sub, pc.subtract_checked, pc.subtract),
    "*": (operator.mul, pc.multiply_checked, pc.multiply),
    "/": (operator.truediv, pc.divide_checked, pc.divide_checked),
    "//": (
        operator.floordiv,
        _by_numpy(_divided(np.floor_divide)),
        _by_numpy(_divided(np.floor_divide)),
    ),
    "%": (operator.mod, _by_numpy(_divided(np.remainder)), _by_numpy(_divided(np.remainder))),
    "**": (operator.pow, _integer_power, _power),
    "&": (operator.and_, pc.bit_wise_and, _no_float),
    "|": (operator.or_, pc.bit_wise_or, _no_float),
    "^": (operator.xor, pc.bit_wise_xor, _no_float),
    "<<": (operator.lshift, _by_numpy(_left), _no_float),
    ">>": (operator.rshift, _by_numpy(_right), _no_float),
}
_UNARY: dict[str, tuple[Callable[..., Any], Callable[..., pa.Array], Callable[..., pa.Array]]] = {
    "negative": (operator.neg, pc.negate_checked, pc.negate),
    "positive": (operator.pos, lambda a: a, lambda a: a),
    "invert": (operator.invert, pc.bit_wise_not, _no_float),
}
