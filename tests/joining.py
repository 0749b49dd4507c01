"""Joins in tests: the tasks of the operator without a job, fed with records and watermarks.

Records are (key, time, number) as in `tests.windowing`; those with an even number are of the left
stream, the others of the right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from engine.graph.operator import BatchFunction, BatchOperator, TaskContext
from engine.network import partition
from engine.state import KeyedState
from operators import KeyedStream, Stream, source
from operators.sources import Collection
from tests.windowing import Event, Record, batches


def keyed() -> KeyedStream[Any, Any]:
    """A stream of such records."""
    return source(Collection([])).with_event_time(1).key_by(0)


class Encoded(NamedTuple):
    """What a task gets: records of one of the inputs."""

    input: int
    records: Any

    def decode(self) -> Any:
        return self.records


class JoinTasks:
    """The tasks of the join that a stream ends in, each with its share of the keys."""

    def __init__(
        self, stream: Stream[Any], parallelism: int = 1, states: Iterable[KeyedState] = ()
    ) -> None:
        self.late: list[Record] = []
        self.functions: list[BatchFunction] = []
        operator = stream.inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        states = list(states)
        for index in range(parallelism):
            late = {"late": self.late.extend}
            context = TaskContext("t", index, parallelism, 1000, "job", side_outputs=late)
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
                        given += results
            else:
                side, records = batch
                chosen = partition([record[0] for record in records], len(self.functions))
                for index, function in enumerate(self.functions):
                    own = [each for each, at in zip(records, chosen, strict=True) if at == index]
                    if own:
                        given += function.process(Encoded(side, own))
            yield given

    def end(self) -> list[Any]:
        """What is left at the end of the input."""
        return [each for task in self.functions for batch in task.on_end() for each in batch]

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
