"""Stages of expressions over a `pyarrow.RecordBatch`, whose records are dicts of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from engine.columns import import_pyarrow
from engine.expression.tree import Expression

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.expression.arrow.stages import Stages

Form: TypeAlias = Literal["map", "filter", "flat_map", "key"]


@dataclass(frozen=True)
class GaveUp:
    """The batch is one for the functions themselves; `reason` says what is in it."""

    reason: str


class ColumnProgram:
    """Functions of records, one behind the other, over columns: each for all rows at once.

    A stage is its form and the expression of its function, of one argument; "key" makes pairs of
    what the function returns and the record. The result is what the functions give for
    `engine.columns.rows` of the batch, as columns or as a list:

    - behind "filter" alone it is the batch, or rows of it in the types that they had;
    - where the last records are dicts whose keys are the same texts in all rows, with values that
      columns hold (numbers, texts, bytes, times, lists of one class, such dicts, None), it is a
      batch of these columns. `rows` of it are those records. What is computed has 64 bits; what is
      passed on keeps its type;
    - records of other kinds (numbers, tuples, dicts with a tuple in them) are a list, and so are no
      records, unless all stages are filters.

    Columns have to be valid, as `pyarrow.RecordBatch.validate(full=True)` says.
    """

    def __init__(self, stages: Sequence[tuple[Form, Expression]]) -> None:
        self._given = stages
        self._stages: Stages | None = None
        self.counts = [0] * len(stages)
        """The records out of each stage in the last run."""

    def run(self, batch: pa.RecordBatch) -> Any:
        """A `pyarrow.RecordBatch`, a list of records, or `GaveUp`: then nothing has happened."""
        if self._stages is None:
            import_pyarrow("a function over columns")
            from engine.expression.arrow.stages import Stages

            self._stages = Stages(self._given)
        found = self._stages.run(batch)
        if isinstance(found, str):
            return GaveUp(found)
        records, self.counts = found
        return records
