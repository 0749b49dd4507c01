"""The last record of each key, as changes of a table."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias

from engine.columns import is_columns
from engine.errors import GraphError
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.declaration import Input
from engine.graph.operator import Properties
from engine.graph.watermark import START_OF_TIME
from engine.state import KeyedState
from operators.changes.change import KINDS, Change
from operators.changes.last_rows import NoOrder, Rows, State, Step, no_order
from operators.changes.one_form import OneForm
from operators.durations import check_duration, microseconds
from operators.elementwise import check_function
from operators.event_time import LATE, Time, TimeSelector, Unit, time_of, with_units_checked
from operators.key_numbers import KeyNumbers
from operators.keys import Item, Key, check_item, key_finder, key_meaning

Place: TypeAlias = Item | Callable[[Any], Any] | None
"""An item of a record, or a function of it."""


@dataclass(frozen=True)
class Latest(BatchOperator):
    """Keeps the last record of each key; see `KeyedStream.latest`."""

    key: Key
    by: Place
    tombstone: Place
    paired: bool
    time: TimeSelector | None = None
    """Where rows expire, that of a record without its key."""
    keep_us: int | None = None
    """For how long the row of a key is kept, in event time; None is for ever."""

    @property
    def properties(self) -> Properties:
        """It takes columns, unless functions get a record; older records go to a side output."""
        expires: dict[str, Any] = {}
        if self.time is not None and self.keep_us is not None:
            keep = timedelta(microseconds=self.keep_us)
            expires = {**self.time.meaning, "expire_after": str(keep)}
        by_column = not (callable(self.by) or callable(self.tombstone)) and (
            self.time is None or self.time.takes_columns
        )
        return Properties(
            accepts_columns=by_column and not self.paired and self.key is not None,
            outputs=(LATE,),
            meaning={
                "kind": "latest",
                "key": key_meaning(self.key, self.paired),
                "by": "a function" if callable(self.by) else self.by,
                **expires,
            },
        )

    def open(self, context: TaskContext) -> BatchFunction:
        """The rows of one task."""
        return with_units_checked(_Latest(self, context), [self.time], context)


def latest_of(
    inputs: tuple[Input, ...],
    key: Key,
    paired: bool,
    places: tuple[Place, Place],
    expire_after: timedelta | None,
    time: tuple[Time, Unit],
) -> Latest:
    """The operator for a user's arguments; raises `GraphError` for invalid ones.

    The places are those of `by` and `tombstone`.
    """
    by, tombstone = places
    for name, place in (("by", by), ("tombstone", tombstone)):
        if callable(place):
            check_function(f"latest(): {name}", place, 1)
        elif place is not None:
            check_item(f"latest(): {name}", place)
    if expire_after is None:
        if time[0] is not None:
            raise GraphError(
                "latest() got a time and no expire_after, expected both or neither",
                hint="rows are kept for ever without expire_after=timedelta(...)",
            )
        return Latest(key, by, tombstone, paired)
    check_duration("latest(): expire_after", expire_after)
    selector = replace(time_of(inputs, "latest", *time), paired=False)
    return Latest(key, by, tombstone, paired, selector, microseconds(expire_after))


class RecordRows(State):
    """Records."""

    def __init__(self, operator: Latest, context: TaskContext) -> None:
        self.late = []
        self._operator = operator
        self._context = context
        self._rows = Rows(operator.keep_us)
        self._keys = KeyNumbers()
        self._records: list[Any] = [None]
        self._find = key_finder(operator.key)
        self._by = _finder(operator.by)
        self._tombstone = _finder(operator.tombstone)

    def process(self, batch: list[Any]) -> list[Change]:
        """The changes that a batch makes."""
        keys, records = self._divided(batch)
        time, times = self._operator.time, None
        if time is not None:
            times = time.all_microseconds(records, self._context.failing)
        bys, gone = self._all(self._by, records), self._gone(records)
        try:
            step = self._rows.take(self._keys.of_keys(keys), bys, gone, times)
        except NoOrder as error:
            record = records[error.args[0]]
            self._context.failing.on(record)
            raise no_order(self._operator.by, record) from None
        kept = self._records
        kept += [None] * (1 + max(step.numbers, default=0) - len(kept))
        for number, record in zip(step.numbers, records, strict=True):
            kept[number] = record
        self.late += [records[place] for place in step.late]
        return self._changes(step)

    def advance(self, watermark_us: int) -> list[Change]:
        """The changes of the rows that expire now."""
        return self._changes(self._rows.advance(watermark_us))

    def snapshot(self) -> KeyedState:
        """Of each key its record behind what its order goes by, and its time if it expires."""
        keys, kept, times = self._keys.of_numbers, self._records, self._rows.times
        pairs = (
            (keys[key], (by, *([times[key]] if times else ()), *([kept[row]] if row else ())))
            for key, (by, row) in self._rows.of_keys.items()
        )
        return KeyedState.of(pairs, pickle=self._context.pickle)

    def restore(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Go on with these records."""
        expires = self._operator.keep_us is not None
        for key, (by, *rest) in pairs:
            time_us, record = (rest[0], rest[1:]) if expires else (0, rest)
            key_number, number = self._keys.of_key(key), self._rows.number() if record else 0
            self._records += record
            self._rows.of_keys[key_number] = by, number
            if expires:
                self._rows.expire(key_number, time_us)

    def _changes(self, step: Step) -> list[Change]:
        kept, of_numbers, change = self._records, self._keys.of_numbers, Change._make
        found = [
            change((KINDS[kind], kept[row], of_numbers[key])) for kind, row, key in step.changes
        ]
        for number in (0, *step.gone):
            kept[number] = None
        self._rows.let_go(step.gone)
        self._keys.forget_others(len(self._rows.of_keys), lambda: self._rows.of_keys)
        return found

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
        self._form = OneForm(operator.key)
        self._state: State = RecordRows(operator, context)
        self._keeps_columns: bool | None = None
        self._watermark_us = START_OF_TIME

    def process(self, batch: Any) -> Any:
        batch = self._form.of(batch, keeps_columns=self._keeps_columns)
        if self._keeps_columns is None:
            self._keep(columns=is_columns(batch))
        found = self._state.process(batch)
        late, self._state.late = self._state.late, []
        self.late = self._state.passed  # rows behind newer ones are as many as there are versions
        if self._send_late is not None:
            for records in late if self._keeps_columns else [late] if late else []:
                self._send_late(records)
        return found

    def on_watermark(self, watermark_us: int) -> Iterator[Any]:
        self._watermark_us = watermark_us
        if self._operator.keep_us is None:
            return
        found, most = self._state.advance(watermark_us), self._context.batch_size
        for at in range(0, len(found), most):
            yield found[at : at + most]

    def snapshot(self) -> KeyedState:
        return self._state.snapshot()

    def restore(self, state: KeyedState) -> None:
        if state.columns or len(state.entries):
            self._keep(columns=bool(state.columns))
        self._state.restore(state.items())

    def _keep(self, *, columns: bool) -> None:
        self._keeps_columns, operator = columns, self._operator
        if not columns:
            return
        from operators.changes.latest_columns import ColumnRows

        places = operator.key, operator.by, operator.tombstone
        self._state = ColumnRows(*places, operator.time, operator.keep_us)
        if operator.keep_us is not None:
            self._state.advance(self._watermark_us)


def _finder(place: Place) -> Callable[[Any], Any] | None:
    return place if place is None or callable(place) else key_finder(place)
