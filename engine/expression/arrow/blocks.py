"""Blocks of an expression, run for all rows at once.

A branch is run for those rows alone for which its condition says so. Where both ways on are cheap
and fail nowhere, both are run for all rows, and one result or the other taken: that costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expression.arrow import arithmetic, calls, comparison, containers, texts
from engine.expression.arrow.merging import Choice, Scatter, interleaved, kept, lists_of
from engine.expression.arrow.values import (
    Column,
    Constant,
    GivesUp,
    Items,
    Lists,
    Selection,
    Value,
    constant_of,
    fixed,
    select,
)
from engine.expression.tree import Block, Branch, Return, Skip, Step

Places: TypeAlias = Any
"""Numbers of rows, in order, as an array of NumPy; None for all of them."""


class Program:
    """A block and what comes behind it, ready to run."""

    def __init__(self, block: Block) -> None:
        self._steps = [_prepared(step) for step in block.steps]
        self._end = block.end
        self._is_cheap = all(step.operation in _CHEAP for step in block.steps)
        self.may_skip = isinstance(block.end, Skip)
        if isinstance(block.end, Branch):
            self._then = Program(block.end.then)
            self._otherwise = Program(block.end.otherwise)
            self.may_skip = self._then.may_skip or self._otherwise.may_skip
            self._runs_both = self._then._is_cheap and self._otherwise._is_cheap
            self._runs_both &= not self.may_skip
            self._is_cheap &= self._runs_both

    def value(
        self, registers: Sequence[Value], count: int, of: Callable[[Value], Value] | None = None
    ) -> Value:
        """The result of so many rows, or `of` it."""
        return _together(self.pieces(registers, count, of=of))

    def pieces(
        self,
        registers: Sequence[Value],
        count: int,
        places: Places = None,
        of: Callable[[Value], Value] | None = None,
    ) -> list[tuple[Places, Value]]:
        """The results of the ways on, each with its rows; of a way to `Skip` there is none.

        The registers are of `count` rows, which are those at `places`.
        """
        registers = list(registers)
        for step in self._steps:
            registers.append(step(registers, count))
        if isinstance(self._end, Skip):
            return []
        if isinstance(self._end, Return):
            result = registers[self._end.register]
            return [(places, result if of is None else of(result))]
        condition = comparison.truth(registers[self._end.condition])
        chosen = comparison.number_of(condition, count)
        if chosen in (0, count):
            return (self._then if chosen else self._otherwise).pieces(registers, count, places, of)
        assert isinstance(condition, Column)
        mask = condition.plain
        if self._runs_both:
            try:
                ways = [way.value(registers, count, of) for way in (self._then, self._otherwise)]
                return [(places, Choice(mask)(ways))]
            except (GivesUp, pa.ArrowException):
                self._runs_both = False
        found: list[tuple[Places, Value]] = []
        for rows, way in ((mask, self._then), (pc.invert(mask), self._otherwise)):
            selection = Selection(mask=rows)
            some = [select(value, selection) for value in registers]
            at = selection.places if places is None else places[selection.places]
            found += way.pieces(some, len(at), at, of)
        return found


def _together(pieces: Sequence[tuple[Places, Value]]) -> Value:
    """The value of all rows from those of the ways on."""
    if len(pieces) == 1:
        return pieces[0][1]
    return Scatter([places for places, _ in pieces])([value for _, value in pieces])


def flattened(program: Program, registers: Sequence[Value], count: int) -> tuple[Value, int]:
    """The items of the lists or tuples that are the results, and how many there are."""
    pieces = program.pieces(registers, count)
    lists = [_as_lists(value, count if at is None else len(at)) for at, value in pieces]
    found = lists[0] if len(lists) == 1 else Scatter([at for at, _ in pieces]).lists(lists)
    return found.items, int(found.offsets[-1])


def _as_lists(value: Value, count: int) -> Lists:
    items = fixed(value)
    return lists_of(value, count) if items is None else interleaved(items, count)


def _each(of: Value, body: Program, registers: Sequence[Value], count: int) -> Value:
    """`[body(x) for x in of]`."""
    items = containers.items_of(of)
    if items is not None and (found := _in_all_rows(items, body, registers, count)) is not None:
        return Items("list", found)
    lists = lists_of(of, count) if items is None else interleaved(items, count)
    total = int(lists.offsets[-1])
    rows = Selection(places=lists.parents)
    pieces = body.pieces([*(select(each, rows) for each in registers), lists.items], total)
    if len(pieces) == 1 and pieces[0][0] is None:
        return Lists(pieces[0][1], lists.offsets)
    keep = np.zeros(total, bool)
    for places, _ in pieces:
        keep[places] = True
    offsets = kept(lists, keep).offsets
    if not pieces:
        return Lists(Constant(None), offsets)
    numbers = np.cumsum(keep) - 1
    merge = Scatter([numbers[places] for places, _ in pieces])
    return Lists(merge([value for _, value in pieces]), offsets)


def _in_all_rows(
    items: Sequence[Value], body: Program, registers: Sequence[Value], count: int
) -> list[Value] | None:
    """What the body makes of each item; None if it skips one in some rows, and not in others."""
    found = []
    for item in items:
        pieces = body.pieces([*registers, item], count)
        if not pieces:
            continue
        if pieces[0][0] is not None and sum(len(at) for at, _ in pieces) < count:
            return None
        found.append(_together(pieces))
    return found


Operation: TypeAlias = Callable[[Any, list[Value], int], Value]
"""A step: of its own value, of its operands, for so many rows."""


def _prepared(step: Step) -> Callable[[list[Value], int], Value]:
    """The step as a function of the values before it."""
    operation, operands, value = step.operation, step.operands, step.value
    if operation == "constant":
        constant = constant_of(value)
        return lambda _registers, _count: constant
    if operation == "each":
        body = Program(value)
        return lambda registers, count: _each(registers[operands[0]], body, registers, count)
    run = _OPERATIONS.get(operation, _unknown)
    if operation == "attribute" or run is _unknown:
        value = operation
    return lambda registers, count: run(value, [registers[at] for at in operands], count)


def _unknown(operation: Any, _operands: list[Value], _count: int) -> Value:
    raise GivesUp(f"an operation of columns: {operation}")


def _of_two(run: Callable[[Value, Value], Value]) -> Operation:
    return lambda _, operands, __: run(*operands)


def _of_rows(run: Callable[[Value, Value, int], Value]) -> Operation:
    return lambda _, operands, count: run(operands[0], operands[1], count)


_CHEAP = {
    *("constant", "item", "tuple", "list", "dict", "merge", "negative", "positive", "not", "truth"),
    *("+", "-", "*", "/", "//", "%", "&", "|", "^", "<", "<=", "==", "!=", ">", ">=", "is", "in"),
}
"""What may be run for rows that need it not: the most that a row costs is a few nanoseconds."""
_OPERATIONS: dict[str, Operation] = {
    **{
        name: _of_two(partial(arithmetic.binary, name))
        for name in ("-", "/", "//", "**", "&", "^", "<<", ">>")
    },
    **{
        name: _of_two(partial(comparison.compare, name))
        for name in ("<", "<=", "==", "!=", ">", ">=")
    },
    "+": _of_two(containers.add),
    "*": _of_rows(containers.multiply),
    "%": _of_rows(containers.remainder),
    "|": _of_two(containers.either),
    "negative": lambda _, operands, __: arithmetic.unary("negative", *operands),
    "positive": lambda _, operands, __: arithmetic.unary("positive", *operands),
    "invert": lambda _, operands, __: arithmetic.unary("invert", *operands),
    "not": lambda _, operands, __: comparison.negated(*operands),
    "truth": lambda _, operands, __: comparison.truth(*operands),
    "is": _of_two(comparison.identical),
    "in": _of_rows(comparison.contains),
    "item": _of_rows(containers.item),
    "slice": lambda _, operands, count: containers.part(operands[0], operands[1:], count),
    "tuple": lambda _, operands, __: Items("tuple", operands),
    "list": lambda _, operands, __: Items("list", operands),
    "dict": lambda _, operands, __: containers.dict_of(operands),
    "merge": _of_two(containers.merge),
    "extend": _of_two(containers.extend),
    "format": lambda how, operands, count: texts.formatted(operands[0], how, count),
    "unpack": lambda number, operands, count: containers.unpack(operands[0], number, count),
    "join_text": lambda _, operands, __: texts.join(operands),
    "call": calls.call,
    "method": calls.method,
}
