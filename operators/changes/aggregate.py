"""Aggregates of the rows of each key of a table, which take back what a row gave when it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.columns import is_columns
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.state import KeyedState
from operators.aggregates import Aggregation
from operators.changes.change import KINDS, Change, kind_numbers
from operators.changes.groups import Groups, NoRow, Unusable, unknown, unusable
from operators.changes.one_form import OneForm
from operators.key_numbers import KeyNumbers
from operators.keys import Key, key_finder, key_meaning

if TYPE_CHECKING:
    from operators.changes.aggregate_columns import ColumnGroups


@dataclass(frozen=True)
class TableAggregate(BatchOperator):
    """Computes aggregates of the rows of each key, as changes of a table; see `Table.count`."""

    key: Key
    columns: Key
    """The key of columns."""
    paired: bool
    wanted: tuple[Aggregation, ...]
    names: tuple[str, ...] | None

    @property
    def properties(self) -> Properties:
        """It takes records and columns, and the state has a value for each aggregation."""
        names = self.names or [each.kind for each in self.wanted]
        words = [f"{each.kind}({each.item!r})" for each in self.wanted]
        return Properties(
            accepts_columns=True,
            meaning={
                "kind": "table_aggregate",
                "key": key_meaning(self.columns, self.paired),
                "aggregations": dict(zip(names, words, strict=True)),
            },
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The groups of one task."""
        return _TableAggregate(self, context)


class _TableAggregate(BatchFunction):
    """The groups of one task; the first batch decides whether they are of columns."""

    def __init__(self, operator: TableAggregate, context: TaskContext) -> None:
        self._operator = operator
        self._context = context
        self._groups = Groups(operator.wanted, skips_none=False)
        self._keys = KeyNumbers()
        self._form = OneForm(operator.columns, changes=True)
        self._columns: ColumnGroups | None = None
        self._find = None if operator.paired else key_finder(operator.key)
        self._finders: list[Callable[[Any], Any] | None] = [
            None if each.kind == "count" else key_finder(each.item) for each in operator.wanted
        ]

    def process(self, batch: Any) -> Any:
        is_empty = self._columns is None and not self._groups.of_keys
        keeps_columns = None if is_empty else self._columns is not None
        batch = self._form.of(batch, keeps_columns=keeps_columns)
        if is_columns(batch):
            return self._of_columns().process(batch)
        if self._find is None:
            keys, changes = [pair[0] for pair in batch], [pair[1] for pair in batch]
        else:
            keys, changes = [self._find(change) for change in batch], batch
        kinds = kind_numbers(changes)
        values = [find and self._found(find, changes) for find in self._finders]
        numbers = self._keys.of_keys(keys)
        try:
            found = list(self._groups.take(numbers, kinds, values))
        except NoRow as error:
            change = changes[error.args[0]]
            self._context.failing.on(change)
            raise unknown(change.record) from None
        except Unusable as error:
            change = changes[error.args[0]]
            self._context.failing.on(change)
            raise unusable(self._operator.wanted, change.record, error.args[1]) from None
        names, of_numbers = self._operator.names, self._keys.of_numbers
        made = []
        for kind, number, values_of in found:
            key = of_numbers[number]
            value = values_of[0] if names is None else dict(zip(names, values_of, strict=True))
            made.append(Change(KINDS[kind], (key, value), key))
        self._keys.forget_others(len(self._groups.of_keys), lambda: self._groups.of_keys)
        return made

    def snapshot(self) -> KeyedState:
        pickle = self._context.pickle
        if self._columns is not None:
            return self._columns.snapshot(pickle)
        keys = self._keys.of_numbers
        pairs = ((keys[number], saved) for number, saved in self._groups.saved())
        return KeyedState.of(pairs, pickle=pickle)

    def restore(self, state: KeyedState) -> None:
        if state.columns:
            self._of_columns().restore(state)
            return
        for key, (rows, saved) in state.items():
            self._groups.load(self._keys.of_key(key), rows, saved)

    def _of_columns(self) -> ColumnGroups:
        operator = self._operator
        if self._columns is None:
            from operators.changes.aggregate_columns import ColumnGroups

            self._columns = ColumnGroups(operator.columns, operator.wanted, operator.names)
        return self._columns

    def _found(self, find: Callable[[Any], Any], changes: list[Change]) -> list[Any]:
        at = iter(changes)
        try:
            return [find(change.record) for change in at]
        except BaseException:
            self._context.failing.at(changes, at)
            raise
