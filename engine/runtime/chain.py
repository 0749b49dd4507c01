"""The operators of one task as a list of batch functions.

A per-record operator becomes one comprehension over the batch, so that nothing of ours stands
around the user's function. `failure.describe` finds the record that a function failed on through
the names `batch` and `records` (its iterator) here, or `record` in a loop elsewhere: at no cost
while nothing fails, and also where Python inlines comprehensions and forgets their variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.graph.logical import LogicalOperator
from engine.graph.operator import (
    BatchOperator,
    RecordOperator,
    SinkOperator,
    SinkWriter,
    TaskContext,
)
from engine.network import Batch

Batches = Callable[[Any], Any]


class Stage:
    """One operator of a chain: its batch function and its counters."""

    __slots__ = ("accepts_encoded", "compacts", "name", "records_in", "records_out", "run")

    def __init__(
        self, name: str, run: Batches, *, accepts_encoded: bool = False, compacts: bool = False
    ) -> None:
        self.name = name
        self.run = run
        self.accepts_encoded = accepts_encoded
        self.compacts = compacts
        self.records_in = 0
        self.records_out = 0


class Chain:
    """The opened operators of a task, in order; `process` takes a batch through all of them.

    A native aggregation merges the updates of one batch: it counts as having emitted one update
    per record, because each record's effect is in what it emitted. `current` names the operator at
    work, for error messages.
    """

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.current = ""
        self._writers: dict[str, SinkWriter] = {}

    def open(self, operators: Sequence[LogicalOperator], context: TaskContext) -> None:
        """Open the operators, in order; called once, in the task's process."""
        for operator in operators:
            self.current = operator.name
            self.stages.append(self._open(operator, context))

    def process(self, batch: Any, records: int) -> Any:
        """Run `batch` of `records` records through the operators; what the last one returned."""
        for stage in self.stages:
            self.current = stage.name
            if type(batch) is Batch and not stage.accepts_encoded:
                batch = batch.to_list()
            stage.records_in += records
            batch = stage.run(batch)
            if not stage.compacts:
                records = len(batch)
            stage.records_out += records
        return batch

    def close(self) -> dict[str, Any]:
        """Close the sinks, which makes their output final; their results by operator name."""
        results = {}
        for name, writer in self._writers.items():
            self.current = name
            results[name] = writer.close()
        return results

    def abort(self) -> None:
        """Drop what the sinks hold; called instead of `close` when the job failed."""
        for writer in self._writers.values():
            writer.abort()

    def _open(self, operator: LogicalOperator, context: TaskContext) -> Stage:
        kind = operator.operator
        if isinstance(kind, RecordOperator):
            return Stage(operator.name, _FORMS[kind.form](kind.function))
        if isinstance(kind, BatchOperator):
            return Stage(
                operator.name,
                kind.open(context),
                accepts_encoded=kind.accepts_encoded,
                compacts=kind.compacts,
            )
        assert isinstance(kind, SinkOperator), f"unknown kind of operator {kind!r}"
        writer = self._writers[operator.name] = kind.open(context)
        return Stage(operator.name, _sink(writer.write), compacts=True)


def _map(function: Callable[[Any], Any]) -> Batches:
    def run(batch: list[Any]) -> list[Any]:
        records = iter(batch)
        return [function(record) for record in records]

    return run


def _filter(function: Callable[[Any], Any]) -> Batches:
    def run(batch: list[Any]) -> list[Any]:
        records = iter(batch)
        return [record for record in records if function(record)]

    return run


def _flat_map(function: Callable[[Any], Any]) -> Batches:
    def run(batch: list[Any]) -> list[Any]:
        out: list[Any] = []
        extend = out.extend
        for record in batch:
            extend(function(record))
        return out

    return run


def _sink(write: Callable[[list[Any]], None]) -> Batches:
    def run(batch: list[Any]) -> list[Any]:
        write(batch)
        return batch

    return run


_FORMS = {"map": _map, "filter": _filter, "flat_map": _flat_map}
