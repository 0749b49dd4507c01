"""The operators of one task as a list of batch functions.

A per-record operator becomes one comprehension over the batch, so that nothing of ours stands
around the user's function; per batch there is one call for each operator. `failure.describe` finds
what failed at no cost while nothing does: the operator through `Chain.failed`, the record through
`batch` and `records` (its iterator) here, or `record` in a loop elsewhere. That works also where
Python inlines comprehensions and forgets their variable.

A batch is a list of records or a `pyarrow.RecordBatch`. Where the one could come to an operator
that takes the other, a check stands between them: nothing is checked per record, nor twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from engine import console
from engine.columns import is_columns, refusal
from engine.graph.logical import LogicalOperator
from engine.graph.operator import (
    BatchOperator,
    RecordOperator,
    SideFunction,
    SinkOperator,
    SinkWriter,
    TaskContext,
    TolerantFunction,
)
from engine.network import Batch
from engine.runtime.description import OperatorStatistics
from engine.runtime.reply import text_of

Run = Callable[[Any], Any]


class Chain:
    """The opened operators of a task, in order; `process` takes a batch through all of them.

    It is the only operator's own function where there is one alone.
    Operators that give one record for each are not counted: their records are those of the one
    before. So is a native aggregation, which merges the updates of a batch: each record's effect is
    in what it emits.
    """

    def __init__(self) -> None:
        self.opening = ""
        self._names: list[str] = []
        self._counters: list[list[int] | None] = []
        self._tolerant: dict[str, TolerantFunction] = {}
        self.accepts_columns = True
        self.process: Run = _unchanged
        self.side: SideFunction | None = None
        """The first operator's function, if it has a side input."""
        self._run_names: dict[Run, str] = {}
        self._writers: dict[str, SinkWriter] = {}

    def open(
        self, operators: Sequence[LogicalOperator], context: TaskContext, *, encoded: bool
    ) -> None:
        """Open the operators, in order; called once, in the task's process.

        `encoded` tells that batches come from the network; they are decoded if the first operator
        needs records.
        """
        runs: list[Run] = []
        first = operators[0].operator if operators else None
        if encoded and not (isinstance(first, BatchOperator) and first.accepts_encoded):
            runs.append(Batch.decode if _accepts_columns(first) else Batch.to_list)
        self.accepts_columns = _accepts_columns(first)
        may_be_columns = False
        for operator in operators:
            self.opening = operator.name
            if may_be_columns and not _accepts_columns(operator.operator):
                check = _records_only(operator.name)
                self._run_names[check] = operator.name
                runs.append(check)
            run, counter = self._open(operator, context)
            self._names.append(operator.name)
            self._counters.append(counter)
            self._run_names[run] = operator.name
            runs.append(run)
            may_be_columns = _accepts_columns(operator.operator)
        if len(runs) == 1:
            self.process = runs[0]
        elif runs:
            self.process = _in_turn(tuple(runs))

    def failed(self, frames: Mapping[CodeType, FrameType]) -> str | None:
        """The operator that was at work in these frames of a traceback; None if none was.

        Decoding counts as work of the first operator.
        """
        code = getattr(self.process, "__code__", None)
        if code not in frames:
            return None
        run = frames[code].f_locals["run"] if code is _IN_TURN_CODE else self.process
        return self._run_names.get(run, self._names[0])

    def close(self) -> dict[str, Any]:
        """Close the sinks, which makes their output final; their results by operator name."""
        results = {}
        for name in list(self._writers):
            self.opening = name
            results[name] = self._writers[name].close()
            del self._writers[name]
        return results

    def abort(self) -> None:
        """Drop what the sinks hold that have not closed; idempotent, and raises nothing."""
        writers, self._writers = self._writers, {}
        for name, writer in writers.items():
            try:
                writer.abort()
            except BaseException as error:  # noqa: BLE001 - the others are still to be aborted
                console.write(f"sink {name!r} could not drop its output: {text_of(error)}\n")

    def statistics(self, records: int) -> list[OperatorStatistics]:
        """Records into and out of each operator, where `records` went into the first.

        While the operators open, those that did.
        """
        found = []
        for name, counter in zip(self._names, self._counters, strict=False):
            out = records if counter is None else counter[0]
            failures = self._tolerant[name].failures if name in self._tolerant else 0
            found.append(OperatorStatistics(name, records, out, failures))
            records = out
        return found

    def _open(
        self, operator: LogicalOperator, context: TaskContext
    ) -> tuple[Run, list[int] | None]:
        """The operator's batch function, and its counter if it changes the number of records."""
        kind = operator.operator
        counter = [0]
        if isinstance(kind, RecordOperator):
            if kind.form == "map":
                return _map(kind.function), None
            form = _filter if kind.form == "filter" else _flat_map
            return form(kind.function, counter), counter
        if isinstance(kind, BatchOperator):
            run = kind.open(context)
            if isinstance(run, TolerantFunction):
                self._tolerant[operator.name] = run
            if isinstance(run, SideFunction):
                self.side = run
            return (run, None) if kind.compacts else (_counted(run, counter), counter)
        assert isinstance(kind, SinkOperator), f"unknown kind of operator {kind!r}"
        writer = self._writers[operator.name] = kind.open(context)
        return _sink(writer.write), None


def _unchanged(batch: Any) -> Any:
    return batch


def _accepts_columns(operator: object) -> bool:
    """Also what may give columns: no other operator does."""
    return operator is None or getattr(operator, "accepts_columns", False)


def _records_only(name: str) -> Run:
    def run(batch: Any) -> Any:
        if is_columns(batch):
            raise refusal(name)
        return batch

    return run


def _in_turn(runs: tuple[Run, ...]) -> Run:
    def process(batch: Any) -> Any:
        for run in runs:
            batch = run(batch)
        return batch

    return process


_IN_TURN_CODE = _in_turn(()).__code__


def _map(function: Callable[[Any], Any]) -> Run:
    def run(batch: list[Any]) -> list[Any]:
        if len(batch) == 1:  # a comprehension costs more than the call that it makes
            record = batch[0]
            return [function(record)]
        records = iter(batch)
        return [function(record) for record in records]

    return run


def _filter(function: Callable[[Any], Any], counter: list[int]) -> Run:
    def run(batch: list[Any]) -> list[Any]:
        records = iter(batch)
        out = [record for record in records if function(record)]
        counter[0] += len(out)
        return out

    return run


def _flat_map(function: Callable[[Any], Any], counter: list[int]) -> Run:
    def run(batch: list[Any]) -> list[Any]:
        out: list[Any] = []
        for record in batch:
            out += function(record)
        counter[0] += len(out)
        return out

    return run


def _counted(function: Run, counter: list[int]) -> Run:
    def run(batch: Any) -> Any:
        out = function(batch)
        counter[0] += len(out)
        return out

    return run


def _sink(write: Callable[[Any], None]) -> Run:
    def run(batch: Any) -> Any:
        write(batch)
        return batch

    return run
