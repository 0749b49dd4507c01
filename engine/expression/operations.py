"""Operators on symbols: steps, or values that are known at once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import NoneType
from typing import Any

from engine.expression.guards import MISSING
from engine.expression.path import Path, told
from engine.expression.symbols import BUILTIN, Converted, Display, Known, Slice, Symbol


def binary(path: Path, operation: str, left: Symbol, right: Symbol) -> Symbol:
    """`left + right` and so on, comparisons among them; `item` is `left[right]`."""
    if operation == "item":
        return item(path, left, right)
    if (known := _folded(operation, left, right)) is not None:
        return known
    register = path.value(operation, left, right)
    if operation == "+":
        if _is_number(path, left) or _is_number(path, right):
            path.numbers.add(register)
        elif _is_plain(path, left) or _is_plain(path, right):
            path.plain.add(register)
    elif operation in _OF_NUMBERS and _is_number(path, left) and _is_number(path, right):
        path.numbers.add(register)
    elif operation == "*" and _is_plain(path, left) and _is_plain(path, right):
        path.plain.add(register)
    return register


def in_place(path: Path, operation: str, left: Symbol, right: Symbol) -> Symbol:
    """`left += right` and so on.

    Raises:
        Refused: `left` may be a list, dict or set, which would be changed.

    """
    changes = (
        not (_is_plain(path, left) or _is_number(path, right))
        if operation in ("+", "|")
        else operation == "*" and not _is_plain(path, left)
    )
    if changes:
        raise path.refused(f"has {operation}=, which may change a list or a dict")
    return binary(path, operation, left, right)


def item(path: Path, of: Symbol, at: Symbol) -> Symbol:
    """`of[at]`, of slices, too."""
    if type(of) is Known and type(of.value) is dict:
        return lookup(path, of, at, None)
    if type(at) is Slice:
        return path.value("slice", of, *at.bounds)
    if type(at) is Known and type(at.value) is slice:  # a constant since Python 3.14
        bounds = (at.value.start, at.value.stop, at.value.step)
        return path.value("slice", of, *map(Known, bounds))
    if (known := _folded("item", of, at)) is not None:
        return known
    if (
        type(of) is Display
        and of.operation != "dict"
        and type(at) is Known
        and type(at.value) is int
        and -len(of.items) <= at.value < len(of.items)
    ):
        return of.items[at.value]
    return path.value("item", of, at)


def lookup(path: Path, of: Known, at: Symbol, default: Symbol | None) -> Symbol:
    """What a known dict has for a known key, as long as it has that."""
    if type(at) is Known and type(at.value) in (str, int, NoneType) and type(of.value) is dict:
        value = path.lifting.guards.name(of.value, at.value)
        if value is not MISSING:
            return Known(value, f"{of.name}[{at.value!r}]")
        if default is not None:
            return default
    raise path.refused(f"reads {told(of)}")


def unary(path: Path, operation: str, of: Symbol) -> Symbol:
    """`-of`, `not of` and so on; `truth` is `bool(of)`."""
    if type(of) is Known and operation in _UNARY and type(of.value) in _NUMBERS:
        return Known(_UNARY[operation](of.value))
    return path.value(operation, of)


def same(path: Path, left: Symbol, right: Symbol, negated: bool) -> Symbol:
    """`left is right`, or `left is not right`."""
    if right is BUILTIN:
        return Known(negated)
    if type(left) is Known and type(right) is Known and (_is_single(left) or _is_single(right)):
        return Known((left.value is right.value) is not negated)
    sides = [side for side in (left, right) if not _is_single(side)]
    if len(sides) == 2:
        raise path.refused("has `is` of something other than None, True and False")
    if type(sides[0]) is not int:
        return Known(negated)
    register = path.value("is", left, right)
    return path.emit("not", (register,)) if negated else register


def contained(path: Path, left: Symbol, right: Symbol, negated: bool) -> Symbol:
    """`left in right`, or `left not in right`."""
    if type(right) is Known:
        right = path.guarded(right, tuple if type(right.value) is list else frozenset)
    register = path.value("in", left, right)
    return path.emit("not", (register,)) if negated else register


def formatted(path: Path, of: Symbol, conversion: str, spec: Symbol) -> Symbol:
    """What stands in an f-string for `{of!conversion:spec}`."""
    if type(of) is Converted:
        of, conversion = of.of, of.conversion
    if type(spec) is not Known or type(spec.value) is not str:
        raise path.refused("formats by a specification that is not constant")
    if type(of) is Known and type(of.value) in _FORMATTED and len(spec.value) < 3:
        try:
            return Known(format(_CONVERSIONS[conversion](of.value), spec.value))
        except ValueError:
            pass  # of a specification that is none of this type: it fails when it runs
    return path.value("format", of, value=(conversion, spec.value))


def joined(path: Path, parts: list[Symbol]) -> Symbol:
    """The texts of an f-string as one."""
    if all(type(part) is Known for part in parts):
        return Known("".join([part.value for part in parts]))
    return path.value("join_text", *parts)


def _folded(operation: str, left: Symbol, right: Symbol) -> Known | None:
    """The value, if both are known and small."""
    if type(left) is not Known or type(right) is not Known or operation not in _FOLDED:
        return None
    if type(left.value) is str and type(right.value) is str and operation in ("==", "!="):
        return Known((left.value == right.value) is (operation == "=="))
    if type(right.value) not in _NUMBERS:
        return None
    if type(left.value) not in ((tuple, str) if operation == "item" else _NUMBERS):
        return None
    try:
        return Known(_FOLDED[operation](left.value, right.value))
    except (ArithmeticError, IndexError, TypeError):
        return None  # it fails when it runs


def _is_number(path: Path, symbol: Symbol) -> bool:
    if type(symbol) is int:
        return symbol in path.numbers
    return type(symbol) is Known and type(symbol.value) in _NUMBERS


def _is_plain(path: Path, symbol: Symbol) -> bool:
    kind = type(symbol)
    if kind is int:
        return symbol in path.plain or symbol in path.numbers
    if kind is Display:
        return bool(symbol.operation == "tuple")
    return kind is Known and type(symbol.value) in (*_FORMATTED, tuple, bytes)


def _is_single(symbol: Symbol) -> bool:
    if type(symbol) is not Known:
        return False
    value = symbol.value
    return value is None or value is True or value is False


_NUMBERS = (int, float, bool)
_OF_NUMBERS = ("*", "%", "&", "|", "^")
_FORMATTED = (int, float, bool, str)
_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "item": operator.getitem,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg,
    "positive": operator.pos,
    "not": operator.not_,
    "truth": bool,
}
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda value: value,
    "s": str,
    "r": repr,
    "a": ascii,
}
