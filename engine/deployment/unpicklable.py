"""Objects of a pipeline that cannot be sent to workers, named by function and variable."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

from engine.errors import StartError
from engine.graph.logical import LogicalOperator


def unpicklable(
    operators: Sequence[LogicalOperator], error: Exception, dump: Callable[[object], object]
) -> StartError:
    """The exception for operators of which pickling, as `dump` does it, raised this."""

    def is_picklable(value: object) -> bool:
        try:
            dump(value)
        except Exception:  # noqa: BLE001 - pickling may run any code
            return False
        return True

    return StartError(
        f"{_culprit(operators, is_picklable)} cannot be sent to workers: "
        f"{type(error).__name__}: {error}",
        getattr(
            error, "hint", "make locks, files and connections inside the function, not around it"
        ),
    )


def _culprit(operators: Sequence[LogicalOperator], is_picklable: Callable[[object], bool]) -> str:
    """The innermost thing that cannot be pickled, and how one comes to it."""
    at_fault = next((each for each in operators if not is_picklable(each)), operators[0])
    path = [f"operator {at_fault.name!r}"]
    value: object = at_fault.operator
    seen = {id(value)}
    while True:
        for name, part in _parts(value):
            if id(part) not in seen and not is_picklable(part):
                path.append(name)
                value = part
                seen.add(id(part))
                break
        else:
            return " of ".join(reversed(path))


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    """Objects that are pickled with the value, and their names."""
    if isinstance(value, FunctionType):
        yield from _variables(value)
    elif isinstance(value, MethodType):
        yield f"the object of method {value.__name__!r}", value.__self__
    elif isinstance(value, functools.partial):
        yield _named("function", value.func), value.func
        yield from _items("argument", (*value.args, *value.keywords.values()))
    elif isinstance(value, dict):
        yield from _items("value", value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from _items("item", value)
    else:
        for name, attribute in getattr(value, "__dict__", {}).items():
            yield _named(name, attribute), attribute


def _variables(function: FunctionType) -> Iterator[tuple[str, object]]:
    """The outside objects that the function refers to."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield _named(name, cell.cell_contents), cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield _named(name, function.__globals__[name]), function.__globals__[name]
    keyword_defaults = (function.__kwdefaults__ or {}).values()
    yield from _items("default", (*(function.__defaults__ or ()), *keyword_defaults))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _items(what: str, values: Iterable[object]) -> Iterator[tuple[str, object]]:
    for number, value in enumerate(islice(values, _MOST_ITEMS)):
        yield f"{what} {number}", value


def _named(name: str, value: object) -> str:
    if isinstance(value, FunctionType):
        return f"function {value.__qualname__!r}"
    return f"variable {name!r} ({type(value).__name__})"


_MOST_ITEMS = 10_000
