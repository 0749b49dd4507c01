from collections.abc import Callable
from typing import Any

import pytest

from engine.graph import LogicalOperator, SourceOperator, TaskContext, logical_graph
from engine.runtime.chain import Chain
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
            batches[operator.id] = list(_through(operator, context, arriving))
        return Collect().commit(1, [batches[graph.operators[-1].id][0]])

    return run


def _through(
    operator: LogicalOperator, context: TaskContext, batches: list[list[Any]]
) -> list[Any]:
    if isinstance(operator.operator, SourceOperator):
        return list(operator.operator.open(context))
    chain = Chain()
    chain.open([operator], context, encoded=False)
    out = [chain.process(batch) for batch in batches]
    out += chain.end()
    chain.prepare()
    return list(chain.commit().values()) or out
