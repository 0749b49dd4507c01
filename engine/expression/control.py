"""Opcodes of calls, functions and jumps."""

from __future__ import annotations

import dis
import sys
from functools import partial
from types import CodeType

from engine.expression.calls import call, call_with_items, failure
from engine.expression.operations import same
from engine.expression.path import End, Path
from engine.expression.symbols import (
    BUILTIN,
    NULL,
    Iterable,
    Known,
    Made,
    Symbol,
)
from engine.expression.table import Table
from engine.expression.tree import Register, Return

CONTROL = Table()
_of = CONTROL.of


# Calls and functions


@_of("CALL_FUNCTION")
def _call_function(path: Path, argument: int) -> End | None:
    callee, *arguments = path.here.pop(argument + 1)
    return _called(path, callee, arguments, ())


@_of("CALL_FUNCTION_KW")
def _call_function_by_name(path: Path, argument: int) -> End | None:
    names = path.here.stack.pop().value
    callee, *arguments = path.here.pop(argument + 1)
    return _called(path, callee, arguments, names)


@_of("PRECALL")
def _before_call(path: Path, argument: int) -> End | None:
    return None


@_of("KW_NAMES")
def _names(path: Path, argument: int) -> End | None:
    path.here.names = path.here.code.co_consts[argument]
    return None


@_of("CALL", "CALL_METHOD")
def _call(path: Path, argument: int) -> End | None:
    frame = path.here
    first, second, *arguments = frame.pop(argument + 2)
    names, frame.names = frame.names, ()
    if first is NULL:
        return _called(path, second, arguments, names)
    if second is NULL:
        return _called(path, first, arguments, names)
    return _called(path, first, [second, *arguments], names)


@_of("CALL_KW")
def _call_by_name(path: Path, argument: int) -> End | None:
    path.here.names = path.here.stack.pop().value
    return _call(path, argument)


@_of("CALL_FUNCTION_EX")
def _call_with_items(path: Path, argument: int) -> End | None:
    frame = path.here
    if (argument & 1 or sys.version_info >= (3, 14)) and frame.stack.pop() is not NULL:
        raise path.refused("has a call with **")
    items = frame.stack.pop()
    callee = frame.stack.pop()
    if sys.version_info >= (3, 11):
        other = frame.stack.pop()
        callee = other if callee is NULL else callee
    value = call_with_items(path, callee, items)
    if value is not None:
        frame.stack.append(value)
    return None


def _called(
    path: Path, callee: Symbol, arguments: list[Symbol], names: tuple[str, ...]
) -> End | None:
    by_name = {}
    if names:
        by_name = dict(zip(names, arguments[-len(names) :], strict=True))
        arguments = arguments[: -len(names)]
    frame = path.here
    value = call(path, callee, arguments, by_name)
    if value is not None:
        frame.stack.append(value)
    return None


@_of("MAKE_FUNCTION")
def _make_function(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    if sys.version_info < (3, 11):
        stack.pop()  # its name
    code = stack.pop().value
    if sys.version_info < (3, 13):
        if argument & ~_CLOSURE:
            raise path.refused("makes a function with defaults")
        if argument:
            stack.pop()
    assert type(code) is CodeType
    stack.append(Made(code, path.here.code))
    return None


@_of("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    made = stack.pop()
    if argument & ~_CLOSURE:
        raise path.refused("makes a function with defaults")
    stack[-1] = made
    return None


@_of("RETURN_VALUE")
def _return(path: Path, argument: int) -> End | None:
    frame = path.here
    value = frame.stack.pop()
    if frame.code.co_flags & _GENERATOR:
        value = Iterable(frame.generated, "a generator")
    caller = frame.caller
    assert caller is not None
    if caller.caller is None:
        return Return(path.register(value))
    path.here = caller
    caller.stack.append(value)
    return None


@_of("RETURN_CONST")
def _return_constant(path: Path, argument: int) -> End | None:
    path.here.stack.append(Known(path.here.code.co_consts[argument]))
    return _return(path, argument)


@_of("LOAD_ASSERTION_ERROR")
def _load_assertion_error(path: Path, argument: int) -> End | None:
    path.here.stack.append(Known(AssertionError, "AssertionError"))
    return None


@_of("LOAD_COMMON_CONSTANT")
def _load_common_constant(path: Path, argument: int) -> End | None:
    """Since Python 3.14: an exception, or a builtin, to see whether the name `all` stands for it.

    If it does, there is a loop instead of the call; the way of the call is as good.
    """
    if argument == 0:
        return _load_assertion_error(path, argument)
    if argument not in _TUPLE_ALL_ANY:
        raise path.refused("has something that is not understood")
    path.here.stack.append(BUILTIN)
    return None


@_of("RAISE_VARARGS")
def _raise(path: Path, argument: int) -> End | None:
    return Return(path.register(failure(path)))


# Jumps


@_of("JUMP_FORWARD")
def _jump(path: Path, argument: int) -> End | None:
    path.jump(path.here.pc + 2 * argument)
    return None


@_of("JUMP_ABSOLUTE")
def _jump_to(path: Path, argument: int) -> End | None:
    path.jump(2 * argument)
    return None


@_of("JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump_backward(path: Path, argument: int) -> End | None:
    path.jump(path.here.pc - 2 * argument)
    return None


@_of("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE")
def _jump_if_false(path: Path, argument: int) -> End | None:
    return _branch(path, _target(path, argument), when=False)


@_of("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE")
def _jump_if_true(path: Path, argument: int) -> End | None:
    return _branch(path, _target(path, argument), when=True)


@_of("POP_JUMP_BACKWARD_IF_FALSE")
def _jump_back_if_false(path: Path, argument: int) -> End | None:
    return _branch(path, path.here.pc - 2 * argument, when=False)


@_of("POP_JUMP_BACKWARD_IF_TRUE")
def _jump_back_if_true(path: Path, argument: int) -> End | None:
    return _branch(path, path.here.pc - 2 * argument, when=True)


@_of("JUMP_IF_FALSE_OR_POP")
def _jump_if_false_or_pop(path: Path, argument: int) -> End | None:
    return _branch(path, _target(path, argument), when=False, keep=True)


@_of("JUMP_IF_TRUE_OR_POP")
def _jump_if_true_or_pop(path: Path, argument: int) -> End | None:
    return _branch(path, _target(path, argument), when=True, keep=True)


@_of("POP_JUMP_IF_NONE", "POP_JUMP_FORWARD_IF_NONE")
def _jump_if_none(path: Path, argument: int) -> End | None:
    return _branch_on_none(path, _target(path, argument), negated=False)


@_of("POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE")
def _jump_if_not_none(path: Path, argument: int) -> End | None:
    return _branch_on_none(path, _target(path, argument), negated=True)


@_of("POP_JUMP_BACKWARD_IF_NONE")
def _jump_back_if_none(path: Path, argument: int) -> End | None:
    return _branch_on_none(path, path.here.pc - 2 * argument, negated=False)


@_of("POP_JUMP_BACKWARD_IF_NOT_NONE")
def _jump_back_if_not_none(path: Path, argument: int) -> End | None:
    return _branch_on_none(path, path.here.pc - 2 * argument, negated=True)


def _branch_on_none(path: Path, target: int, negated: bool) -> End | None:
    is_none = same(path, path.here.stack.pop(), Known(None), negated=False)
    path.here.stack.append(is_none)
    return _branch(path, target, when=not negated)


def _branch(path: Path, target: int, when: bool, keep: bool = False) -> End | None:
    """Jumps if the truth of what is on the stack is `when`; `keep` leaves it there then."""
    frame = path.here
    if target <= frame.start and target != frame.loop:
        raise path.refused("has a loop")
    jumps, stays = (target, keep), (frame.pc, False)
    condition = frame.stack.pop()
    middle = None if when else _middle(path, condition)
    if middle is not None and path.attempt(partial(_between, condition, middle)):
        return None
    return path.branch(condition, *((jumps, stays) if when else (stays, jumps)))


def _middle(path: Path, condition: Symbol) -> Register | None:
    """`x`, if this is the first half of `low < x < high`, with a known number for `low`."""
    if type(condition) is not int or not path.steps or condition != path.next - 1:
        return None
    operation, operands, _ = path.steps[-1]
    if operation not in _ORDERS or not path.is_number(operands[0]):
        return None
    others = [symbol for symbol in path.here.stack[-2:] if symbol is not condition]
    return operands[1] if others and others[-1] == operands[1] else None


def _between(condition: Register, middle: Register, path: Path) -> Symbol | None:
    """`low < x < high` with `&` in place of a branch: if x is a number, nothing else can fail."""
    while True:
        frame = path.here
        name = dis.opname[frame.instructions[frame.pc]]
        if name == "COMPARE_OP":
            left, right = frame.stack[-2:]
            if left != middle or type(right) is not Known or type(right.value) not in (int, float):
                return None
            path.step()
            return path.emit("&", (condition, frame.stack.pop()))
        if not name.startswith("LOAD_") and name not in ("POP_TOP", "NOP", "NOT_TAKEN"):
            return None
        path.step()


def _target(path: Path, argument: int) -> int:
    """Where an opcode jumps to, which says so from the start of the code in Python 3.10."""
    return (0 if sys.version_info < (3, 11) else path.here.pc) + 2 * argument


_ORDERS = frozenset(("<", "<=", ">", ">="))
_CLOSURE = 8
_TUPLE_ALL_ANY = (2, 3, 4)
_GENERATOR = 0x20
