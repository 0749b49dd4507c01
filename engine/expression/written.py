"""Builtins that call functions, written in Python: they are lifted like functions of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _least(one: Any, other: Any, *, key: Callable[[Any], Any]) -> Any:
    of_one, of_other = key(one), key(other)
    return other if of_other < of_one else one


def _greatest(one: Any, other: Any, *, key: Callable[[Any], Any]) -> Any:
    of_one, of_other = key(one), key(other)
    return other if of_other > of_one else one


BY_KEY: dict[str, Any] = {"min": _least, "max": _greatest}
"""What `min(one, other, key=key)` and `max` do."""
