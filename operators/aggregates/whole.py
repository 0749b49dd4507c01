"""Aggregations of all records of a stream, without a key, in two stages.

Each task computes what the records of its batches come to, and one task merges these parts. A part
is what an aggregate keeps, as in a checkpoint. With `on_error`, all records go to the
one task instead: a record may fail because of those of other tasks, and parts do not have it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.columns import is_columns
from engine.graph.batch_operator import BatchFunction, BatchOperator, PureFunction
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.network import Aggregate, Batch
from engine.state import KeyedState
from operators.aggregates.fold import Fold
from operators.aggregates.native import (
    Emit,
    FinalAggregate,
    NativeAggregate,
    UpdatingAggregate,
    emit_meaning,
)
from operators.keys import NONE


@dataclass(frozen=True)
class Parts(BatchOperator):
    """Gives, of each batch, what its records come to; it keeps nothing."""

    of_all: NativeAggregate

    @property
    def properties(self) -> Properties:
        """It takes columns if the aggregations do."""
        return Properties(accepts_columns=self.of_all.takes_columns)

    def open(self, context: TaskContext) -> BatchFunction:
        """A function around a native aggregate of one batch."""
        aggregate, pickle = Aggregate(*self.of_all.arguments), context.pickle
        schema = None  # of the columns that the aggregate has seen last

        def part(batch: Any) -> list[Any]:
            nonlocal schema
            columns = is_columns(batch)
            is_known = not columns or batch.schema == schema
            if not (is_known and aggregate.count(len(batch))):
                encode = Batch.from_columns if columns else partial(Batch.from_list, pickle=pickle)
                aggregate.add(encode(batch))
                schema = batch.schema if columns else None
            found = aggregate.part()
            aggregate.clear()
            return [found] if found else []

        return PureFunction(part)


@dataclass(frozen=True)
class Whole(BatchOperator):
    """Merges such parts, in one task; it emits values, with each batch or once at the end."""

    of_all: NativeAggregate

    @property
    def properties(self) -> Properties:
        """It may give columns, and merges updates if it emits them."""
        return replace(self.of_all.properties, accepts_encoded=False)

    def open(self, context: TaskContext) -> BatchFunction:
        """The native function."""
        of_all = self.of_all
        function = _Whole if of_all.emit == "updates" else _FinalWhole
        aggregate = Aggregate(*of_all.arguments, copies_keys=context.checkpoints)
        return function(aggregate, context.batch_size, of_all.meaning)


class _Whole(UpdatingAggregate):
    """Takes parts, and gives the new value."""

    def process(self, batch: list[Any]) -> Any:
        self._merge(batch)
        return self._aggregate.take()

    def _merge(self, batch: list[Any]) -> None:
        for layout, value in batch:
            self._aggregate.merge(layout, value)


class _FinalWhole(_Whole, FinalAggregate):
    """Takes parts, and gives the value once at the end."""

    def process(self, batch: list[Any]) -> list[Any]:
        self._merge(batch)
        return []


@dataclass(frozen=True)
class FoldedParts(BatchOperator):
    """Gives, of each batch, what its records come to by accumulators written in Python."""

    fold: Fold

    @property
    def properties(self) -> Properties:
        """It takes records."""
        return Properties()

    def open(self, context: TaskContext) -> BatchFunction:
        """The loop over a batch."""
        create, add = self.fold.create, self.fold.add
        failing = context.failing
        assert create is not None
        assert add is not None

        def part(batch: list[Any]) -> list[Any]:
            value = record = NONE
            try:
                for record in batch:
                    value = create(record) if value is NONE else add(value, record)
            except BaseException:
                failing.on(record)
                raise
            return [] if value is NONE else [value]

        return PureFunction(part)


@dataclass(frozen=True)
class FoldedWhole(BatchOperator):
    """Merges such parts, in one task, and gives the result with each batch or once at the end."""

    fold: Fold
    emit: Emit = "updates"

    @property
    def properties(self) -> Properties:
        """It merges updates if it emits them."""
        meaning = {
            "kind": "aggregate",
            "key": [],
            "value": self.fold.meaning,
            **emit_meaning(self.emit),
        }
        return Properties(alone=True, compacts=self.emit == "updates", meaning=meaning)

    def open(self, context: TaskContext) -> BatchFunction:
        """Without parts."""
        return (_FoldedWhole if self.emit == "updates" else _FinalFolded)(self.fold, context)


class _FoldedWhole(BatchFunction):
    """Takes parts, and gives the new value."""

    def __init__(self, fold: Fold, context: TaskContext) -> None:
        self._fold = fold
        self._context = context
        self._value: Any = NONE

    def process(self, batch: list[Any]) -> list[Any]:
        self._merge(batch)
        return self._result()

    def snapshot(self) -> KeyedState:
        kept = [] if self._value is NONE else [((), self._value)]
        return KeyedState.of(kept, pickle=self._context.pickle)

    def restore(self, state: KeyedState) -> None:
        order = state.order_of(self._fold.meaning)
        for _, value in state.items():
            self._value = value if order is None else [value[at] for at in order]

    def _merge(self, batch: list[Any]) -> None:
        parts = batch if self._value is NONE else [self._value, *batch]
        self._value = self._fold.merge(parts)

    def _result(self) -> list[Any]:
        assert self._fold.value is not None
        return [] if self._value is NONE else [self._fold.value((), self._value, None, None)]


class _FinalFolded(_FoldedWhole):
    """Takes parts, and gives the value once at the end."""

    def process(self, batch: list[Any]) -> list[Any]:
        self._merge(batch)
        return []

    def on_end(self) -> Iterator[list[Any]]:
        if result := self._result():
            yield result
