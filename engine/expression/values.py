"""Opcodes of values: constants, variables, operators and displays."""

from __future__ import annotations

import dis
import re
import sys
from types import ModuleType

from engine.expression.frame import Frame
from engine.expression.operations import (
    binary,
    contained,
    formatted,
    in_place,
    item,
    joined,
    same,
    unary,
)
from engine.expression.path import End, Path, told
from engine.expression.pure import is_constant
from engine.expression.symbols import (
    NULL,
    UNBOUND,
    Converted,
    Known,
    Method,
    Slice,
    Symbol,
)
from engine.expression.table import Table

VALUES = Table()
_of = VALUES.of


@_of("NOP", "RESUME", "COPY_FREE_VARS", "MAKE_CELL", "NOT_TAKEN", "GEN_START")
def _nothing(path: Path, argument: int) -> End | None:
    return None


# Constants


@_of("LOAD_CONST")
def _load_constant(path: Path, argument: int) -> End | None:
    frame = path.here
    frame.stack.append(Known(frame.code.co_consts[argument]))
    return None


@_of("LOAD_SMALL_INT")
def _load_small_int(path: Path, argument: int) -> End | None:
    path.here.stack.append(Known(argument))
    return None


# Variables


@_of("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW")
def _load(path: Path, argument: int) -> End | None:
    frame = path.here
    frame.stack.append(path.variable(frame.local_names[argument]))
    return None


@_of("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def _load_two(path: Path, argument: int) -> End | None:
    _load(path, argument >> 4)
    return _load(path, argument & 15)


@_of("LOAD_FAST_AND_CLEAR")
def _load_and_clear(path: Path, argument: int) -> End | None:
    frame = path.here
    name = frame.local_names[argument]
    frame.stack.append(frame.variables.get(name, UNBOUND))
    frame.variables[name] = UNBOUND
    return None


@_of("STORE_FAST")
def _store(path: Path, argument: int) -> End | None:
    frame = path.here
    frame.variables[frame.local_names[argument]] = frame.stack.pop()
    return None


@_of("STORE_FAST_STORE_FAST")
def _store_two(path: Path, argument: int) -> End | None:
    _store(path, argument >> 4)
    return _store(path, argument & 15)


@_of("STORE_FAST_LOAD_FAST")
def _store_and_load(path: Path, argument: int) -> End | None:
    _store(path, argument >> 4)
    return _load(path, argument & 15)


@_of("DELETE_FAST")
def _delete(path: Path, argument: int) -> End | None:
    name = path.here.local_names[argument]
    path.variable(name)
    path.here.variables[name] = UNBOUND
    return None


@_of("LOAD_DEREF", "LOAD_CLASSDEREF")
def _load_shared(path: Path, argument: int) -> End | None:
    path.here.stack.append(path.free_variable(_shared(path.here, argument)))
    return None


@_of("STORE_DEREF")
def _store_shared(path: Path, argument: int) -> End | None:
    frame = path.here
    name = _shared(frame, argument)
    if name not in frame.code.co_cellvars:
        raise path.refused(f"stores {name} of a function around it")
    if frame.loop >= 0:
        raise path.refused("stores a variable of a comprehension that a function shares")
    frame.variables[name] = frame.stack.pop()
    return None


@_of("LOAD_CLOSURE")
def _load_cell(path: Path, argument: int) -> End | None:
    path.here.stack.append(NULL)  # whoever has it looks the variable up by its name
    return None


def _shared(frame: Frame, argument: int) -> str:
    if sys.version_info < (3, 11):
        return (frame.code.co_cellvars + frame.code.co_freevars)[argument]
    return frame.local_names[argument]


@_of("LOAD_GLOBAL")
def _load_global(path: Path, argument: int) -> End | None:
    frame = path.here
    if sys.version_info < (3, 11):
        frame.stack.append(path.global_variable(frame.code.co_names[argument]))
        return None
    known = path.global_variable(frame.code.co_names[argument >> 1])
    if argument & 1:
        frame.stack += [known, NULL] if sys.version_info >= (3, 13) else [NULL, known]
    else:
        frame.stack.append(known)
    return None


@_of("LOAD_ATTR")
def _load_attribute(path: Path, argument: int) -> End | None:
    if sys.version_info < (3, 12):
        path.here.stack.append(_attribute(path, argument))
        return None
    if argument & 1:
        return _load_method(path, argument >> 1)
    path.here.stack.append(_attribute(path, argument >> 1))
    return None


@_of("LOAD_METHOD")
def _load_method(path: Path, argument: int) -> End | None:
    frame = path.here
    of = frame.stack[-1]
    has_methods = type(of) is not Known or type(of.value) in (dict, re.Pattern)
    if not has_methods and not is_constant(of.value):
        method = _attribute(path, argument)
    else:
        method = Method(frame.stack.pop(), frame.code.co_names[argument])
    frame.stack += [method, NULL]
    return None


def _attribute(path: Path, argument: int) -> Symbol:
    frame = path.here
    of, name = frame.stack.pop(), frame.code.co_names[argument]
    if type(of) is not Known or is_constant(of.value):
        return path.value("attribute", of, value=name)
    full = f"{of.name}.{name}"
    if type(of.value) in (ModuleType, type) and name in vars(of.value):
        known = Known(path.lifting.guards.name(vars(of.value), name), full)
        if type(of.value) is ModuleType or is_constant(known.value) or of.value in (str, dict):
            return known
    raise path.refused(f"reads {full} of {told(Known(of.value))}")


# The stack


@_of("PUSH_NULL")
def _push_null(path: Path, argument: int) -> End | None:
    path.here.stack.append(NULL)
    return None


@_of("POP_TOP")
def _pop(path: Path, argument: int) -> End | None:
    path.here.stack.pop()
    return None


@_of("COPY")
def _copy(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    stack.append(stack[-argument])
    return None


@_of("SWAP")
def _swap(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    stack[-1], stack[-argument] = stack[-argument], stack[-1]
    return None


@_of("DUP_TOP")
def _copy_one(path: Path, argument: int) -> End | None:
    return _copy(path, 1)


@_of("DUP_TOP_TWO")
def _copy_two(path: Path, argument: int) -> End | None:
    path.here.stack += path.here.stack[-2:]
    return None


@_of("ROT_N")
def _rotate(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    stack.insert(len(stack) - argument, stack.pop())
    return None


@_of("ROT_TWO")
def _rotate_two(path: Path, argument: int) -> End | None:
    return _rotate(path, 2)


@_of("ROT_THREE")
def _rotate_three(path: Path, argument: int) -> End | None:
    return _rotate(path, 3)


@_of("ROT_FOUR")
def _rotate_four(path: Path, argument: int) -> End | None:
    return _rotate(path, 4)


# Operators


@_of("BINARY_OP")
def _binary_operation(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    left, right = path.here.pop(2)
    if argument == _SUBSCRIPT:
        stack.append(item(path, left, right))
        return None
    operation = _BINARY[argument % len(_BINARY)]
    if operation == "@":
        raise path.refused("has the operator @")
    stack.append((binary if argument < len(_BINARY) else in_place)(path, operation, left, right))
    return None


def _binary_of_one_opcode(path: Path, argument: int) -> End | None:
    name = dis.opname[path.here.instructions[path.here.start]]
    left, right = path.here.pop(2)
    form, operation = name.split("_", 1)
    value = (binary if form == "BINARY" else in_place)(path, _NAMED[operation], left, right)
    path.here.stack.append(value)
    return None


@_of("BINARY_SUBSCR")
def _subscript(path: Path, argument: int) -> End | None:
    of, at = path.here.pop(2)
    path.here.stack.append(item(path, of, at))
    return None


@_of("BINARY_SLICE")
def _slice(path: Path, argument: int) -> End | None:
    of, *bounds = path.here.pop(3)
    path.here.stack.append(item(path, of, Slice([*bounds, Known(None)])))
    return None


@_of("BUILD_SLICE")
def _build_slice(path: Path, argument: int) -> End | None:
    bounds = path.here.pop(argument)
    path.here.stack.append(Slice(bounds if argument == 3 else [*bounds, Known(None)]))
    return None


@_of("COMPARE_OP")
def _compare(path: Path, argument: int) -> End | None:
    left, right = path.here.pop(2)
    operation = dis.cmp_op[argument >> _COMPARE_SHIFT]
    path.here.stack.append(binary(path, operation, left, right))
    return None


@_of("IS_OP")
def _is(path: Path, argument: int) -> End | None:
    left, right = path.here.pop(2)
    path.here.stack.append(same(path, left, right, bool(argument)))
    return None


@_of("CONTAINS_OP")
def _contains(path: Path, argument: int) -> End | None:
    left, right = path.here.pop(2)
    path.here.stack.append(contained(path, left, right, bool(argument)))
    return None


@_of("UNARY_NEGATIVE")
def _negative(path: Path, argument: int) -> End | None:
    path.here.stack.append(unary(path, "negative", path.here.stack.pop()))
    return None


@_of("UNARY_POSITIVE")
def _positive(path: Path, argument: int) -> End | None:
    path.here.stack.append(unary(path, "positive", path.here.stack.pop()))
    return None


@_of("UNARY_INVERT")
def _invert(path: Path, argument: int) -> End | None:
    path.here.stack.append(unary(path, "invert", path.here.stack.pop()))
    return None


@_of("UNARY_NOT")
def _not(path: Path, argument: int) -> End | None:
    path.here.stack.append(unary(path, "not", path.here.stack.pop()))
    return None


@_of("TO_BOOL")
def _truth(path: Path, argument: int) -> End | None:
    frame = path.here
    at = frame.pc
    while dis.opname[frame.instructions[at]] == "EXTENDED_ARG":
        at += 2
    if not dis.opname[frame.instructions[at]].startswith(("POP_JUMP_IF", "UNARY_NOT")):
        frame.stack.append(unary(path, "truth", frame.stack.pop()))
    return None  # the next opcode asks for its truth itself


# Texts


@_of("FORMAT_VALUE")
def _format(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    spec = stack.pop() if argument & 4 else Known("")
    stack.append(formatted(path, stack.pop(), ("", "s", "r", "a")[argument & 3], spec))
    return None


@_of("CONVERT_VALUE")
def _convert(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    stack.append(Converted(stack.pop(), ("", "s", "r", "a")[argument]))
    return None


@_of("FORMAT_SIMPLE")
def _format_simply(path: Path, argument: int) -> End | None:
    stack = path.here.stack
    stack.append(formatted(path, stack.pop(), "", Known("")))
    return None


@_of("FORMAT_WITH_SPEC")
def _format_with(path: Path, argument: int) -> End | None:
    of, spec = path.here.pop(2)
    path.here.stack.append(formatted(path, of, "", spec))
    return None


@_of("BUILD_STRING")
def _join_texts(path: Path, argument: int) -> End | None:
    path.here.stack.append(joined(path, path.here.pop(argument)))
    return None


# Operators by the numbers of BINARY_OP; those that change their left side follow in the same order.
_BINARY = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
_SUBSCRIPT = 26
_COMPARE_SHIFT = 0 if sys.version_info < (3, 12) else 4 if sys.version_info < (3, 13) else 5
_NAMED = {
    "ADD": "+",
    "AND": "&",
    "FLOOR_DIVIDE": "//",
    "LSHIFT": "<<",
    "MULTIPLY": "*",
    "MODULO": "%",
    "OR": "|",
    "POWER": "**",
    "RSHIFT": ">>",
    "SUBTRACT": "-",
    "TRUE_DIVIDE": "/",
    "XOR": "^",
}
VALUES.of(*[f"{form}_{name}" for form in ("BINARY", "INPLACE") for name in _NAMED])(
    _binary_of_one_opcode
)
