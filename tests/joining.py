"""Joins in tests: the tasks of the operator without a job, fed with records and watermarks.

Records are (key, time, number) as in `tests.windowing`; those with an even number are of the left
stream, the others of the right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from engine.config import Native
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.network import Batch, partition
from engine.state import KeyedState
from operators import KeyedStream, Stream, source
from operators.sources import Collection
from tests.windowing import Event, Record, batches

Form: TypeAlias = Literal["records", "columns", "encoded"]
"""What tasks get and keep: objects, columns, or encoded records, for a function that is lifted."""


def keyed(form: Form = "records") -> KeyedStream[Any, Any]:
    """A stream of such records, or of columns of them."""
    records = source(Collection([]))
    if form != "columns":
        return records.with_event_time(1).key_by(0)
    return records.to_columns(SCHEMA).with_event_time("time").key_by("key")


SCHEMA = pa.schema([("key", pa.string()), ("time", pa.int64()), ("number", pa.int64())])
"""Of records as columns."""


def function_of(form: Form) -> Callable[[Any, Any], Any] | None:
    """The function of a join that shall get this form; it makes pairs of partners, as none does."""
    return (lambda left, right: (left, right)) if form == "encoded" else None


class Encoded(NamedTuple):
    """What a task gets: records of one of the inputs."""

    input: int
    records: Any

    def decode(self) -> Any:
        return self.records


class JoinTasks:
    """The tasks of the join that a stream ends in, each with its share of the keys."""

    def __init__(
        self,
        stream: Stream[Any],
        parallelism: int = 1,
        states: Iterable[KeyedState] = (),
        form: Form = "records",
        native: Native = "auto",
    ) -> None:
        self._form = form
        self.late: list[Record] = []
        self.functions: list[BatchFunction] = []
        operator = stream.inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        states = list(states)
        for index in range(parallelism):
            late = {"late": lambda records: self.late.extend(records_of(records))}
            context = TaskContext("t", index, parallelism, 1000, "job", side_outputs=late)
            context = replace(context, native=native)
            function = operator.open(context)
            if states:
                function.restore(KeyedState.share(states, index, parallelism))
            self.functions.append(function)

    def take(self, events: Iterable[Event], batch_size: int = 1) -> Iterator[list[Any]]:
        """What each batch and each watermark gives."""
        for batch in of_sides(events, batch_size):
            given: list[Any] = []
            if isinstance(batch, int):
                for function in self.functions:
                    for results in function.on_watermark(batch) or ():
                        given += pairs_of(results)
            else:
                side, records = batch
                chosen = partition([record[0] for record in records], len(self.functions))
                for index, function in enumerate(self.functions):
                    own = [each for each, at in zip(records, chosen, strict=True) if at == index]
                    if own:
                        given += pairs_of(function.process(self._batch(side, own)))
            yield given

    def _batch(self, side: int, records: list[Record]) -> Any:
        if self._form == "encoded":
            batch = Batch.from_list(records, pickle=True)
            batch.input = side
            return batch
        return Encoded(side, columns_of(records) if self._form == "columns" else records)

    def end(self) -> list[Any]:
        """What is left at the end of the input."""
        return [
            each for task in self.functions for batch in task.on_end() for each in pairs_of(batch)
        ]

    @property
    def kept(self) -> int:
        """Records in the state of all tasks, as their metrics tell."""
        return sum(function.metrics()["state_records"] for function in self.functions)

    def snapshot(self) -> list[KeyedState]:
        """What the tasks keep."""
        found = [function.snapshot() for function in self.functions]
        return [each for each in found if each is not None]


def of_sides(events: Iterable[Event], batch_size: int) -> Iterator[Any]:
    """Watermarks, and batches of one side with its number."""
    for batch in batches(events, batch_size):
        if not isinstance(batch, list):
            yield batch
            continue
        part: list[Record] = []
        for record in batch:
            if part and record[2] % 2 != part[0][2] % 2:
                yield part[0][2] % 2, part
                part = []
            part.append(record)
        yield part[0][2] % 2, part


def columns_of(records: list[Record]) -> pa.RecordBatch:
    """Records as columns; keys are texts."""
    keys, times, numbers = zip(*records, strict=True)
    return pa.record_batch([keys, times, numbers], SCHEMA)


def records_of(given: Any) -> Iterable[Record]:
    """The records of a batch."""
    if isinstance(given, list):
        return given
    return [tuple(row.values()) for row in given.to_pylist()]  # type: ignore[misc]


def pairs_of(given: Any) -> list[Any]:
    """Results as pairs."""
    if isinstance(given, list):
        return given
    if isinstance(given, Batch):
        return given.to_list()
    found = []
    for row in given.to_pylist():
        number = row["number"], row["number_right"]
        names = ["key", "time", "number"], ["key_right", "time_right", "number_right"]
        found.append(
            tuple(
                None if each is None else tuple(row[name] for name in of)
                for each, of in zip(number, names, strict=True)
            )
        )
    return found
