"""Expressions of single steps, and what tells the results of Python and of a program apart."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from engine.columns import is_columns, rows
from engine.expression.arrow.stages import FAULT
from engine.expression.columns import ColumnProgram, GaveUp
from engine.expression.tree import Block, Branch, Expression, Return, Skip, Step


class Lines:
    """Steps of a function of a record, line by line; each method gives a register.

    >>> of = Lines()
    >>> of.ends(of.step("+", of.field("x"), of.constant(1)))
    """

    def __init__(self, first: int = 1) -> None:
        self.steps: list[Step] = []
        self._first = first

    def step(self, operation: str, *operands: int, value: Any = None) -> int:
        self.steps.append(Step(operation, operands, value))
        return self._first + len(self.steps) - 1

    def constant(self, value: Any) -> int:
        return self.step("constant", value=value)

    def field(self, name: str) -> int:
        return self.step("item", 0, self.constant(name))

    def inside(self) -> "Lines":
        """Of a branch behind these steps."""
        return Lines(self._first + len(self.steps))

    def dict(self, **registers: int) -> int:
        operands = [one for name, at in registers.items() for one in (self.constant(name), at)]
        return self.step("dict", *operands)

    def ends(self, register: int) -> Block:
        return Block(tuple(self.steps), Return(register))

    def skips(self) -> Block:
        return Block(tuple(self.steps), Skip())

    def forks(self, condition: int, then: Block, otherwise: Block) -> Block:
        return Block(tuple(self.steps), Branch(condition, then, otherwise))


def typed(value: Any) -> Any:
    """What tells objects apart that are equal, and NaN like itself."""
    if type(value) in (list, tuple):
        return type(value), [typed(each) for each in value]
    if type(value) is dict:
        return dict, [(key, typed(each)) for key, each in value.items()]
    return type(value), repr(value)


Stage = tuple[str, Callable[[Any], Any], Any]
"""A form, a function, and its `Block` or `Expression`."""


def by_python(stages: list[Stage], records: list[Any]) -> tuple[list[Any], list[int]]:
    """What the functions give, and how many records came out of each stage."""
    counts = []
    for form, function, _ in stages:
        if form == "map":
            records = [function(record) for record in records]
        elif form == "filter":
            records = [record for record in records if function(record)]
        elif form == "flat_map":
            records = [one for record in records for one in function(record)]
        else:
            records = [(function(record), record) for record in records]
        counts.append(len(records))
    return records, counts


def _tried(stages: list[Stage], batch: pa.RecordBatch) -> tuple[Any, list[int]]:
    try:
        return by_python(stages, list(rows(batch)))
    except Exception as error:  # noqa: BLE001
        return error, []


def compared(stages: list[Stage], batch: pa.RecordBatch) -> str:
    """Runs both ways, of which the results have to be the same.

    "raises", if Python does; "gives up", if the program does; "columns" or "list".
    """
    bodies = [
        (form, Expression(1, body) if isinstance(body, Block) else body) for form, _, body in stages
    ]
    program = ColumnProgram(bodies)  # type: ignore[arg-type]
    found = program.run(batch)
    expected, counts = _tried(stages, batch)
    if isinstance(found, GaveUp):
        assert not found.reason.startswith(FAULT), found.reason
        return "gives up" if counts else "raises"
    assert counts, f"{found!r}, and Python raises {expected!r}"
    assert program.counts == counts
    columns = is_columns(found)
    if columns:
        found.validate(full=True)
        found = rows(found)
    assert typed(found) == typed(expected)
    return "columns" if columns else "list"
