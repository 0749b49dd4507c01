from collections.abc import Callable
from typing import Any

import pytest

from engine.graph import TaskContext
from engine.testing import run
from operators import KeyedStream, Stream
from operators.sinks import Collect


@pytest.fixture
def task() -> Callable[..., TaskContext]:
    """A context as a worker would make it: `task(index, parallelism, batch_size)`."""

    def make(index: int = 0, parallelism: int = 1, batch_size: int = 100) -> TaskContext:
        return TaskContext(f"task[{index}]", index, parallelism, batch_size, "job")

    return make


@pytest.fixture
def emitted() -> Callable[..., list[Any]]:
    """What a stream emits, as a job of one task each: `emitted(stream, batch_size=2)`."""

    def emit(stream: Stream[Any] | KeyedStream[Any, Any], batch_size: int = 100) -> list[Any]:
        if isinstance(stream, KeyedStream):
            stream = stream.map_batches(list)
        return list(run(stream.sink(Collect()), batch_size=batch_size)["collect"])

    return emit
