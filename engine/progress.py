"""The progress of a running job: one line that renews itself, or one JSON line per second."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.metrics import JobStatistics
from engine.runtime.description import TaskStatistics

if TYPE_CHECKING:
    from engine.config import Progress


class ProgressLine:
    """Shows what the job does now: rates are those since the last call of `show`.

    On a terminal the line renews itself; elsewhere each line is printed below the last.
    """

    def __init__(self, mode: Progress) -> None:
        terminal = sys.stderr.isatty()
        if mode == "auto":
            mode = "line" if terminal else "none"
        self._write: Callable[[JobStatistics, float, float], None] = {
            "line": self._write_line,
            "json": self._write_json,
            "none": _write_nothing,
        }[mode]
        self.is_shown = mode != "none"
        self._renews = terminal and mode == "line"
        self._last = (0.0, 0, 0)

    def show(self, tasks: Sequence[TaskStatistics]) -> None:
        """Take the tasks' statistics of this second."""
        statistics = JobStatistics.of(tasks)
        elapsed, records, source_records = self._last
        self._last = (
            statistics.elapsed_seconds,
            statistics.records,
            statistics.source_records,
        )
        seconds = max(1e-9, statistics.elapsed_seconds - elapsed)
        self._write(
            statistics,
            max(0, statistics.records - records) / seconds,
            max(0, statistics.source_records - source_records) / seconds,
        )

    def clear(self) -> None:
        """Remove the line, so that what follows starts on an empty one."""
        if self._renews:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _write_line(self, statistics: JobStatistics, at_sinks: float, at_sources: float) -> None:
        from engine.units import duration, rate

        line = (
            f"{statistics.elapsed_seconds:4.0f} s  {rate(at_sinks)} records/s "
            f"(sources {rate(at_sources)})  p99 {duration(statistics.latency.p99)}  "
            f"{statistics.records:,} records"
        )
        if statistics.bottleneck is not None:
            line += f"  backpressure: {statistics.bottleneck} ({_blocked(statistics):.0%} blocked)"
        if statistics.reconnects:
            line += f"  reconnects: {statistics.reconnects}"
        sys.stderr.write(f"\r{line}\x1b[K" if self._renews else f"{line}\n")
        sys.stderr.flush()

    def _write_json(self, statistics: JobStatistics, at_sinks: float, at_sources: float) -> None:
        line = {
            "schema": "oka.progress/1",
            "elapsed_seconds": statistics.elapsed_seconds,
            "records": statistics.records,
            "source_records": statistics.source_records,
            "throughput": at_sinks,
            "source_throughput": at_sources,
            "latency_us": dataclasses.asdict(statistics.latency),
            "backlog_bytes": statistics.backlog_bytes,
            "reconnects": statistics.reconnects,
            "max_worker_memory_bytes": statistics.memory_bytes,
            "bottleneck": statistics.bottleneck,
            "operators": [dataclasses.asdict(operator) for operator in statistics.operators],
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def _blocked(statistics: JobStatistics) -> float:
    return max(operator.blocked for operator in statistics.operators)


def _write_nothing(_statistics: JobStatistics, _at_sinks: float, _at_sources: float) -> None:
    pass
