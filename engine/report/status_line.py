"""The status line of a running job, fitted to a terminal, and the control codes that rewrite it.

Pure: `engine.report.progress` decides what is written where.
"""

from __future__ import annotations

import sys

from rich.cells import cell_len, set_cell_size

from engine.metric.metrics import METRICS
from engine.report.statistics import JobStatistics
from engine.units import counted, duration, measure, rate


def status(
    statistics: JobStatistics, at_sinks: float, at_sources: float, columns: int = sys.maxsize
) -> str:
    """The job's progress in at most `columns` columns.

    If not all of it fits, the least important parts are left out, then a long name is cut: the
    operator that causes backpressure stands last.
    """
    latency = statistics.latency
    failures = sum(operator.failures for operator in statistics.operators)
    errors = sum(operator.errors for operator in statistics.operators)
    late = sum(operator.late for operator in statistics.operators)
    parts = {
        "time": f"{statistics.elapsed_seconds:4.0f} s",
        "rate": f"{rate(at_sinks)} records/s",
        "sources": f"(sources {rate(at_sources)})",
        "latency": f"p99 {duration(latency.p99)}",
        "records": counted(statistics.records, "record"),
        **{
            name: f"{metric.row}: {measure(value, metric.unit)}"
            for name, metric in METRICS.items()
            if metric.progress and (value := getattr(statistics, name))
        },
        "failures": f"failures: {failures}" if failures else "",
        "errors": f"errors: {errors:,}" if errors else "",
        "late": f"late: {late:,}" if late else "",
        "native": _native(statistics),
    }
    if latency.count < _LEAST_MARKERS:
        parts["latency"] = f"max {duration(latency.max)}" if latency.count else ""
    if statistics.bottleneck is not None:
        share = max(operator.blocked for operator in statistics.operators)
        parts["backpressure"] = f"backpressure: {share:.0%} blocked by {statistics.bottleneck}"
    for least in ("", *_LEAST_IMPORTANT):
        parts.pop(least, None)
        line = _SEPARATOR.join(filter(None, parts.values()))
        if cell_len(line) <= columns:
            break
    return _cut(line, columns)


def _native(statistics: JobStatistics) -> str:
    """The share of records whose functions ran natively, of operators where some could."""
    could = [each for each in statistics.operators if each.native or each.fallbacks]
    records = sum(each.records_in for each in could)
    if not records:
        return ""
    fallbacks = sum(each.fallbacks for each in could)
    told = f" ({counted(fallbacks, 'fallback')})" if fallbacks else ""
    return f"native: {sum(each.native for each in could) / records:.0%}{told}"


class RenewedLine:
    """The last line of a terminal, written again and again.

    Invariant: it takes one row, and leaves none behind. A terminal that was made narrower has
    broken it into several, which are all written over.
    """

    def __init__(self) -> None:
        self._columns = 0

    def renewed(self, line: str, columns: int) -> str:
        """The text that shows the line on a terminal this wide; the cursor is then behind it."""
        plain = "".join(each if each.isprintable() else "?" for each in line)
        line = _cut(plain, columns - 1)  # in the last column, some terminals begin a new row
        above = max(0, -(-self._columns // columns) - 1)
        self._columns = cell_len(line)
        return f"{_UP.format(above) if above else ''}\r{line}{_CLEAR_TO_END}"


def _cut(line: str, columns: int) -> str:
    """The line cut to this width, with `…` in place of the rest."""
    if cell_len(line) <= columns:
        return line
    return f"{set_cell_size(line, columns - 1)}…" if columns > 0 else ""


_SEPARATOR = "  "
_LEAST_IMPORTANT = ("native", "sources", "records")
"""The parts that may be left out, in this order."""
_LEAST_MARKERS = 100
"""With fewer markers there is no 99th percentile."""
_UP = "\x1b[{}A"
_CLEAR_TO_END = "\x1b[J"
