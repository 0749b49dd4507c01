"""A job that a test kills and lets go on: its source, its sink, and what comes out of it."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

import engine
from engine import JobConfig, JobResult
from engine.graph.context import TaskContext
from engine.graph.sink import SinkOperator, SinkWriter
from operators import source
from operators.sources import At, Function
from tests.drivers import titled
from tests.waiting import pauses


class EpochFiles(SinkOperator[Any]):
    """One file of JSON lines for each task and epoch; what is not final has a name with a dot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, context: TaskContext) -> SinkWriter:
        self.folder.mkdir(parents=True, exist_ok=True)
        return _Writer(self.folder, context)


class _Writer(SinkWriter):
    def __init__(self, folder: Path, context: TaskContext) -> None:
        self._folder = folder
        self._index, self._parallelism = context.index, context.parallelism
        self._lines: list[str] = []

    def write(self, records: Any) -> None:
        self._lines += [json.dumps(record) + "\n" for record in records]

    def prepare(self, epoch: int) -> str:
        name = f"{epoch:08}-{self._index}"
        (self._folder / f".{name}").write_text("".join(self._lines))
        self._lines = []
        return name

    def commit(self, _epoch: int, prepared: str) -> None:
        if (made := self._folder / f".{prepared}").exists():
            made.rename(self._folder / prepared)
        assert (self._folder / prepared).exists(), prepared

    def restore(self, epoch: int, prepared: list[tuple[int, Any]]) -> None:
        super().restore(epoch, prepared)
        for path in self._folder.glob(".*"):
            made, _, index = path.name[1:].partition("-")
            if int(index) % self._parallelism == self._index:  # the job may have had more tasks
                assert int(made) > epoch
                path.unlink()


def final(folder: Path) -> list[Any]:
    """All that the sink has made final."""
    lines = (
        line
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".")
        for line in path.read_text().splitlines()
    )
    return [json.loads(line) for line in lines]


def newest(folder: Path) -> int:
    """The last epoch of its job in this folder that all sinks have committed."""
    paths = (folder / "checkpoints" / "committed").glob("*")
    return max((int(each.name) for each in paths), default=0)


def left_over(folder: Path) -> list[str]:
    """Names of what the sink has not made final."""
    return [each.name for each in folder.iterdir() if each.name.startswith(".")]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Its jobs do not come to their end, unless they are drained."""
    folder.mkdir(exist_ok=True)
    hold = folder / HOLD
    hold.touch()
    try:
        yield
    finally:
        hold.unlink(missing_ok=True)


def pipeline(folder: Path, records: int) -> Any:
    """Counts of remainders, each count as it rises: every one is made final once."""
    hold = folder / HOLD

    def numbers(context: TaskContext, position: int | None) -> Iterator[At]:
        begin, end = (
            records * index // context.parallelism for index in (context.index, context.index + 1)
        )
        for first in range(begin if position is None else position, end, BATCH):
            if first + BATCH >= end:
                yield from pauses(lambda: not hold.exists(), At(first, []))
            last = min(first + BATCH, end)
            yield At(last, list(range(first, last)))

    def keyed(number: int) -> tuple[int, int]:
        time.sleep(0.0002)
        return number % KEYS, 1

    counted = source(Function(numbers)).map(keyed).key_by(0)
    counts = counted.reduce(lambda one, other: (one[0], one[1] + other[1]))
    return counts.sink(EpochFiles(folder / "out"))


def expected(records: int) -> Counter[tuple[int, int]]:
    """What has to be final in the end."""
    seen: Counter[int] = Counter()
    found: Counter[tuple[int, int]] = Counter()
    for number in range(records):
        seen[number % KEYS] += 1
        found[number % KEYS, seen[number % KEYS]] += 1
    return found


def found(folder: Path) -> Counter[tuple[int, int]]:
    """What is final."""
    return Counter(map(tuple, final(folder)))


def job(folder: Path, records: int, **settings: Any) -> tuple[Any, JobConfig]:
    """What to execute; its checkpoints are beside what it makes."""
    config = {
        "parallelism": 2,
        "batch_size": BATCH,
        "checkpoints": str(folder / "checkpoints"),
        "checkpoint_interval_seconds": 0.1,
        **settings,
    }
    return pipeline(folder, records), JobConfig.of(config)


def run(folder: Path, records: int, **settings: Any) -> JobResult:
    """The job to its end."""
    return engine.execute(*job(folder, records, **settings))


KEYS, BATCH, HOLD = 97, 20, "hold"

if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), **json.loads(sys.argv[3]))


def servers() -> list[psutil.Process]:
    """What local jobs of this process fork their workers from; other children may be Ray's."""
    children = titled(psutil.Process().children())
    return [process for process, title in children if "engine.host.forkserver" in title]
