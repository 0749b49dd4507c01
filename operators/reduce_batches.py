"""`reduce_batches`: a function of rows combines those of each key, for many keys at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.columns import as_columns, is_columns, joined, with_wide_codes
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.state import KeyedState
from operators.aggregates import Emit, emit_meaning
from operators.elementwise import check_function
from operators.keys import Item, key_meaning

if TYPE_CHECKING:
    import pyarrow as pa

KeyColumns: TypeAlias = Callable[["pa.RecordBatch"], "list[pa.Array]"]
"""The columns of the key, whose values are equal exactly if keys are."""


@dataclass(frozen=True)
class ReduceBatches(BatchOperator):
    """Combines the rows of each key; see `KeyedStream.reduce_batches`."""

    function: Callable[[Any], Any]
    key: Item | tuple[Item, ...]
    emit: Emit = "updates"

    @property
    def properties(self) -> Properties:
        """It takes columns, and keeps rows by key."""
        key = key_meaning(self.key, paired=False)
        meaning = {"kind": "reduce_batches", "key": key, **emit_meaning(self.emit)}
        return Properties(accepts_columns=True, meaning=meaning)

    def __post_init__(self) -> None:
        check_function("reduce_batches", self.function, 1)

    def open(self, context: TaskContext) -> BatchFunction:
        """The function, and its remaining rows so far."""
        return (_Updates if self.emit == "updates" else _Final)(self, context)

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of the key, whose values are equal exactly if keys are."""
        if not is_columns(batch):
            raise TypeError(
                f"reduce_batches got {type(batch[0]).__name__}, expected columns\n\n"
                "hint: .to_columns() before .key_by(...), or .reduce(f) with a function of two "
                "records"
            )
        from operators.columns.numbers import key_columns, plain_keys

        return plain_keys(self.key, key_columns(self.key, batch))

    def reduced(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the function returns for these, in the same columns."""
        found = as_columns(left := self.function(rows))
        if found is None:
            raise TypeError(
                f"the function of reduce_batches returned {type(left).__name__} {left!r:.80}, "
                "expected a pyarrow.RecordBatch"
            )
        if not found.schema.equals(rows.schema):
            got, expected = (
                ", ".join(f"{field.name} {field.type}" for field in schema)
                for schema in (found.schema, rows.schema)
            )
            raise TypeError(
                f"the function of reduce_batches returned columns {got}, expected {expected}\n\n"
                "hint: what it returned it is given again; columns may change in .map_batches(f), "
                "before .key_by() or behind"
            )
        return found


class _Updates(BatchFunction):
    """Gives the remaining rows of each batch's keys."""

    def __init__(self, operator: ReduceBatches, context: TaskContext) -> None:
        from operators.columns.keyed_rows import KeyedRows
        from operators.columns.numbers import ColumnKeyNumbers

        self._operator = operator
        self._context = context
        self._numbers = ColumnKeyNumbers()
        self._kept = KeyedRows()

    def process(self, batch: Any) -> Any:
        import numpy as np

        if not len(batch):
            return []
        keys = self._numbers.of(self._operator.key_columns(batch))
        batch = with_wide_codes(batch)
        before = self._kept.take(np.unique(keys))
        found = self._operator.reduced(joined([*(rows.batch for rows in before), batch]))
        self._keep(found)
        numbers = (number for rows in self._kept.keys for number in rows.tolist())
        self._numbers.forget_others(len(self._kept), lambda: numbers)
        return found

    def snapshot(self) -> KeyedState:
        rows = [rows.batch for rows in self._kept.all]
        return state_of_rows(rows, self._operator.key_columns, pickle=self._context.pickle)

    def restore(self, state: KeyedState) -> None:
        for rows in rows_of_state(state):
            self._keep(rows)

    def _keep(self, batch: pa.RecordBatch) -> None:
        from operators.columns.keyed_rows import Rows

        self._kept.add(Rows(batch, self._numbers.of(self._operator.key_columns(batch))))


class _Final(BatchFunction):
    """Gives each key's remaining rows at the end.

    It calls the function when there are as many new rows as it returned the last time.
    """

    def __init__(self, operator: ReduceBatches, context: TaskContext) -> None:
        self._operator = operator
        self._context = context
        self._left: list[pa.RecordBatch] = []
        """The function's last result, as one batch."""
        self._new: list[pa.RecordBatch] = []
        """The rows that came since; batches of similar size are merged."""

    def process(self, batch: Any) -> list[Any]:
        if not len(batch):
            return []
        self._operator.key_columns(batch)
        new = self._new
        new.append(with_wide_codes(batch))
        while len(new) > 1 and len(new[-2]) <= 2 * len(new[-1]):
            new[-2:] = [joined(new[-2:])]
        if sum(map(len, new)) >= max(_MANY, sum(map(len, self._left))):
            self._reduce()
        return []

    def on_end(self) -> Iterator[pa.RecordBatch]:
        self._reduce()
        for left in filter(len, self._left):
            yield from self._by_key(left)

    def snapshot(self) -> KeyedState:
        self._reduce()
        pickle = self._context.pickle
        return state_of_rows(self._left, self._operator.key_columns, pickle=pickle)

    def restore(self, state: KeyedState) -> None:
        self._left = rows_of_state(state)

    def _reduce(self) -> None:
        if self._new:
            found = self._operator.reduced(joined([*self._left, *self._new]))
            self._left, self._new = [found], []

    def _by_key(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows in batches, each with all rows of its keys."""
        from operators.columns.numbers import groups
        from operators.columns.rows import in_order, runs

        rows, keys = in_order(rows, groups(self._operator.key_columns(rows)))
        first = behind = 0
        for start, end in runs(keys):
            if first < start and end - first > self._context.batch_size:
                yield rows.slice(first, start - first)
                first = start
            behind = end
        yield rows.slice(first, behind - first)


def state_of_rows(
    batches: list[pa.RecordBatch], key_columns: KeyColumns, *, pickle: bool
) -> KeyedState:
    """The rows of each key, which the writing thread encodes, since no batch ever changes."""
    if not sum(map(len, batches)):
        return KeyedState.of([])
    return KeyedState.later(partial(_pairs, batches, key_columns), pickle=pickle)


def _pairs(batches: list[pa.RecordBatch], key_columns: KeyColumns) -> Iterator[tuple[Any, bytes]]:
    """Each key with its rows, encoded."""
    import numpy as np

    from operators.columns.numbers import ColumnKeyNumbers
    from operators.columns.rows import encoded_runs

    batch, numbers = joined(batches), ColumnKeyNumbers()
    keys = numbers.of(key_columns(batch))
    order = np.argsort(keys, kind="stable")
    for number, _, _, rows in encoded_runs(batch, order, keys[order]):
        yield numbers.of_numbers.get(number, number), rows


def rows_of_state(state: KeyedState) -> list[pa.RecordBatch]:
    """All rows in one batch, if there are any."""
    from operators.columns.rows import decoded

    values = [value for _, value in state.items()]
    return [decoded(values)] if values else []


_MANY = 1 << 16
"""The least number of new rows for a call of the function."""
