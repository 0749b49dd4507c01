"""Opcodes of tuples, lists and dicts, and of the loops that fill them."""

from __future__ import annotations

import dis
import sys

from engine.expression.operations import item, unary
from engine.expression.path import End, Path
from engine.expression.symbols import COLLECTED, NULL, Display, Iterator, Known, Symbol
from engine.expression.table import Table

DISPLAYS = Table()
_of = DISPLAYS.of


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
    by = path.iterated(by)
    if type(of) is Display:
        if type(by) is Display and by.operation != "dict":
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
    if not argument:
        path.here.stack.append(Display("dict", []))
        return None
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
    frame = path.here
    key_and_value = frame.pop(2)
    if frame.stack[-argument] is COLLECTED:
        frame.collected = Display("tuple", key_and_value)
    else:
        more = path.value("dict", *key_and_value)
        frame.stack[-argument] = path.value("merge", frame.stack[-argument], more)
    return None


@_of("UNPACK_SEQUENCE")
def _unpack(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    of = stack.pop()
    if type(of) is Display and len(of.items) == argument:
        stack += reversed(of.items)
        return None
    if type(of) is Known and type(of.value) is tuple and len(of.value) == argument:
        stack += [Known(value) for value in reversed(of.value)]
        return None
    values = path.value("unpack", of, value=argument)
    stack += reversed([item(path, values, Known(at)) for at in range(argument)])
    return None


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
    into = stack[-2] if len(stack) > 1 else None
    if type(stack[-1]) is not Iterator or not (
        generates or (type(into) is Display and into.operation != "tuple" and not into.items)
    ):
        raise path.refused("has a loop")
    target = frame.pc + 2 * argument
    if not generates:
        stack[-2] = COLLECTED
    items = path.each(stack[-1].of, target)
    stack.pop()
    if generates:
        frame.generated = items
    else:
        assert into is not None
        stack[-1] = items if into.operation == "list" else _dict_of(path, items)
    frame.pc = _after_loop(frame.instructions, target)
    return None


def _dict_of(path: Path, pairs: Symbol) -> Symbol:
    """The dict of a list of pairs."""
    if type(pairs) is Display:
        return path.value("dict", *[symbol for pair in pairs.items for symbol in pair.items])
    return path.value("call", pairs, value="dict")


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


_GENERATOR = 0x20
_LIST_TO_TUPLE = 6
_UNARY_POSITIVE = 5
