"""Builtins and functions of `math`, written in Python: they are lifted like functions of users."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any


def _least(one: Any, other: Any, *, key: Callable[[Any], Any]) -> Any:
    of_one, of_other = key(one), key(other)
    return other if of_other < of_one else one


def _greatest(one: Any, other: Any, *, key: Callable[[Any], Any]) -> Any:
    of_one, of_other = key(one), key(other)
    return other if of_other > of_one else one


def _map(function: Callable[[Any], Any], items: Iterable[Any]) -> Any:
    return (function(item) for item in items)


def _filter(function: Callable[[Any], Any] | None, items: Iterable[Any]) -> Any:
    if function is None:
        return (item for item in items if item)
    return (item for item in items if function(item))


def _floor(number: float) -> int:
    return int(number // 1)


def _ceil(number: float) -> int:
    return -int(-number // 1)


def _isnan(number: float) -> bool:
    negative = float(-number)  # of what is no number, this fails
    return negative != negative


def _isinf(number: float) -> bool:
    return abs(float(-number)) == math.inf


def _isfinite(number: float) -> bool:
    negative = float(-number)
    return negative - negative == 0.0


BY_KEY: dict[str, Any] = {"min": _least, "max": _greatest}
"""What `min(one, other, key=key)` and `max` do."""

THROUGH: dict[str, Any] = {"filter": _filter, "map": _map}
"""What builtins do that call a function of each item."""

OF_MATH: dict[int, Any] = {
    id(math.ceil): _ceil,
    id(math.floor): _floor,
    id(math.isfinite): _isfinite,
    id(math.isinf): _isinf,
    id(math.isnan): _isnan,
}
"""What functions of the module `math` do with numbers of Python, by `id`."""
