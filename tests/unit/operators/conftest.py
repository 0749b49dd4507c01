from collections.abc import Callable, Iterable
from typing import Any

import pytest

from engine.graph import (
    BatchOperator,
    RecordOperator,
    SinkOperator,
    SourceOperator,
    TaskContext,
    logical_graph,
)
from operators import KeyedStream, Stream
from operators.sinks import Collect


@pytest.fixture
def task() -> Callable[..., TaskContext]:
    """A context as a worker would make it: `task(index, parallelism, batch_size)`."""

    def make(index: int = 0, parallelism: int = 1, batch_size: int = 100) -> TaskContext:
        return TaskContext(f"task[{index}]", index, parallelism, batch_size, "job")

    return make


@pytest.fixture
def emitted(task: Callable[..., TaskContext]) -> Callable[..., list[Any]]:
    """What a stream emits, opened in this process: `emitted(stream, batch_size=2)`."""

    def run(stream: Stream[Any] | KeyedStream[Any, Any], batch_size: int = 100) -> list[Any]:
        if isinstance(stream, KeyedStream):
            stream = stream.map_batches(list)
        graph = logical_graph(stream.sink(Collect()))
        context = task(batch_size=batch_size)
        batches: dict[int, list[list[Any]]] = {}
        for operator in graph.operators:
            arriving = [batch for edge in graph.inputs(operator) for batch in batches[edge.source]]
            batches[operator.id] = list(_through(operator.operator, context, arriving))
        return batches[graph.operators[-1].id][0]

    return run


def _through(
    operator: object, context: TaskContext, batches: list[list[Any]]
) -> Iterable[list[Any]]:
    if isinstance(operator, SourceOperator):
        return operator.open(context)
    if isinstance(operator, BatchOperator):
        return map(operator.open(context), batches)
    if isinstance(operator, RecordOperator):
        function = operator.function
        forms: dict[str, Callable[[list[Any]], list[Any]]] = {
            "map": lambda batch: [function(record) for record in batch],
            "filter": lambda batch: [record for record in batch if function(record)],
            "flat_map": lambda batch: [out for record in batch for out in function(record)],
        }
        return map(forms[operator.form], batches)
    assert isinstance(operator, SinkOperator)
    writer = operator.open(context)
    for batch in batches:
        writer.write(batch)
    return [operator.merge([writer.close()])]
