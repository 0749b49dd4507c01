"""Joins without a bound in tests: tasks of the operator without a job, and what plain Python makes.

A row is (key, time, number). An event is a watermark, or a side with changes of rows of it that
come in one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.network import Batch, partition
from engine.state import KeyedState
from operators import Change, Stream, source
from operators.sources import Collection
from tests.joining import Encoded

Row: TypeAlias = tuple[Any, int, int]
Event: TypeAlias = int | tuple[int, list[tuple[str, Row]]]
Side: TypeAlias = Literal["stream", "table"]

SCHEMA = pa.schema([("key", pa.string()), ("at", pa.int64()), ("n", pa.int64())])
WITH_KIND = SCHEMA.append(pa.field("kind", pa.string()))


def side_of(what: Side, form: str) -> Any:
    """A keyed stream or a table of such rows.

    `form`: records, encoded records for a function that is lifted, columns, or undeclared columns.
    """
    given = source(Collection([]))
    if form in ("records", "encoded"):
        if what == "stream":
            return given.with_event_time(1).key_by(0)
        timed = given.with_event_time(lambda change: change.record[1])
        return timed.key_by(lambda change: change.record[0]).as_table()
    if form == "columns":
        given = given.to_columns(SCHEMA if what == "stream" else WITH_KIND)
    keyed = given.with_event_time("at").key_by("key")
    return keyed if what == "stream" else keyed.as_table()


class Tasks:
    """The tasks of a join, each with its share of the keys, and what they gave."""

    def __init__(
        self,
        stream: Stream[Any],
        sides: Sequence[Side],
        form: str,
        parallelism: int = 1,
        states: Iterable[KeyedState] = (),
    ) -> None:
        self.aside: dict[str, list[Any]] = {}
        self.functions: list[BatchFunction] = []
        self._sides = sides
        self._form = form
        self._has_told = [False, False]
        operator = stream.inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        states = list(states)
        for index in range(parallelism):
            outputs = {name: self._taking(name) for name in operator.properties.outputs}
            context = TaskContext("t", index, parallelism, 1000, "job", side_outputs=outputs)
            function = operator.open(context)
            if states:
                function.restore(KeyedState.share(states, index, parallelism))
            self.functions.append(function)

    def take(self, event: Event) -> list[Any]:
        """What a batch or a watermark gives: results, or changes of these."""
        found: list[Any] = []
        if isinstance(event, int):
            for function in self.functions:
                for given in function.on_watermark(event) or ():
                    found += results_of(given)
            return found
        side, changes = event
        chosen = partition([row[0] for _, row in changes], len(self.functions))
        for index, function in enumerate(self.functions):
            own = [each for each, at in zip(changes, chosen, strict=True) if at == index]
            is_first = self._form not in ("records", "encoded") and not self._has_told[side]
            if own or is_first:  # all tasks hear of the columns
                found += results_of(function.process(self._batch(side, own)))
        self._has_told[side] = True
        return found

    def end(self) -> list[Any]:
        return [
            each for task in self.functions for batch in task.on_end() for each in results_of(batch)
        ]

    @property
    def kept(self) -> int:
        return sum(function.metrics()["state_records"] for function in self.functions)

    def snapshot(self) -> list[KeyedState]:
        found = [function.snapshot() for function in self.functions]
        return [each for each in found if each is not None]

    def _batch(self, side: int, changes: list[tuple[str, Row]]) -> Any:
        if self._form != "encoded":
            return Encoded(side, self._given(side, changes))
        batch = Batch.from_list([row for _, row in changes])
        batch.input = side
        return batch

    def _given(self, side: int, changes: list[tuple[str, Row]]) -> Any:
        is_table = self._sides[side] == "table"
        if self._form == "records":
            if is_table:
                return [(row[0], Change(kind, row)) for kind, row in changes]  # type: ignore[arg-type]
            return [row for _, row in changes]
        rows = [
            dict(zip(("key", "at", "n", "kind"), (*row, kind), strict=True))
            for kind, row in changes
        ]
        return pa.RecordBatch.from_pylist(rows, WITH_KIND if is_table else SCHEMA)

    def _taking(self, name: str) -> Any:
        taken = self.aside.setdefault(name, [])

        def take(records: Any) -> None:
            if isinstance(records, list):
                taken.extend(each.record if isinstance(each, Change) else each for each in records)
            else:
                taken.extend(tuple(row.values())[:3] for row in records.to_pylist())

        return take


def results_of(given: Any) -> list[Any]:
    """Changes as (kind, result), results as they are; of columns, too."""
    if isinstance(given, Batch):
        return given.to_list()
    if isinstance(given, list):
        return [(each.kind, each.record) if isinstance(each, Change) else each for each in given]
    found: list[Any] = []
    for row in given.to_pylist():
        kind = row.pop("kind", None)
        values = tuple(row.values())
        parts = [part if part[2] is not None else None for part in (values[:3], values[3:]) if part]
        result = tuple(parts) if len(parts) == 2 else parts[0]
        found.append((kind, result) if kind else result)
    return found


def applied(there: Counter[Any], given: Iterable[Any], are_changes: bool) -> None:
    """Bring a table up to date; what goes must be there."""
    for each in given:
        kind, result = each if are_changes else ("+I", each)
        if kind in ("+I", "+U"):
            there[result] += 1
        else:
            assert there[result] > 0, f"{kind} {result} is not there"
            there[result] -= 1


class Oracle:
    """All rows, whether they are kept, and which pairs stand."""

    def __init__(self, keep: int | None) -> None:
        self.rows: tuple[list[list[Any]], list[list[Any]]] = ([], [])
        """Each is a row and whether it is kept."""
        self.pairs: list[tuple[list[Any], list[Any]]] = []
        self.late: list[Row] = []
        self.alone: tuple[list[Row], list[Row]] = ([], [])
        self._keep = keep
        self._now = float("-inf")

    def take(self, event: Event) -> None:
        if isinstance(event, int):
            self._now = max(self._now, event)
            self._expire(self._keep)
            return
        side, changes = event
        for kind, row in changes:
            self._add(side, row) if kind in ("+I", "+U") else self._remove(side, row)

    def end(self) -> None:
        self._now = float("inf")
        self._expire(0)

    def shown(self, how: str) -> Counter[Any]:
        """What stands now of the results of such a join."""
        if how in ("semi", "anti"):
            has = [any(pair[0] is each for pair in self.pairs) for each in self.rows[0]]
            rows = zip(self.rows[0], has, strict=True)
            return Counter(each[0] for each, found in rows if found == (how == "semi"))
        found: Counter[Any] = Counter((left[0], right[0]) for left, right in self.pairs)
        for side, name in enumerate(("left", "right")):
            if how in (name, "full"):
                for each in self._lone(side):
                    found[(None, each[0]) if side else (each[0], None)] += 1
        return found

    def _lone(self, side: int) -> Iterator[list[Any]]:
        return (each for each in self.rows[side] if not any(p[side] is each for p in self.pairs))

    def _add(self, side: int, row: Row) -> None:
        if self._keep is not None and row[1] + self._keep <= self._now:
            self.late.append(row)
            return
        each = [row, True]
        for other in self.rows[1 - side]:
            if other[1] and other[0][0] == row[0]:
                self.pairs.append((other, each) if side else (each, other))
        self.rows[side].append(each)

    def _remove(self, side: int, row: Row) -> None:
        kept = [each for each in self.rows[side] if each[0] == row and each[1]]
        if not kept:
            self.late.append(row)
            return
        each = kept[-1]
        self.rows[side][:] = [other for other in self.rows[side] if other is not each]
        self.pairs = [p for p in self.pairs if p[side] is not each or not p[1 - side][1]]
        # What an expired row has given stays, so a pair with one does.

    def _expire(self, keep: int | None) -> None:
        if keep is None:
            return
        for side in (0, 1):
            lone = list(self._lone(side))
            for each in self.rows[side]:
                if each[1] and each[0][1] + keep <= self._now:
                    each[1] = None  # after both sides have been looked at
                    if any(each is other for other in lone):
                        self.alone[side].append(each[0])
        for each in (*self.rows[0], *self.rows[1]):
            each[1] = bool(each[1])
