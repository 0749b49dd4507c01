"""Warnings about operators with many late records."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.report.samples import Sample
from engine.report.statistics import JobStatistics


class LateRecords:
    """Warns once of each operator of a job for which more than 1 % of its records are late.

    A running job warns of at least 100: the first few say nothing of the rest. The statistics may
    come from any thread.
    """

    period = 10.0

    def __init__(self, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def take(self, sample: Sample) -> None:
        """Warn of each operator with many records of which too many are late."""
        self.look(sample.statistics, 1 if sample.is_last else _MANY)

    def close(self) -> None:
        """Warn no more: the job has ended."""

    def look(self, statistics: JobStatistics, least: int = 1) -> None:
        """Warn of each operator with at least `least` late records of which too many are late."""
        for each in statistics.operators:
            if each.late < least or each.late <= _SHARE * each.records_in:
                continue
            with self._lock:
                is_told = each.name in self._told
                self._told.add(each.name)
            if not is_told:
                share = f"{100 * each.late / each.records_in:.2g} %"
                self._warn(
                    f"operator {each.name!r}: {each.late:,} of {each.records_in:,} records "
                    f"({share}) came too late and were left out\n\n{_HINT}"
                )


_SHARE = 0.01
_MANY = 100
_HINT = (
    "hint: does with_event_time(…) stand right behind the source, and is each file and each share "
    "of that in the order of its times? If not, out_of_orderness=… waits for what is behind, and "
    "allowed_lateness=… keeps windows for it; .side('late') has what is left out"
)
