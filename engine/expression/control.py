"""Opcodes of displays, calls, jumps and loops."""

from __future__ import annotations

import dis
import sys
from types import CodeType

from engine.expression.calls import call, failure
from engine.expression.operations import item, same, unary
from engine.expression.path import End, Path
from engine.expression.symbols import (
    COLLECTED,
    NULL,
    Display,
    Generated,
    Iterator,
    Known,
    Made,
    Symbol,
)
from engine.expression.table import Table
from engine.expression.tree import Return

CONTROL = Table()
_of = CONTROL.of


# Tuples, lists and dicts


@_of("BUILD_TUPLE")
def _build_tuple(path: Path, argument: int) -> End | None:
    path.here.stack.append(Display("tuple", path.here.pop(argument)))
    return None


@_of("BUILD_LIST")
def _build_list(path: Path, argument: int) -> End | None:
    path.here.stack.append(Display("list", path.here.pop(argument)))
    return None


@_of("LIST_APPEND")
def _append(path: Path, argument: int) -> End | None:
    frame = path.here
    value = frame.stack.pop()
    if frame.stack[-argument] is COLLECTED:
        frame.collected = value
    else:
        frame.stack[-argument] = _extended(path, frame.stack[-argument], Display("list", [value]))
    return None


@_of("LIST_EXTEND")
def _extend(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    value = stack.pop()
    stack[-argument] = _extended(path, stack[-argument], value)
    return None


def _extended(path: Path, of: Symbol, by: Symbol) -> Symbol:
    """`[*of, *by]`."""
    if type(of) is Display:
        if type(by) is Display:
            return Display("list", of.items + by.items)
        if type(by) is Known and type(by.value) is tuple:
            return Display("list", of.items + [Known(value) for value in by.value])
    return path.value("extend", of, by)


@_of("LIST_TO_TUPLE")
def _list_to_tuple(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    of = stack.pop()
    if type(of) is Display:
        stack.append(Display("tuple", of.items))
    else:
        stack.append(path.value("call", of, value="tuple"))
    return None


@_of("CALL_INTRINSIC_1")
def _intrinsic(path: Path, argument: int) -> End | None:
    if argument == _LIST_TO_TUPLE:
        return _list_to_tuple(path, argument)
    if argument == _UNARY_POSITIVE:
        path.here.stack.append(unary(path, "positive", path.here.stack.pop()))
        return None
    raise path.refused("has something that is not understood")


@_of("BUILD_MAP")
def _build_dict(path: Path, argument: int) -> End | None:
    path.here.stack.append(path.value("dict", *path.here.pop(2 * argument)))
    return None


@_of("BUILD_CONST_KEY_MAP")
def _build_dict_of(path: Path, argument: int) -> End | None:
    *values, names = path.here.pop(argument + 1)
    items = [of for name, value in zip(names.value, values, strict=True) for of in (name, value)]
    for at in range(0, len(items), 2):
        items[at] = Known(items[at])
    path.here.stack.append(path.value("dict", *items))
    return None


@_of("DICT_UPDATE")
def _update(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    value = stack.pop()
    stack[-argument] = path.value("merge", stack[-argument], value)
    return None


@_of("MAP_ADD")
def _add_item(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    key_and_value = path.here.pop(2)
    if type(stack[-argument]) is not int:
        raise path.refused("has a comprehension of a dict")
    more = path.value("dict", *key_and_value)
    stack[-argument] = path.value("merge", stack[-argument], more)
    return None


@_of("UNPACK_SEQUENCE")
def _unpack(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    of = stack.pop()
    if type(of) is Display and len(of.items) == argument:
        stack += reversed(of.items)
        return None
    values = path.value("unpack", of, value=argument)
    stack += reversed([item(path, values, Known(at)) for at in range(argument)])
    return None


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
        value = Generated(frame.generated)
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
    return path.branch(condition, *((jumps, stays) if when else (stays, jumps)))


def _target(path: Path, argument: int) -> int:
    """Where an opcode jumps to, which says so from the start of the code in Python 3.10."""
    return (0 if sys.version_info < (3, 11) else path.here.pc) + 2 * argument


# Loops of comprehensions and generator expressions


@_of("GET_ITER")
def _iterate(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    of = stack.pop()
    stack.append(of if type(of) is Iterator else Iterator(of))
    return None


@_of("FOR_ITER")
def _each(path: Path, argument: int) -> End | None:
    frame = path.here
    stack = frame.stack
    generates = bool(frame.code.co_flags & _GENERATOR) and len(stack) == 1
    listed = len(stack) > 1 and type(stack[-2]) is Display and stack[-2].operation == "list"
    if type(stack[-1]) is not Iterator or not (generates or (listed and not stack[-2].items)):
        raise path.refused("has a loop")
    target = frame.pc + 2 * argument
    if not generates:
        stack[-2] = COLLECTED
    items = path.each(stack[-1].of, target)
    stack.pop()
    if generates:
        frame.generated = items
    else:
        stack[-1] = items
    frame.pc = _after_loop(frame.instructions, target)
    return None


def _after_loop(instructions: bytes, at: int) -> int:
    """Where the code goes on behind a loop, without what takes the iterator off the stack."""
    if dis.opname[instructions[at]] == "END_FOR":
        at += 2
        if dis.opname[instructions[at]] == "POP_ITER" or sys.version_info[:2] == (3, 13):
            at += 2
    elif dis.opname[instructions[at]] == "POP_ITER":
        at += 2
    return at


@_of("RETURN_GENERATOR")
def _start_generator(path: Path, argument: int) -> End | None:
    path.here.stack.append(NULL)  # a generator, which the next opcode takes off
    return None


@_of("YIELD_VALUE")
def _yield(path: Path, argument: int) -> End | None:
    frame = path.here
    if frame.loop < 0 or not frame.code.co_flags & _GENERATOR:
        raise path.refused("is a generator")
    frame.collected = frame.stack.pop()
    frame.stack.append(Known(None))
    return None


_CLOSURE = 8
_GENERATOR = 0x20
_LIST_TO_TUPLE = 6
_UNARY_POSITIVE = 5
