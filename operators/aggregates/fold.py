"""Computations on the records of a key in a window, as functions that all windows use."""

import functools
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from operators.aggregates.accumulator import Accumulator

Accumulated = Any
"""The value of the records so far."""


class Fold(NamedTuple):
    """The functions that make the value of a window from a key's records."""

    create: Callable[[Any], Accumulated] | None
    """Makes the value of the first record; None if that is the record itself."""
    add: Callable[[Accumulated, Any], Accumulated] | None
    """Adds a later record; None if the value is the list of all records."""
    merge: Callable[[list[Accumulated]], Accumulated]
    """Merges several parts, which it does not change."""
    value: Callable[[Any, Accumulated, Any, Any], Any] | None
    """Makes the result from a key, the value of its records, and the window's start and end; None
    if the result is that value."""
    meaning: Any = None
    """The computation, for `Properties.meaning`; several are in the order of their values."""


def reducing(function: Callable[[Any, Any], Any]) -> Fold:
    """The fold of `reduce`: the function merges parts, too."""
    return Fold(None, function, functools.partial(functools.reduce, function), None, "reduce")


def collecting() -> Fold:
    """The fold of `collect`: a list of the records."""
    return Fold(None, None, _joined, _copied, "collect")


def applying(function: Callable[[Any, list[Any], Any, Any], Any]) -> Fold:
    """The fold of `apply`: the function gets a list of its own."""
    return Fold(
        None,
        None,
        _joined,
        lambda key, records, start, end: function(key, list(records), start, end),
        "apply",
    )


def accumulating(accumulators: Mapping[str, Accumulator[Any, Any, Any]]) -> Fold:
    """The fold of `aggregate`: a dict of each accumulator's result."""
    if len(accumulators) == 1:
        return _of_one(*next(iter(accumulators.items())))
    names, each = list(accumulators), list(accumulators.values())
    adds = [(at, one.add) for at, one in enumerate(each)]

    def create(record: Any) -> list[Any]:
        return [one.add(one.create(), record) for one in each]

    def add(so_far: list[Any], record: Any) -> list[Any]:
        for at, add_to in adds:
            so_far[at] = add_to(so_far[at], record)
        return so_far

    def merge(parts: list[list[Any]]) -> list[Any]:
        of_each = zip(each, zip(*parts, strict=True), strict=True)
        return [functools.reduce(one.merge, found, one.create()) for one, found in of_each]

    def value(_key: Any, so_far: list[Any], *_bounds: Any) -> dict[str, Any]:
        finished = (one.finish(found) for one, found in zip(each, so_far, strict=True))
        return dict(zip(names, finished, strict=True))

    return Fold(create, add, merge, value, dict(zip(names, map(_in_words, each), strict=True)))


def _of_one(name: str, one: Accumulator[Any, Any, Any]) -> Fold:
    """The fold of a single accumulator, without a list."""
    return Fold(
        lambda record: one.add(one.create(), record),
        one.add,
        lambda parts: functools.reduce(one.merge, parts, one.create()),
        lambda _key, so_far, *_bounds: {name: one.finish(so_far)},
        {name: _in_words(one)},
    )


def _in_words(one: Accumulator[Any, Any, Any]) -> str:
    """Its class, and its plain attributes, such as a number of values to keep."""
    plain = (None.__class__, bool, int, float, str, timedelta)
    fields = {name: value for name, value in vars(one).items() if type(value) in plain}
    kind = type(one)
    told = ", ".join(f"{name}={value!r}" for name, value in sorted(fields.items()))
    return f"{kind.__module__}.{kind.__qualname__}({told})"


def _copied(_key: Any, records: list[Any], *_bounds: Any) -> list[Any]:
    return list(records)


def _joined(parts: list[list[Any]]) -> list[Any]:
    return [record for part in parts for record in part]
