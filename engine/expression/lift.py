"""`lift`: a function as an expression, or why that cannot be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from engine.expression.calls import call
from engine.expression.control import CONTROL
from engine.expression.displays import DISPLAYS
from engine.expression.guards import Guards
from engine.expression.path import Lifting, Path, Refused
from engine.expression.symbols import Known
from engine.expression.table import by_number
from engine.expression.tree import Block, Expression, Return
from engine.expression.values import VALUES


@dataclass(frozen=True)
class Lifted:
    """What a function computes, as long as the guards hold."""

    expression: Expression
    guards: Guards

    def holds(self) -> bool:
        """Whether the function still computes that, and nobody watches how functions run."""
        return self.guards.hold()


@dataclass(frozen=True)
class Refusal:
    """Why a function is not lifted: `calls json.loads, line 12`."""

    reason: str


def lift(function: Callable[..., Any], arguments: int) -> Lifted | Refusal:
    """What a function computes when it is called with so many arguments.

    >>> lift(lambda word: (word, 1), 1).expression.to_data()
    (1, ([('constant', [], 1), ('tuple', [0, 1], None)], ('return', 2)))
    >>> lift(lambda line: print(line), 1).reason
    'calls print, line 1'
    """
    kind = type(function)
    if not _IS_KNOWN:
        return Refusal(f"{sys.implementation.name} {sys.version.split()[0]} is not understood")
    if isinstance(function, MethodType):
        return Refusal(f"a method of an object of class {type(function.__self__).__name__}")
    path = Path(Lifting(_HANDLERS), arguments)
    try:
        value = call(path, Known(function), list(range(arguments)), {})
        if value is None:
            body = path.run()
        else:
            register = path.register(value)
            body = Block(tuple(path.steps), Return(register))
    except Refused as refused:
        known = kind in (FunctionType, BuiltinFunctionType, type, partial)
        return Refusal(str(refused) if known else f"an object of class {kind.__name__}")
    except RecursionError:
        return Refusal("has too many ways through it")
    except Exception as error:  # noqa: BLE001  # code that no compiler made; a job goes on without
        return Refusal(f"is not understood: {error!r}")
    return Lifted(Expression(arguments, body), path.lifting.guards)


_IS_KNOWN = sys.implementation.name == "cpython" and sys.version_info < (3, 15)
_HANDLERS = by_number(VALUES, DISPLAYS, CONTROL)
