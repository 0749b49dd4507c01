"""A source of partitions for tests: lists of this process, which grow while a job runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from engine.config import JobConfig
from engine.errors import JobStopped
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.partitions import Partition, PartitionedSource
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import Pipeline
from operators.sinks import Callback


class Logs:
    """Partitions by name; `ended` ones have no more to come."""

    def __init__(self, **lists: Iterable[Any]) -> None:
        self.lists = {name: list(each) for name, each in lists.items()}
        self.ended = False
        self.open: dict[str, int] = {}
        """How many readers each partition has now."""
        self.most_open = 0
        self.committed: list[tuple[str, Any]] = []
        self.came: list[Any] = []
        """The records that have come to a sink."""
        self.polls = self.given = 0
        self.lock = threading.Lock()

    def records(self) -> list[Any]:
        return [record for each in self.lists.values() for record in each]


LOGS: dict[str, Logs] = {}
"""Of each test, by its name: a source is pickled."""


class LogSource(PartitionedSource[Any]):
    def __init__(
        self,
        of: str,
        *,
        bounded: bool = True,
        discover_seconds: float | None = None,
        form: Callable[[list[Any]], Any] = list,
        tells: bool = False,
        rate: float | None = None,
        most: int | None = None,
        columns: bool = False,
    ) -> None:
        self.of, self.bounded, self.discover_seconds = of, bounded, discover_seconds
        self.form, self.tells, self.most = form, tells, most
        self.properties = Properties(rate=rate, emits_columns=columns)

    @property
    def logs(self) -> Logs:
        return LOGS[self.of]

    def partitions(self) -> list[str]:
        return list(self.logs.lists)

    def open_partition(self, name: str, position: Any, context: TaskContext) -> Partition:
        kind = Told if self.tells else Log
        return kind(self, name, position)

    def number(self, name: str) -> int:
        return int(name[1:])


class Log(Partition):
    def __init__(self, source: LogSource, name: str, position: Any) -> None:
        self.source, self.logs, self.name = source, source.logs, name
        self.at = position or 0
        self.is_closed = False
        with self.logs.lock:
            self.logs.open[name] = self.logs.open.get(name, 0) + 1
            assert self.logs.open[name] == 1, f"{name} is read twice"
            self.logs.most_open = max(self.logs.most_open, sum(self.logs.open.values()))

    @property
    def position(self) -> int:
        return self.at

    @property
    def lag(self) -> int:
        return len(self.logs.lists[self.name]) - self.at

    def poll(self, limit: int) -> Any:
        assert not self.is_closed
        self.logs.polls += 1
        ended = self.logs.ended  # before the look: no record comes behind it
        found = self.logs.lists[self.name][self.at : self.at + (self.source.most or limit)]
        self.at += len(found)
        self.logs.given += len(found)
        if not found:
            return None if ended or self.source.bounded else []
        return self.source.form(found)

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True
        with self.logs.lock:
            self.logs.open[self.name] -= 1


class Told(Log):
    def committed(self, position: Any) -> None:
        assert not self.is_closed
        self.logs.committed.append((self.name, position))


def gather(of: str, record: Any) -> None:
    """For `Callback(partial(gather, of))`: a record that has come to the sink."""
    LOGS[of].came.append(record)


@pytest.fixture
def came() -> Iterator[list[Any]]:
    """What has come to `sink()`."""
    LOGS["came"] = logs = Logs()
    yield logs.came
    del LOGS["came"]


def sink() -> Callback[Any]:
    return Callback(partial(gather, "came"))


def job(pipeline: Pipeline, **settings: Any) -> JobHandle:
    """A running job in threads of this process, of whose checkpoints a test makes savepoints."""
    config = JobConfig.of({"name": "test", "progress": "none", **settings})
    return JobHandle(Plan.of(pipeline, config), ThreadLauncher())


def stop(handle: JobHandle, savepoint: str) -> None:
    """Stop a job with a savepoint."""
    try:
        handle.savepoint(savepoint, stop="now", timeout=300)
        with suppress(JobStopped):
            handle.wait_finished(300)
    finally:
        handle.cancel()
        handle.wait_stopped()
