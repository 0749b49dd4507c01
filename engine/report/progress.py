"""The progress of a running job: one line that is rewritten, or one JSON line per second."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from engine import console
from engine.metric.merged import in_json
from engine.notebook import cells
from engine.report.samples import Sample
from engine.report.statistics import JobStatistics
from engine.report.status_line import RenewedLine, status

if TYPE_CHECKING:
    from engine.config import Progress

logger = logging.getLogger("oka")


class ProgressLine:
    """Shows the job's progress once a second: rates and shares are those of that second.

    On a terminal it rewrites one line, in the terminal's current width; elsewhere it prints each
    line below the last. A thread of its own writes, so nobody else waits for a reader, and leaves
    out samples for which the reader was too slow. If a JSON line cannot be written, because stdout
    is closed, it calls `at_end_of_output`.
    """

    def __init__(self, mode: Progress, at_end_of_output: Callable[[], None] = lambda: None) -> None:
        terminal = console.is_terminal()
        if mode == "auto":
            mode = "line" if terminal else "none"
        self._write: Callable[[JobStatistics, float, float], None] = {
            "line": self._write_line,
            "json": self._write_json,
            "none": _write_nothing,
        }[mode]
        self.period = _SECONDS if mode != "none" else math.inf
        self._tells = mode == "line"
        self._renewed = RenewedLine() if terminal and mode == "line" else None
        self._last = (0.0, 0, 0)
        """Seconds and records at the last line."""
        self._at_end_of_output = at_end_of_output
        self._words: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._newest: Sample | None = None
        """What is to be shown; it stands in the queue as an empty word."""
        self._thread = threading.Thread(target=self._show_all, name="oka-progress", daemon=True)
        self._not_started = [self._thread]
        """Who takes the thread from here starts it: threads and signal handlers do so at once."""

    def take(self, sample: Sample) -> None:
        """Show a sample, once there are records; the result shows the last."""
        if sample.is_last or not any(task.elapsed_seconds for task in sample.tasks):
            return
        waiting, self._newest = self._newest, sample
        if waiting is None:
            self._start()
            self._words.put("")

    def tell(self, what: str) -> None:
        """Show the job's step before records flow, or behind them."""
        if self._tells:
            self._start()
            self._words.put(what)

    def warn(self, what: str) -> None:
        """Write a line to the log, beside anything else; nobody waits for its readers.

        It is one line, since log collectors treat each line as a message of its own.
        """
        self._start()
        self._words.put(_Warning(" ".join(what.split())))

    def say(self, what: str) -> None:
        """Write a line that stays, even if no progress is shown; from signal handlers, too."""
        if self._renewed is None:
            console.write(f"{what}\n")
        else:
            self._start()
            self._words.put(_Stays(what))

    def close(self) -> None:
        """Say what is left to say, and remove the line, so that output begins on an empty one."""
        if not self._not_started:
            self._words.put(None)
            if self._thread.ident is not None:  # else it ends as soon as it has started
                self._thread.join(_LAST_LINES_SECONDS)
            if self._renewed is not None:
                self._put("")

    def _start(self) -> None:
        with suppress(IndexError):
            self._not_started.pop().start()

    def _show_all(self) -> None:
        while (word := self._words.get()) is not None:
            if not word:
                sample, self._newest = self._newest, None
                if sample is not None:
                    self._show(sample.statistics)
            elif not isinstance(word, _Warning):
                self._put(word)
            else:
                if self._renewed is not None:
                    self._put("")
                logger.warning(word)

    def _show(self, statistics: JobStatistics) -> None:
        is_anew = statistics.elapsed_seconds < self._last[0]  # the tasks have begun again
        now = (statistics.elapsed_seconds, statistics.records, statistics.source_records)
        # The tasks' counts at the checkpoint were not counted again since.
        elapsed, records, source_records = now if is_anew else self._last
        self._last = now
        seconds = max(1e-9, statistics.elapsed_seconds - elapsed)
        self._write(
            statistics,
            max(0, statistics.records - records) / seconds,
            max(0, statistics.source_records - source_records) / seconds,
        )

    def _write_line(self, statistics: JobStatistics, at_sinks: float, at_sources: float) -> None:
        columns = sys.maxsize if self._renewed is None else terminal_columns() - 1
        self._put(status(statistics, at_sinks, at_sources, columns))

    def _put(self, line: str) -> None:
        renewed = self._renewed
        if renewed is None:
            text = f"{line}\n"
        elif isinstance(line, _Stays):
            text = f"{renewed.renewed('', terminal_columns())}{line}\n"
        else:
            text = renewed.renewed(line, terminal_columns())
        console.write(text, patience=0.0)

    def _write_json(self, statistics: JobStatistics, at_sinks: float, at_sources: float) -> None:
        line = {
            "schema": "oka.progress/1",
            "elapsed_seconds": statistics.elapsed_seconds,
            "records": statistics.records,
            "source_records": statistics.source_records,
            "throughput": at_sinks,
            "source_throughput": at_sources,
            "latency_us": dataclasses.asdict(statistics.latency),
            **in_json(statistics),
            "bottleneck": statistics.bottleneck,
            "operators": [dataclasses.asdict(operator) for operator in statistics.operators],
        }
        if not console.write(json.dumps(line) + "\n", sys.stdout, patience=None):
            self._at_end_of_output()


class _Warning(str):
    """A line for the log."""

    __slots__ = ()


class _Stays(str):
    """A line that stays."""

    __slots__ = ()


@contextmanager
def telling(what: str, mode: Progress = "auto") -> Iterator[Callable[[str], None]]:
    """Show this step while the block runs, which may show another."""
    if mode == "auto" and cells.are_here():
        shown = cells.Shown(what)
        try:
            yield shown.change
        finally:
            shown.change("")
        return
    line = ProgressLine(mode)
    line.tell(what)
    try:
        yield line.tell
    finally:
        line.close()


def terminal_columns() -> int:
    """The columns of stderr's terminal at this moment; 80 if unknown."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except (AttributeError, OSError, ValueError):
        return _USUAL_COLUMNS


def _write_nothing(_statistics: JobStatistics, _at_sinks: float, _at_sources: float) -> None:
    pass


_USUAL_COLUMNS = 80
_SECONDS = 1.0
"""Seconds between two reports."""
_LAST_LINES_SECONDS = 1.0
