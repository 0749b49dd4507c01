"""Jobs in the process of a test that stop in the middle with a savepoint, and go on from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import engine.testing
from engine.config import JobConfig
from engine.errors import JobStopped
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator, SourceReader
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from tests.waiting import wait_until


class Halves(SourceOperator[Any]):
    """Gives the first of its records, and the others when the job goes on from there.

    `batch` makes of some records what it gives. Its first task has them all.
    """

    properties = Properties(parallelism=1)

    def __init__(
        self, records: Sequence[Any], first: int, batch: Callable[[Any], Any] = list
    ) -> None:
        self.records = records
        self.first = first
        self.batch = batch
        self.id = uuid4().hex

    def open(self, _context: TaskContext) -> SourceReader:
        """A reader of all records."""
        return _Reader(self)


class _Reader(SourceReader):
    def __init__(self, source: Halves) -> None:
        self._source = source
        self._at = 0
        self._is_first = bool(source.first)

    @property
    def position(self) -> int:
        return self._at

    def restore(self, position: int) -> None:
        self._at = position
        self._is_first = False

    def __iter__(self) -> Iterator[Any]:
        source = self._source
        end = source.first if self._is_first else len(source.records)
        for at in range(self._at, end, _BATCH):
            some = source.records[at : min(at + _BATCH, end)]
            self._at = at + len(some)
            yield source.batch(some)
        while self._is_first:
            for _ in range(_AHEAD):
                time.sleep(0.001)
                yield []
            _reached.add(source.id)


def run_half(pipelines: Any, folder: Path, *sources: Halves, **settings: Any) -> None:
    """Run the pipelines until these sources have given their first records; stop with a savepoint.

    It is named "half".
    """
    told = {"name": "test", "progress": "none", "checkpoint_interval_seconds": 3600.0}
    config = JobConfig.of({**told, "checkpoints": str(folder), **settings})
    handle = JobHandle(Plan.of(pipelines, config), ThreadLauncher(None))
    try:
        wait_until(lambda: handle._finished.done() or {it.id for it in sources} <= _reached)
        if handle._finished.done():
            handle.wait_finished()
        handle.savepoint("half", stop="now", timeout=300)
        try:
            handle.wait_finished(300)
        except JobStopped:
            return
        raise AssertionError("the job ran to its end, expected that it was stopped")
    finally:
        handle.cancel()
        handle.wait_stopped()


def run_rest(pipelines: Any, folder: Path, **settings: Any) -> dict[str, Any]:
    """Go on with the pipelines to their end; what `engine.testing.run` gives."""
    told = {"resume": "half", "checkpoint_interval_seconds": 3600.0, **settings}
    return engine.testing.run(pipelines, checkpoints=str(folder), **told)


_BATCH = 5
_AHEAD = 8
"""More than are read before those in front of them have left."""
_reached: set[str] = set()
"""Sources that have given their first records: all tasks are of this process."""
