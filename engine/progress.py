"""The progress of a running job: one line that renews itself, or one JSON line per second."""

from __future__ import annotations

import dataclasses
import json
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine import console
from engine.metrics import JobStatistics
from engine.runtime.description import TaskStatistics

if TYPE_CHECKING:
    from engine.config import Progress


class ProgressLine:
    """Shows what the job does now: rates are those since the last call of `show`.

    On a terminal the line renews itself; elsewhere each line is printed below the last. A thread of
    its own writes, so that `show` never waits for a reader. When a JSON line cannot be written,
    because stdout is closed, it calls `at_end_of_output`.
    """

    def __init__(self, mode: Progress, at_end_of_output: Callable[[], None]) -> None:
        terminal = console.is_terminal()
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
        self._at_end_of_output = at_end_of_output
        self._snapshots: queue.SimpleQueue[Sequence[TaskStatistics] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._show_all, name="oka-progress", daemon=True)

    def show(self, tasks: Sequence[TaskStatistics]) -> None:
        """Take the tasks' statistics of this second."""
        if self._thread.ident is None:
            self._thread.start()
        if self._snapshots.qsize() < _MOST_WAITING:
            self._snapshots.put(tasks)

    def clear(self) -> None:
        """Show what is left, and remove the line, so that what follows starts on an empty one."""
        if self._thread.ident is not None:
            self._snapshots.put(None)
            self._thread.join(_LAST_LINES_SECONDS)
        if self._renews:
            console.write("\r\x1b[K", patience=0.0)

    def _show_all(self) -> None:
        while (tasks := self._snapshots.get()) is not None:
            self._show(tasks)

    def _show(self, tasks: Sequence[TaskStatistics]) -> None:
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

    def _write_line(self, statistics: JobStatistics, at_sinks: float, at_sources: float) -> None:
        from engine.tables import duration, rate

        line = (
            f"{statistics.elapsed_seconds:4.0f} s  {rate(at_sinks)} records/s "
            f"(sources {rate(at_sources)})  p99 {duration(statistics.latency.p99)}  "
            f"{statistics.records:,} records"
        )
        if statistics.bottleneck is not None:
            line += f"  backpressure: {statistics.bottleneck} ({_blocked(statistics):.0%} blocked)"
        if errors := sum(operator.errors for operator in statistics.operators):
            line += f"  errors: {errors:,}"
        if statistics.reconnects:
            line += f"  reconnects: {statistics.reconnects}"
        console.write(f"\r{line}\x1b[K" if self._renews else f"{line}\n", patience=0.0)

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
        if not console.write(json.dumps(line) + "\n", sys.stdout, patience=None):
            self._at_end_of_output()


def _blocked(statistics: JobStatistics) -> float:
    return max(operator.blocked for operator in statistics.operators)


def _write_nothing(_statistics: JobStatistics, _at_sinks: float, _at_sources: float) -> None:
    pass


_MOST_WAITING = 10
"""Snapshots that a reader who comes later still sees."""
_LAST_LINES_SECONDS = 1.0
