"""What in an operator cannot be pickled: the function and the variable, in words.

It is looked for only after pickling has failed: a part that fails is taken apart, until none of its
own parts does.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from engine.graph.logical import LogicalOperator


def what_cannot_be_pickled(operators: Sequence[LogicalOperator]) -> str:
    """The first operator of which something cannot, and what that is, as far as it is found."""
    for operator in operators:
        if not _is_picklable(operator.operator):
            found = "".join(_way_to_the_cause(operator.operator))
            return f"operator {operator.name!r}{found}"
    return f"operators {', '.join(operator.name for operator in operators)}"


def _way_to_the_cause(value: Any) -> Iterator[str]:
    """The functions on the way, and the variable of the last one."""
    seen: set[int] = set()
    while id(value) not in seen and len(seen) < _MOST_STEPS:
        seen.add(id(value))
        bad = next(((n, part) for n, part in _parts(value) if not _is_picklable(part)), None)
        if bad is None:
            return
        name, value = bad
        if isinstance(value, types.FunctionType):
            code = value.__code__
            place = f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
            yield f": function {value.__qualname__} ({place})"
        elif name:
            yield f": {name}, a {type(value).__module__}.{type(value).__qualname__},"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What is pickled with the value: its parts with their names."""
    if isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield f"its variable {name!r}", cell.cell_contents
            except ValueError:  # it has no value yet
                continue
        for name in _global_names(value.__code__):
            if name in value.__globals__:
                yield f"the global variable {name!r}", value.__globals__[name]
        for default in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            yield "a default of its arguments", default
    elif isinstance(value, types.MethodType):
        yield "", value.__func__
        yield "its object", value.__self__
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield "an argument of functools.partial", part
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield f"the item {key!r:.80}", part
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield "an item", part
    elif not isinstance(value, type | types.ModuleType):
        for name, part in getattr(value, "__dict__", {}).items():
            yield f"the attribute {name!r}", part


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _is_picklable(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever a __reduce__ of the user's raises
        return False
    return True


_MOST_STEPS = 20
