"""The last record of each key, as changes of a table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.columns import is_columns, refusal
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.state import KeyedState
from operators.changes.change import KINDS, Change
from operators.changes.last_rows import NoOrder, Rows, State, no_order
from operators.elementwise import check_function
from operators.event_time import LATE
from operators.key_numbers import KeyNumbers
from operators.keys import Item, Key, check_item, key_finder, key_meaning

if TYPE_CHECKING:
    import pyarrow as pa

Place: TypeAlias = Item | Callable[[Any], Any] | None
"""An item of a record, or a function of it."""


@dataclass(frozen=True)
class Latest(BatchOperator):
    """Keeps the last record of each key; see `KeyedStream.latest`."""

    key: Key
    by: Place
    tombstone: Place
    paired: bool

    @property
    def properties(self) -> Properties:
        """The side output of older records, and the meaning of the state."""
        return Properties(
            accepts_columns=True,
            outputs=(LATE,),
            meaning={
                "kind": "latest",
                "key": key_meaning(self.key, self.paired),
                "by": "a function" if callable(self.by) else self.by,
            },
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The rows of one task."""
        return _Latest(self, context)


def latest_of(key: Key, by: Place, tombstone: Place, *, paired: bool) -> Latest:
    """The operator for a user's arguments; raises `GraphError` for invalid ones."""
    for name, place in (("by", by), ("tombstone", tombstone)):
        if callable(place):
            check_function(f"latest(): {name}", place, 1)
        elif place is not None:
            check_item(f"latest(): {name}", place)
    return Latest(key, by, tombstone, paired)


class RecordRows(State):
    """Records."""

    def __init__(self, operator: Latest, context: TaskContext) -> None:
        self.late = []
        self._operator = operator
        self._context = context
        self._rows = Rows()
        self._keys = KeyNumbers()
        self._records: list[Any] = [None]
        self._find = key_finder(operator.key)
        self._by = _finder(operator.by)
        self._tombstone = _finder(operator.tombstone)

    def process(self, batch: list[Any]) -> list[Change]:
        """The changes that a batch makes."""
        keys, records = self._divided(batch)
        try:
            step = self._rows.take(
                self._keys.of_keys(keys), self._all(self._by, records), self._gone(records)
            )
        except NoOrder as error:
            record = records[error.args[0]]
            self._context.failing.on(record)
            raise no_order(self._operator.by, record) from None
        kept, of_numbers = self._records, self._keys.of_numbers
        kept += [None] * (1 + max(step.numbers, default=0) - len(kept))
        for number, record in zip(step.numbers, records, strict=True):
            kept[number] = record
        change = Change._make
        found = [
            change((KINDS[kind], kept[row], of_numbers[key])) for kind, row, key in step.changes
        ]
        for number in (0, *step.gone):
            kept[number] = None
        self._rows.let_go(step.gone)
        self.late += [records[place] for place in step.late]
        self._keys.forget_others(len(self._rows.of_keys), lambda: self._rows.of_keys)
        return found

    def snapshot(self) -> KeyedState:
        """Of each key its record, and what its order goes by."""
        keys, kept = self._keys.of_numbers, self._records
        pairs = (
            (keys[key], (by, kept[row]) if row else (by,))
            for key, (by, row) in self._rows.of_keys.items()
        )
        return KeyedState.of(pairs, pickle=self._context.pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on with these records."""
        for key, (by, *record) in pairs:
            number = self._rows.number() if record else 0
            self._records += record
            self._rows.of_keys[self._keys.of_key(key)] = by, number

    def _divided(self, batch: list[Any]) -> tuple[list[Any], list[Any]]:
        if self._operator.paired:
            return [key for key, _ in batch], [record for _, record in batch]
        return [self._find(record) for record in batch], batch

    def _all(self, find: Callable[[Any], Any] | None, records: list[Any]) -> list[Any] | None:
        if find is None:
            return None
        at = iter(records)
        try:
            return [find(record) for record in at]
        except BaseException:
            self._context.failing.at(records, at)
            raise

    def _gone(self, records: list[Any]) -> list[bool] | None:
        found = self._all(self._tombstone, records)
        if found is None:
            return None
        if callable(self._operator.tombstone):
            return list(map(bool, found))
        return [value is None for value in found]


class _Latest(BatchFunction):
    """The rows of one task: the first batch decides whether they are records or columns."""

    def __init__(self, operator: Latest, context: TaskContext) -> None:
        self._operator = operator
        self._context = context
        self._send_late = context.side_outputs.get(LATE)
        self._state: State = RecordRows(operator, context)
        self._has_columns = False
        self._has_records = False

    def process(self, batch: Any) -> Any:
        if is_columns(batch) != self._has_columns:
            if self._has_columns or self._has_records:
                kinds = ("columns", "records") if self._has_columns else ("records", "columns")
                raise TypeError(
                    "latest got {1}, and {0} before, expected the same\n\n"
                    "hint: call .to_records() or .to_columns() before .key_by()".format(*kinds)
                )
            self._take_columns(batch)
        self._has_records = not self._has_columns
        found = self._state.process(batch)
        late, self._state.late = self._state.late, []
        for records in late if self._has_columns else [late] if late else []:
            self.late += len(records)
            if self._send_late is not None:
                self._send_late(records)
        return found

    def snapshot(self) -> KeyedState:
        return self._state.snapshot()

    def restore(self, state: KeyedState) -> None:
        if state.columns:
            self._take_columns(None)
        self._has_records = bool(len(state.entries)) and not self._has_columns
        self._state.restore(state.items())

    def _take_columns(self, batch: "pa.RecordBatch | None") -> None:
        operator = self._operator
        if batch is not None and (operator.paired or operator.key is None):
            raise refusal("latest", batch, "name the columns of the key: .key_by({column!r})")
        if batch is not None and (callable(operator.by) or callable(operator.tombstone)):
            raise refusal("latest", batch, "name columns: .latest(by={column!r})")
        from operators.changes.latest_columns import ColumnRows

        self._state, self._has_columns = (
            ColumnRows(operator.key, operator.by, operator.tombstone),
            True,
        )


def _finder(place: Place) -> Callable[[Any], Any] | None:
    return place if place is None or callable(place) else key_finder(place)
