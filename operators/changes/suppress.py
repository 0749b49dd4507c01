"""Changes of a table that are held back for a while, so that fewer of them go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from engine.columns import is_columns, slices
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.state import KeyedState, encode_value
from operators.changes.change import KINDS, Change, kind_numbers
from operators.changes.held import Held
from operators.changes.one_form import OneForm
from operators.keys import Key, found_again, key_finder, key_meaning

if TYPE_CHECKING:
    from operators.changes.suppress_columns import HeldColumns


@dataclass(frozen=True)
class Suppress(BatchOperator):
    """Holds changes back; see `Table.suppress`."""

    key: Key
    columns: Key
    paired: bool
    until_ns: int | None
    """How long after the first change of a key that is held; None is for ever."""
    most_keys: int | None
    most_bytes: int | None

    @property
    def properties(self) -> Properties:
        """It takes records and columns; limits may change between two runs."""
        meaning = {"kind": "suppress", "key": key_meaning(self.columns, self.paired)}
        return Properties(accepts_columns=True, meaning=meaning)

    def open(self, context: TaskContext) -> BatchFunction:
        """What one task holds."""
        return _Suppress(self, context)


class HeldRecords:
    """Changes that are records."""

    def __init__(self, operator: Suppress, context: TaskContext) -> None:
        self.held = Held()
        self._paired = operator.paired
        self._find = key_finder(operator.key)
        self._pickle = context.pickle

    def add(self, batch: list[Any], now_ns: int) -> None:
        """Hold these changes."""
        keys = [pair[0] if self._paired else self._find(pair) for pair in batch]
        changes = [pair[1] for pair in batch] if self._paired else batch
        for key, kind, change in zip(keys, kind_numbers(changes), changes, strict=True):
            self._hold(key, kind, change.record, now_ns)

    def made(self, changes: Iterator[tuple[Any, int, Any]], most: int) -> Iterator[Any]:
        """The changes in batches, in the form in which they came."""
        while some := list(islice(changes, most)):
            made = [Change(KINDS[kind], record, key) for key, kind, record in some]
            yield [(each.key, each) for each in made] if self._paired else made

    def snapshot(self) -> KeyedState:
        """Of each key what is held."""
        return KeyedState.of(self.held.saved(), pickle=self._pickle)

    def restore(self, state: KeyedState, now_ns: int) -> None:
        """Hold what others held."""
        for key, changes in state.items():
            for kind, record in changes:
                self._hold(key, kind, record, now_ns)

    def _hold(self, key: Any, kind: int, record: Any, now_ns: int) -> None:
        encoded = encode_value(record, self._pickle)
        key, _ = found_again(key, self.held.of_keys)
        self.held.add(key, kind, encoded, record, len(encoded), now_ns)
        self.held.gone.clear()


class _Suppress(BatchFunction):
    """What one task holds; the first batch decides whether it is columns."""

    def __init__(self, operator: Suppress, context: TaskContext) -> None:
        self._operator = operator
        self._context = context
        self._state: HeldRecords | HeldColumns = HeldRecords(operator, context)
        self._has_columns = False
        self._form = OneForm(operator.columns, changes=True)

    def process(self, batch: Any) -> Any:
        is_empty = not (self._has_columns or self._state.held.of_keys)
        batch = self._form.of(batch, keeps_columns=None if is_empty else self._has_columns)
        if is_columns(batch) and not self._has_columns:
            self._take_columns()
        self._state.add(batch, self._context.now_ns())
        operator, held = self._operator, self._state.held
        if operator.until_ns is None:
            held.settle()
        given = self._given(held.over(operator.most_keys, operator.most_bytes))
        self._plan()
        if self._has_columns:
            from engine.columns import joined

            found = list(given)
            return joined(found) if found else []
        return [each for part in given for each in part]

    def on_timer(self, now_ns: int) -> Iterator[Any]:
        """Give what has been held long enough."""
        if self._operator.until_ns is not None:
            yield from self._given(self._state.held.due(now_ns - self._operator.until_ns))
        self._plan()

    def on_end(self) -> Iterator[Any]:
        """Give all that is held."""
        return self._given(self._state.held.due(None))

    def snapshot(self) -> KeyedState:
        return self._state.snapshot()

    def restore(self, state: KeyedState) -> None:
        if state.columns:
            self._take_columns()
        self._state.restore(state, self._context.now_ns())
        self._plan()

    def _given(self, changes: Iterable[tuple[Any, int, Any]]) -> Iterator[Any]:
        most = self._context.batch_size
        for batch in self._state.made(iter(changes), most):
            yield from slices(batch, most) if self._has_columns else [batch]

    def _take_columns(self) -> None:
        from operators.changes.suppress_columns import HeldColumns

        self._state, self._has_columns = HeldColumns(self._operator.columns), True

    def _plan(self) -> None:
        since = self._state.held.since
        if self._operator.until_ns is not None:
            self.next_timer = None if since is None else since + self._operator.until_ns
