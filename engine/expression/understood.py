"""Which operators' functions are understood, and why others are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from engine.expression.lift import Lifted, Refusal, lift
from engine.network import Fold, Program

if TYPE_CHECKING:
    from engine.graph.operator import Operator


def are_lifted(functions: Iterable[tuple[Callable[..., Any], int]]) -> bool:
    """Whether there are some, and all can be lifted; each has its number of arguments."""
    lifted = [isinstance(lift(*each), Lifted) for each in functions]
    return bool(lifted) and all(lifted)


def understood(operator: Operator) -> list[Lifted] | Refusal:
    """The operator's functions of records, lifted; the reason why one of them is not."""
    found = []
    for function, arguments in operator.properties.functions:
        lifted = lift(function, arguments)
        if isinstance(lifted, Refusal):
            return lifted
        try:
            data = lifted.expression.to_data()
            if arguments == 1:
                Program([("map", data)])
            else:
                Fold(function, None, paired=False, key_forms=[], lifted=data)
        except ValueError as error:
            return Refusal(str(error))
        found.append(lifted)
    return found
