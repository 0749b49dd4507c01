"""Calls: of pure builtins and methods, which are steps, and of functions, which are gone into."""

from __future__ import annotations

import dis
import functools
import operator
import re
from collections.abc import Sequence
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, cast

from engine.expression import written
from engine.expression.frame import Frame
from engine.expression.operations import binary, formatted, item, lookup, unary
from engine.expression.path import Path, told
from engine.expression.patterns import in_rust
from engine.expression.pure import (
    CALLABLES,
    CALLS,
    CLASS_METHODS,
    CLASSES,
    ITERATORS,
    METHODS,
    OPERATORS,
    VIEWS,
    is_constant,
)
from engine.expression.symbols import (
    Display,
    Iterable,
    Iterator,
    Known,
    Made,
    Method,
    Pairs,
    Symbol,
)


def call(
    path: Path, callee: Symbol, arguments: list[Symbol], by_name: dict[str, Symbol]
) -> Symbol | None:
    """The value of a call, or None: the path has gone into a function, which will return it.

    Raises:
        Refused: this function is none that is known to have no effect.

    """
    kind = type(callee)
    if kind is Method:
        return _method(path, callee.receiver, callee.name, arguments, by_name)
    if kind is Made:
        return _made(path, callee, arguments, by_name)
    if kind is not Known:
        raise path.refused("calls a function that is computed")
    function = callee.value
    if type(function) is FunctionType:
        path.lifting.guards.function(function)
        _function(path, callee.name or function.__name__, function, arguments, by_name)
        return None
    if (name := CALLABLES.get(id(function))) is not None:
        return _builtin(path, name, arguments, by_name)
    if isinstance(function, type) and issubclass(function, BaseException):
        return failure(path)  # which the function makes only to raise it
    if type(function) is functools.partial:
        first = [Known(argument) for argument in function.args]
        named = {name: Known(value, name) for name, value in function.keywords.items()}
        return call(path, Known(function.func), first + arguments, named | by_name)
    if by_name:
        raise path.refused(f"calls {_name(callee)} with arguments by name")
    if (instead := written.OF_MATH.get(id(function))) is not None:
        _function(path, _name(callee), instead, arguments, {})
        return None
    if (operation := OPERATORS.get(id(function))) is not None and operation[1] == len(arguments):
        return (binary if operation[1] == 2 else unary)(path, operation[0], *arguments)
    if (name := CLASS_METHODS.get(id(function))) is not None and arguments:
        return _method(path, arguments[0], name, arguments[1:], by_name)
    if any(function is getter for getter in _GETTERS):
        known = [of.value for of in arguments if type(of) is Known and is_constant(of.value)]
        if known and len(known) == len(arguments):
            return Known(function(*known))
    if type(function) in _GETTERS and len(arguments) == 1:
        return _getter(path, function, arguments[0])
    if type(function) is BuiltinFunctionType and type(function.__self__) in (str, bytes):
        return _method(path, Known(function.__self__), function.__name__, arguments, by_name)
    raise path.refused(f"calls {_name(callee)}")


def call_with_items(path: Path, callee: Symbol, items: Symbol) -> Symbol | None:
    """The value of `callee(*items)`, as of `call`."""
    if type(items) is Display and items.operation != "dict":
        return call(path, callee, items.items, {})
    function = callee.value if type(callee) is Known else None
    if type(function) is not FunctionType or function.__defaults__ or type(items) is not int:
        raise path.refused("has a call with *")
    if function.__code__.co_flags & _TAKES_MORE:
        raise path.refused("has a call with *")
    count = function.__code__.co_argcount
    values = path.value("unpack", items, value=count)
    return call(path, callee, [path.value("item", values, Known(at)) for at in range(count)], {})


def failure(path: Path) -> Symbol:
    """A step that fails whenever it runs, so that the function is called."""
    return path.value("item", Known(()), Known(0))


def _builtin(
    path: Path, name: str, arguments: list[Symbol], by_name: dict[str, Symbol]
) -> Symbol | None:
    count = len(arguments)
    if name == "dict" and not arguments:
        items = [symbol for key, value in by_name.items() for symbol in (Known(key), value)]
        return path.value("dict", *items)
    if name == "zip" and count == 2 and by_name.keys() <= {"strict"}:
        strict = by_name.get("strict", Known(False))
        if type(strict) is Known and type(strict.value) is bool:
            return Pairs(arguments[0], arguments[1], strict.value)
    if name in written.BY_KEY and by_name.keys() == {"key"} and count == 2:
        _function(path, name, written.BY_KEY[name], arguments, by_name)
        return None
    if by_name:
        raise path.refused(f"calls {name} with arguments by name")
    if name in ITERATORS:
        _check_count(path, name, ITERATORS[name], count)
        if name in written.THROUGH:
            _function(path, name, written.THROUGH[name], arguments, {})
            return None
        register = path.value("call", *map(path.iterated, arguments), value=name)
        return Iterable(register, f"the iterator of {name}()")
    _check_count(path, name, CALLS[name], count)
    if not arguments:
        return Known(_EMPTY[name]) if name in _EMPTY else Display(name, [])
    if name == "dict":
        return _dict(path, arguments[0])
    if name in _TAKE_ITERATORS and count == 1:
        first = arguments[0] = path.iterated(arguments[0])
        if name in ("list", "tuple") and type(first) is Display and first.operation != "dict":
            return Display(name, first.items)
    first = arguments[0]
    if name == "len" and type(first) is Known and type(first.value) in (dict, list, set):
        return Known(path.lifting.guards.length(first.value))
    if name == "isinstance":
        return path.value("call", first, value=f"isinstance:{_classes(path, arguments[1])}")
    if name == "format":
        return formatted(path, first, "", arguments[1] if count == 2 else Known(""))
    if name == "divmod":
        return Display("tuple", [binary(path, of, *arguments) for of in ("//", "%")])
    if name == "pow":
        return binary(path, "**", *arguments)
    if name == "bool":
        return unary(path, "truth", first)
    return path.value("call", *arguments, value=name)


def _dict(path: Path, of: Symbol) -> Symbol:
    if type(of) is Pairs and type(of.names) is Known and type(of.names.value) is tuple:
        path.consumed(of)
        names = of.names.value
        values = path.value("unpack", of.of, value=len(names))
        items: list[Symbol] = []
        for number, name in enumerate(names):
            items += [Known(name), path.value("item", values, Known(number))]
        return path.value("dict", *items)
    if type(of) in (Iterable, Pairs):
        return path.value("call", path.iterated(of), value="dict")
    return path.value("merge", Display("dict", []), of)


def _classes(path: Path, symbol: Symbol) -> str:
    """The names of the classes that `isinstance` is asked for: `int`, or `int|float`."""
    if type(symbol) is Display and symbol.items:
        return "|".join([_classes(path, item) for item in symbol.items])
    if type(symbol) is Known:
        if type(symbol.value) is tuple and symbol.value:
            return "|".join([_classes(path, Known(of, symbol.name)) for of in symbol.value])
        if (name := CLASSES.get(id(symbol.value))) is not None:
            return name
    what = _name(symbol) if type(symbol) is Known else "a class that is computed"
    raise path.refused(f"calls isinstance with {what}")


def _method(
    path: Path, receiver: Symbol, name: str, arguments: list[Symbol], by_name: dict[str, Symbol]
) -> Symbol:
    if type(receiver) is Known and type(receiver.value) is dict and not by_name:
        if name == "get" and 1 <= len(arguments) <= 2:
            return lookup(path, receiver, *[*arguments, Known(None)][:2])
        if name in VIEWS and not arguments:
            return _view(path, receiver, name)
    if type(receiver) is Known and type(receiver.value) is re.Pattern:
        return _found(path, receiver, name, arguments, by_name)
    if type(receiver) is Known and not isinstance(receiver.value, (str, bytes, tuple)):
        raise path.refused(f"calls {_name(receiver)}.{name}")
    if name in VIEWS and not arguments and not by_name:
        return Iterable(path.value("method", receiver, value=name), f"the view of .{name}()")
    if name not in METHODS:
        raise path.refused(f"calls .{name}()")
    if by_name:
        raise path.refused(f"calls .{name}() with arguments by name")
    _check_count(path, f".{name}()", METHODS[name], len(arguments))
    if name == "join":
        arguments = [path.iterated(arguments[0])]
    return path.value("method", receiver, *arguments, value=name)


def _found(
    path: Path, known: Known, name: str, arguments: list[Symbol], by_name: dict[str, Symbol]
) -> Symbol:
    """What a method of a regular expression finds."""
    if name != "findall" or len(arguments) != 1 or by_name:
        raise path.refused(f"calls {_name(known)}.{name}")
    pattern = in_rust(known.value)
    if pattern is None:
        raise path.refused(
            f"calls {_name(known)}.findall of a pattern with more than ASCII characters, "
            "alternatives and repeats, or that may find nothing"
        )
    return path.value("call", arguments[0], value=f"findall:{pattern}")


def _view(path: Path, known: Known, name: str) -> Symbol:
    """The items, keys or values of a known dict, as long as they stay so."""
    keys = path.guarded(known, tuple)
    items = tuple(getattr(known.value, name)())
    if type(keys.value) is not tuple or not is_constant(items):
        raise path.refused(f"reads {told(known)}")
    return Iterable(Known(items), f"the view of .{name}()")


def _getter(path: Path, getter: Any, of: Symbol) -> Symbol:
    """What `itemgetter`, `attrgetter` and `methodcaller` of the module `operator` give."""
    _, of_getter = getter.__reduce__()
    if type(getter) is operator.methodcaller:
        name, *arguments = of_getter
        return _method(path, of, name, [Known(argument) for argument in arguments], {})
    if type(getter) is operator.itemgetter:
        values = [item(path, of, Known(at)) for at in of_getter]
    else:
        values = []
        for names in of_getter:
            value = of
            for name in names.split("."):
                value = path.value("attribute", value, value=name)
            values.append(value)
    return values[0] if len(values) == 1 else Display("tuple", values)


def _function(
    path: Path,
    name: str,
    function: FunctionType,
    arguments: list[Symbol],
    by_name: dict[str, Symbol],
) -> None:
    code = function.__code__
    free = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    variables = _bound(path, name, function, arguments, by_name)
    builtins = cast(Any, function).__builtins__
    if type(function.__globals__) is not dict or type(builtins) is not dict:
        raise path.refused(f"calls {name}, whose globals are no dict")
    _enter(path, Frame(code, variables, free, function.__globals__, builtins, path.here, name))


def _made(
    path: Path, made: Made, arguments: list[Symbol], by_name: dict[str, Symbol]
) -> Symbol | None:
    code = made.code
    maker: Frame | None = path.here
    while maker is not None and maker.code is not made.maker:
        maker = maker.caller
    if maker is None or by_name or len(arguments) != code.co_argcount:
        raise path.refused("makes a function, and calls it in a way that is not understood")
    free = {
        name: maker.variables[name] if name in maker.code.co_cellvars else maker.free[name]
        for name in code.co_freevars
        if name in (maker.variables if name in maker.code.co_cellvars else maker.free)
    }
    variables = dict(zip(code.co_varnames, arguments, strict=False))
    _enter(path, Frame(code, variables, free, maker.globals, maker.builtins, path.here))
    return None


def _enter(path: Path, frame: Frame) -> None:
    """Goes into a function; its `return` comes back.

    Raises:
        Refused: it has a form that is not understood.

    """
    caller = frame.caller
    while caller is not None:
        if caller.code is frame.code:
            raise path.refused(f"calls {frame.code.co_name}, which calls itself")
        caller = caller.caller
    path.here = frame
    flags = frame.code.co_flags
    if flags & _GENERATOR and ".0" in frame.variables:
        if type(frame.variables[".0"]) is not Iterator:  # since Python 3.14
            frame.variables[".0"] = Iterator(frame.variables[".0"])
    elif flags & _GENERATOR:
        raise path.refused("is a generator")
    if flags & _COROUTINE:
        raise path.refused("is a coroutine function")
    if _has_try(frame.code):
        raise path.refused("has a try statement")


def _bound(
    path: Path,
    name: str,
    function: FunctionType,
    arguments: Sequence[Symbol],
    by_name: dict[str, Symbol],
) -> dict[str, Symbol]:
    """The parameters of a function and their values."""
    code = function.__code__
    count = code.co_argcount
    parameters = code.co_varnames[: count + code.co_kwonlyargcount]
    variables = dict(zip(parameters[:count], arguments, strict=False))
    if len(arguments) > count and not code.co_flags & _TAKES_MORE:
        raise path.refused(f"calls {name}, which takes {_arguments(count)}, with {len(arguments)}")
    for parameter, value in by_name.items():
        if parameter in variables or parameter not in parameters[code.co_posonlyargcount :]:
            raise path.refused(f"calls {name} with a wrong argument {parameter}")
        variables[parameter] = value
    defaults = function.__defaults__ or ()
    for parameter, value in zip(parameters[count - len(defaults) : count], defaults, strict=True):
        variables.setdefault(parameter, Known(value, parameter))
    by_default = function.__kwdefaults__ or {}
    for parameter in parameters[count:]:
        if parameter not in variables and parameter in by_default:
            value = path.lifting.guards.name(by_default, parameter)
            variables[parameter] = Known(value, parameter)
    if missing := [parameter for parameter in parameters if parameter not in variables]:
        if missing[0] in parameters[:count]:
            takes = f"which takes {_arguments(count)}, with {len(arguments)}"
            raise path.refused(f"calls {name}, {takes}")
        raise path.refused(f"calls {name} without its argument {missing[0]}")
    others = iter(code.co_varnames[len(parameters) :])
    if code.co_flags & _TAKES_MORE:
        variables[next(others)] = Display("tuple", list(arguments[count:]))
    if code.co_flags & _TAKES_MORE_BY_NAME:
        variables[next(others)] = Display("dict", [])
    return variables


def _arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"


def _has_try(code: CodeType) -> bool:
    return bool(getattr(code, "co_exceptiontable", b"")) and _HANDLES in code.co_code[::2]


def _check_count(path: Path, name: str, allowed: tuple[int, int], count: int) -> None:
    if not allowed[0] <= count <= allowed[1]:
        raise path.refused(f"calls {name} with {_arguments(count)}")


def _name(known: Known) -> str:
    return known.name or getattr(known.value, "__qualname__", "") or told(known)


_GENERATOR = 0x20
_TAKES_MORE = 0x04
_TAKES_MORE_BY_NAME = 0x08
_COROUTINE = 0x80 | 0x200
_HANDLES = dis.opmap.get("PUSH_EXC_INFO", -1)
_EMPTY: dict[str, Any] = {"bool": False, "float": 0.0, "int": 0, "str": "", "tuple": ()}
_TAKE_ITERATORS = frozenset(("all", "any", "list", "max", "min", "sorted", "sum", "tuple"))
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
