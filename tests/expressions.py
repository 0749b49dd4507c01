"""What an expression gives for values of Python: the meaning of `tree`, for tests."""

from __future__ import annotations

import operator
import re
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from engine.expression.lift import Lifted
from engine.expression.tree import Block, Expression, Return, Skip, Step
from tests.functions import same


class GaveUp(Exception):
    """A run may not say what comes of this; the function would be called."""


def evaluate(expression: Expression, *arguments: Any) -> Any:
    """What the function gives for these arguments.

    Raises:
        GaveUp: of these arguments an expression says nothing.
        Exception: the function raises, too; maybe another exception.

    """
    assert len(arguments) == expression.arguments
    return _block(expression.body, list(arguments))


def compare(lifted: Lifted, function: Callable[..., Any], *arguments: Any) -> str:
    """What comes of the arguments: "equal" results, "failed" in both ways, or it "gave up"."""
    before = repr(arguments)
    try:
        got = _tried(evaluate, lifted.expression, *arguments)
    except GaveUp:
        return "gave up"
    wanted = _tried(function, *arguments)
    told = f"of {before}: {got}, not {wanted}"
    assert got[0] == wanted[0], told
    assert not got[0] or same(got[1], wanted[1]), told
    assert repr(arguments) == before, told
    return "equal" if got[0] else "failed"


def _tried(function: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Whether it gives something, and that, or what it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `~True`
            return True, function(*arguments)
    except GaveUp:
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is
        return False, error


_SKIPPED = object()


def _block(block: Block, registers: list[Any]) -> Any:
    registers = registers.copy()
    for step in block.steps:
        registers.append(_step(step, registers))
    end = block.end
    if isinstance(end, Return):
        return registers[end.register]
    if isinstance(end, Skip):
        return _SKIPPED
    return _block(end.then if registers[end.condition] else end.otherwise, registers)


def _step(step: Step, registers: list[Any]) -> Any:
    operation, value = step.operation, step.value
    operands = [registers[register] for register in step.operands]
    if operation == "constant":
        return value
    if operation == "attribute":
        return getattr(operands[0], value)
    if operation not in _ANY and not all(type(of) in _EXACT for of in operands):
        raise GaveUp("an object of another class")
    if operation == "each":
        items = [_block(value, [*registers, item]) for item in operands[0]]
        return [item for item in items if item is not _SKIPPED]
    if operation == "format":
        conversion, spec = value
        return format(_CONVERSIONS[conversion](operands[0]), spec)
    if operation == "call":
        return _call(value, operands)
    if operation == "method" and value in ("items", "keys", "values"):
        if type(operands[0]) is not dict:
            raise GaveUp("no dict")
        return list(getattr(operands[0], value)())
    if operation == "method":
        if type(operands[0]) not in _RECEIVERS.get(value, (str,)):
            raise GaveUp(f"{value} of {type(operands[0]).__name__}")
        return getattr(operands[0], value)(*operands[1:])
    if operation == "unpack":
        values = tuple(operands[0])
        if len(values) != value:
            raise GaveUp("another number of values")
        return values
    if operation in _SETS_GIVE_UP and any(isinstance(of, (set, frozenset)) for of in operands):
        raise GaveUp("sets")
    if operation == "in" and isinstance(operands[0], set):
        raise GaveUp("sets")
    return _OPERATIONS[operation](*operands)


def _call(name: str, operands: list[Any]) -> Any:
    if name.startswith("isinstance:"):
        classes = name.removeprefix("isinstance:").split("|")
        return isinstance(operands[0], tuple(_CLASSES[of] for of in classes))
    if name.startswith("findall:"):  # written for Rust, and Python reads it so, too
        return re.findall(name.removeprefix("findall:"), operands[0])
    value = _BUILTINS[name](*operands)
    return list(value) if name in ("enumerate", "range", "reversed", "zip") else value


def _slice(of: Any, start: Any, stop: Any, step: Any) -> Any:
    return of[start:stop:step]


def _dict(*items: Any) -> dict[Any, Any]:
    return {items[at]: items[at + 1] for at in range(0, len(items), 2)}


def _merge(left: Any, right: Any) -> dict[Any, Any]:
    if type(left) is not dict or type(right) is not dict:
        raise GaveUp("no dict")
    return {**left, **right}


def _is(left: Any, right: Any) -> bool:
    assert any(side is single for side in (left, right) for single in (None, True, False))
    return left is right


def _join_text(*texts: str) -> str:
    return "".join(texts)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda value: value,
    "s": str,
    "r": repr,
    "a": ascii,
}
_EXACT = frozenset(
    (bool, bytes, dict, float, frozenset, int, list, set, str, tuple, types.NoneType)
)
_ANY = frozenset(("tuple", "list", "is"))
_SETS_GIVE_UP = frozenset(("-", "&", "|", "^"))
_RECEIVERS: dict[str, Sequence[type]] = {
    "get": (dict,),
    "decode": (bytes,),
    "count": (str, tuple, list),
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    of.__name__: of
    for of in (
        *(abs, all, any, ascii, chr, dict, enumerate, float, int, len, list, max, min, ord),
        *(range, repr, reversed, round, sorted, str, sum, tuple, zip),
    )
}
_CLASSES: dict[str, type] = {
    of.__name__: of for of in (bool, bytes, dict, float, int, list, str, tuple, types.NoneType)
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "item": operator.getitem,
    "slice": _slice,
    "tuple": lambda *items: items,
    "list": lambda *items: list(items),
    "dict": _dict,
    "merge": _merge,
    "extend": lambda left, right: [*left, *right],
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "negative": operator.neg,
    "positive": operator.pos,
    "invert": operator.invert,
    "not": operator.not_,
    "truth": bool,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "is": _is,
    "in": lambda left, right: left in right,
    "join_text": _join_text,
}
