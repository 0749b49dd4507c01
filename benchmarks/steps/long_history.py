"""Histories of long jobs: `python -m benchmarks.steps.long_history [1] [7]`, numbers of days.

Records of a job of 64 tasks go to a file as a job writes it, as fast as they can be made, with
samples of changing figures, checkpoints and lines of the log: each 5 min, of the last day each
30 s, and of its last ten minutes each second. A line has the size of the file, and how long it
takes to read it.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine.deployment.description import OperatorStatistics, TaskStatistics
from engine.graph import ExecutionGraph, chain, expand, logical_graph
from engine.history.file import SCHEMA, HistoryWriter, read_lines
from engine.history.history import COMPACTED_BYTES, GROWTH_BYTES, MOST_BYTES
from engine.history.plan import planned
from engine.history.reading import JobHistory
from engine.history.retention import Record, compacted, encoded
from engine.history.sample import Samples
from engine.history.view import rows
from engine.network import LatencyHistogram
from engine.units import counted
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords


def main() -> None:
    """Write a history of each length, and print its size and how long it takes to read it."""
    for days in map(int, sys.argv[1:] or ("1", "7")):
        with tempfile.TemporaryDirectory(prefix="oka-history-") as folder:
            path = Path(folder) / "job.oka"
            _write(path, days * 86_400)
            began, cpu = time.perf_counter(), time.process_time()
            history = JobHistory.read(path)
            assert len(rows(history)) == 4
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            size = path.stat().st_size / 1e6
            print(
                f"{counted(days, 'day')}: {size:.2f} MB, read in {took:.2f} s ({cpu:.2f} s of CPU)"
            )


def _write(path: Path, seconds: int) -> None:
    """As `engine.history.history.History` does."""
    writer = HistoryWriter(path)
    limit = MOST_BYTES
    for batch in _batches(seconds):
        writer.write(map(encoded, batch))
        if writer.size > limit:
            writer = writer.rewrite(compacted(read_lines(path), COMPACTED_BYTES))
            limit = max(MOST_BYTES, writer.size + GROWTH_BYTES)
    writer.close()


def _batches(seconds: int) -> Iterator[list[Record]]:
    words = source(RandomWords()).map(str.upper).key_by().count().sink(Discard())
    logical = logical_graph(words)
    graph = expand(chain(logical, 32))
    yield [{"kind": "job", "t": 0.0, "schema": SCHEMA, "name": "long", "since": 1e9}]
    yield [{"kind": "plan", "t": 0.0, **planned(logical, graph, {})}]
    numbers, samples = random.Random(seconds), Samples(graph)
    total = 0
    day = max(0, seconds - 86_400)
    for t in (
        *range(300, day, 300),
        *range(day + 30, seconds - 600, 30),
        *range(seconds - 600, seconds),
    ):
        total += numbers.randrange(10_000)
        records = list(samples.records(list(_tasks(graph, numbers, t, total)), float(t)))
        epoch: Record = {"kind": "checkpoint", "t": float(t), "epoch": t, "began": t - 0.5}
        written = [numbers.randrange(500) for _ in graph.vertices]
        log = {"kind": "log", "t": float(t), "text": f"line {numbers.randrange(10**9)} of the log"}
        yield [*records, {**epoch, "stored": float(t), "written_ms": written}, log]


def _tasks(
    graph: ExecutionGraph, numbers: random.Random, t: int, total: int
) -> Iterator[TaskStatistics]:
    histogram = LatencyHistogram()
    histogram.record(numbers.randrange(10**9))
    for each in graph.vertices:
        records = total + numbers.randrange(100)
        names = [operator.name for operator in each.job_vertex.operators]
        yield TaskStatistics(
            vertex=each.job_vertex.name,
            index=each.index,
            operators=tuple(OperatorStatistics(name, records, records) for name in names),
            elapsed_seconds=float(t),
            busy_seconds=t * numbers.random(),
            waiting_seconds=0.0,
            idle_seconds=t * numbers.random(),
            blocked_seconds=t * numbers.random(),
            source_window=None,
            sink_window=None,
            latency=histogram.to_bytes() if each.job_vertex.name.endswith("discard") else None,
            memory_bytes=numbers.randrange(10**8),
            input_backlog_bytes=numbers.randrange(10**6),
            checkpointed_bytes=numbers.randrange(10**6),
        )


if __name__ == "__main__":
    main()
