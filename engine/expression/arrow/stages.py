"""Stages of expressions, from a batch of columns to the records behind the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from engine.expression.arrow.blocks import Program, flattened
from engine.expression.arrow.comparison import number_of, truth
from engine.expression.arrow.objects import records_of
from engine.expression.arrow.reading import Reader
from engine.expression.arrow.values import (
    Column,
    Constant,
    GivesUp,
    Items,
    Selection,
    Value,
    select,
)
from engine.expression.tree import Expression

FAULT = "a fault of Oka: "
"""How the reason begins where nothing is wrong with the batch."""


class Stages:
    """Expressions one behind the other, each with its form."""

    def __init__(self, stages: Sequence[tuple[str, Expression]]) -> None:
        self._stages = [(form, Program(expression.body)) for form, expression in stages]
        self._keeps_rows = all(form == "filter" for form, _ in stages)
        self._reader: Reader | None = None

    def run(self, batch: pa.RecordBatch) -> tuple[Any, list[int]] | str:
        """The records and how many came out of each stage; or why it gives up."""
        try:
            if self._reader is None or not self._reader.schema.equals(batch.schema):
                self._reader = Reader(batch.schema)
            return self._run(self._reader.rows(batch), batch)
        except (GivesUp, pa.ArrowException) as error:
            return str(error).partition("\n")[0]
        except Exception as error:  # noqa: BLE001  # the functions themselves still know the result
            return f"{FAULT}{type(error).__name__}: {error}"

    def _run(self, value: Value, batch: pa.RecordBatch) -> tuple[Any, list[int]]:
        count, counts = batch.num_rows, [0] * len(self._stages)
        for at, (form, program) in enumerate(self._stages):
            if not count:
                break
            value, count = _after(form, program, value, count)
            counts[at] = count
        if not count:
            return batch.slice(0, 0) if self._keeps_rows else [], counts
        return records_of(value, count), counts


def _after(form: str, program: Program, value: Value, count: int) -> tuple[Value, int]:
    """The records behind a stage, and how many there are."""
    if form == "flat_map":
        return flattened(program, [value], count)
    found = program.value([value], count, truth if form == "filter" else None)
    if form == "map":
        return found, count
    if form == "key":
        return Items("tuple", [found, value]), count
    assert isinstance(found, Constant | Column)
    left = number_of(found, count)
    if isinstance(found, Constant) or left == count:
        return value, left
    return select(value, Selection(mask=found.plain)), left
