"""The progress of a running job: one line that renews itself, or one JSON line per second."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.metrics import JobStatistics
from engine.runtime.description import TaskStatistics
from engine.status_line import RenewedLine, status

if TYPE_CHECKING:
    from engine.config import Progress


class ProgressLine:
    """Shows what the job does now: rates are those since the last call of `show`.

    On a terminal the line renews itself, as wide as the terminal is at that moment; elsewhere each
    line is printed below the last.
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
        self._tells = mode == "line"
        self._renewed = RenewedLine() if terminal and mode == "line" else None
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

    def tell(self, what: str) -> None:
        """Show, before records flow or behind them, what the job is at."""
        if self._tells:
            self._put(what)

    def clear(self) -> None:
        """Remove the line, so that what follows starts on an empty one."""
        if self._renewed is not None:
            self._put("")

    def _write_line(self, statistics: JobStatistics, at_sinks: float, at_sources: float) -> None:
        columns = sys.maxsize if self._renewed is None else terminal_columns() - 1
        self._put(status(statistics, at_sinks, at_sources, columns))

    def _put(self, line: str) -> None:
        if self._renewed is None:
            sys.stderr.write(f"{line}\n")
        else:
            sys.stderr.write(self._renewed.renewed(line, terminal_columns()))
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


@contextmanager
def telling(what: str, mode: Progress = "auto") -> Iterator[Callable[[str], None]]:
    """Show what is going on for as long as the block runs, which may say something else."""
    line = ProgressLine(mode)
    line.tell(what)
    try:
        yield line.tell
    finally:
        line.clear()


def terminal_columns() -> int:
    """Those of stderr's terminal at this moment; 80 where it does not tell."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


def _write_nothing(_statistics: JobStatistics, _at_sinks: float, _at_sources: float) -> None:
    pass


_USUAL_COLUMNS = 80
