"""Results as a person reads them: tables of a finished job."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from engine.metric.declared import Metric
from engine.metric.metrics import METRICS, Metrics
from engine.notebook import html
from engine.units import counted, duration, measure, rate, three_digits

if TYPE_CHECKING:
    from engine.report.statistics import JobStatistics, Latency, OperatorSummary


def result_table(
    name: str, seconds: float, statistics: JobStatistics, files: Mapping[str, object]
) -> str:
    """The job's throughput, latency and cost, and a row per operator.

    It leaves out figures for which the job was too short: a rate over milliseconds, percentiles of
    few markers, the cost of a million records where there were ten.
    """
    summary = Table(box=box.SIMPLE, show_header=False, title=name)
    summary.add_column(style="bold")
    summary.add_column()
    for row in _summary(seconds, statistics, files):
        summary.add_row(*row)
    columns, operators = _operators(statistics)
    return f"{_printed(summary)}\n{table(columns, operators, names=1)}"


def result_html(
    name: str, seconds: float, statistics: JobStatistics, files: Mapping[str, object]
) -> str:
    """The same as two tables of HTML, for a notebook."""
    columns, operators = _operators(statistics)
    summary = html.table((), _summary(seconds, statistics, files), names=2)
    each = html.table(columns, operators) if operators else ""
    return f"{html.lines([name])}{summary}{each}"


def result_line(name: str, seconds: float, statistics: JobStatistics) -> str:
    """The job's name, records, seconds and throughput in a line."""
    line = f"job {name!r}: {counted(statistics.records, 'record')} in {duration(seconds * 1e6)}"
    if statistics.window_seconds < _SHORTEST_WINDOW:
        return line
    return f"{line}, {rate(statistics.throughput)} records/s"


def throughput(statistics: JobStatistics) -> str:
    """Records per second over the steady window, if that is long enough."""
    seconds = duration(statistics.window_seconds * 1e6)
    if statistics.window_seconds < _SHORTEST_WINDOW:
        return f"all within {seconds}: too short for a rate"
    return (
        f"{rate(statistics.throughput)} records/s over {seconds} "
        f"(sources {rate(statistics.source_throughput)})"
    )


def percentiles(latency: Latency) -> str:
    """The percentiles that have at least one marker beyond them."""
    if latency.count == 1:
        return f"{duration(latency.max)} (1 marker)"
    told = [
        f"{name} {duration(value)}"
        for name, value, least in (
            ("p50", latency.p50, 2),
            ("p95", latency.p95, 20),
            ("p99", latency.p99, 100),
            ("p99.9", latency.p999, 1000),
            ("max", latency.max, 1),
        )
        if latency.count >= least
    ]
    return f"{', '.join(told)} ({counted(latency.count, 'marker')})"


def cost(cpu_seconds: float, records: int) -> str:
    """CPU time of all workers, in all and per as many records as the job had."""
    total = f"{duration(cpu_seconds * 1e6)} in all"
    for many, name in ((1_000_000, "million"), (1000, "thousand")):
        if records >= many:
            seconds = three_digits(cpu_seconds / records * many)
            return f"{seconds} s per {name} records ({total})"
    return total


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], names: int = 2, keys: int | None = None
) -> str:
    """A plain table; the first `names` columns are text, the others numbers.

    A table wider than the terminal has the values that all rows share above itself. Columns without
    room follow below, behind the first `keys` columns again (the names, if None). A long text
    continues in the next line; nothing is cut.
    """
    shown = list(range(len(columns)))
    whole = _drawn(columns, rows, names, shown)
    if _width(whole) <= _columns():
        return _printed(whole)
    told = ""
    if len(rows) > 1:
        same = {at for at in shown if len({row[at] for row in rows if at < len(row)}) == 1}
        shown = [at for at in shown if at not in same]
        told = ", ".join(f"{columns[at]} {rows[0][at]}" for at in sorted(same) if rows[0][at])
    first = [at for at in shown if at < (names if keys is None else keys)]
    parts = [first]
    for at in shown[len(first) :]:
        wider = _drawn(columns, rows, names, [*parts[-1], at], _columns() // 3)
        if parts[-1] != first and _width(wider) > _columns():
            parts.append(first)
        parts[-1] = [*parts[-1], at]
    text = _printed(*(_drawn(columns, rows, names, part, _columns() // 3) for part in parts))
    if not told:
        return text
    indent = "  "
    every = f"in every row: {told}"
    return f"\n{fill(every, _columns(), initial_indent=indent, subsequent_indent=indent)}\n{text}"


def _summary(
    seconds: float, statistics: JobStatistics, files: Mapping[str, object]
) -> list[tuple[str, str]]:
    """The figures of the whole job: names and values."""
    rows = [("records at the sinks", f"{statistics.records:,}")]
    if statistics.records:
        rows.append(("throughput", throughput(statistics)))
    if statistics.latency.count:
        rows.append(("latency", percentiles(statistics.latency)))
    rows.append(("cpu", cost(statistics.cpu_seconds, statistics.records)))
    rows += _metrics(statistics)
    rows.append(("wall time", f"{duration(seconds * 1e6)}, start and tear-down included"))
    for operator in statistics.operators:
        if operator.errors:
            failed = counted(operator.errors, "record")
            told = f"{operator.name}: {failed}, such as {operator.first_error}"
            rows.append(("errors", told))
        if operator.fallbacks:
            times = counted(operator.fallbacks, "time")
            told = f"{operator.name}: a batch fell back {times}, such as for "
            rows.append(("native", f"{told}{operator.first_fallback}"))
    rows += [("files", f"{sink}: {where}") for sink, where in files.items()]
    return rows


def _metrics(statistics: Metrics) -> Iterator[tuple[str, str]]:
    """The rows of the metrics that have a row and a value."""
    rows: dict[str, list[tuple[Metric, float]]] = {}
    for name, metric in METRICS.items():
        if metric.row is not None:
            rows.setdefault(metric.row, []).append((metric, getattr(statistics, name)))
    for row, metrics in rows.items():
        if any(value and metric.alone for metric, value in metrics):
            told = [(each.text, measure(value, each.unit)) for each, value in metrics if value]
            yield row, ", ".join(text.format(value) for text, value in told)


def _operators(statistics: JobStatistics) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """The columns of the operators' table, and a row for each operator."""
    operators = statistics.operators
    counts = [
        count for count in ("failures", "late") if any(getattr(each, count) for each in operators)
    ]
    native = ["native"] if any(operator.native for operator in operators) else []
    rows = [
        (
            operator.name,
            f"{operator.parallelism}",
            f"{operator.records_in:,}",
            f"{operator.records_out:,}",
            *(
                f"{share:.0%}"
                for share in (operator.busy, operator.waiting, operator.blocked, operator.idle)
            ),
            *(f"{getattr(operator, count):,}" for count in counts),
            *([_share(operator)] if native else []),
        )
        for operator in operators
    ]
    return (*_OPERATORS, *counts, *native), rows


def _share(operator: OperatorSummary) -> str:
    """The share of an operator's records that ran natively; nothing where none did."""
    if not operator.native or not operator.records_in:
        return ""
    return f"{operator.native / operator.records_in:.0%}"


def _drawn(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    names: int,
    shown: Sequence[int],
    widest_name: int | None = None,
) -> Table:
    drawn = Table(box=box.SIMPLE, header_style="bold")
    for at in shown:
        if at < names:
            drawn.add_column(columns[at], overflow="fold", max_width=widest_name)
        else:
            drawn.add_column(columns[at], justify="right", no_wrap=True)
    for row in rows:
        drawn.add_row(*(row[at] if at < len(row) else "" for at in shown))
    return drawn


def _width(drawn: Table) -> int:
    console = Console(width=_WIDEST, **_PLAIN)
    return console.measure(drawn).maximum


def _columns() -> int:
    """The columns of stdout's terminal, and many if it is no terminal."""
    return max(_LEAST_COLUMNS, shutil.get_terminal_size((_MANY_COLUMNS, 0)).columns)


def _printed(*drawn: Table) -> str:
    text = io.StringIO()
    Console(file=text, width=_columns(), **_PLAIN).print(*drawn)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


_PLAIN: dict[str, Any] = {"markup": False, "emoji": False}
"""Names and records are shown as they are."""
_OPERATORS = ("operator", "tasks", "in", "out", "busy", "waiting", "blocked", "idle")
_WIDEST = 10_000
_LEAST_COLUMNS = 60
_MANY_COLUMNS = 200
_SHORTEST_WINDOW = 0.1
"""Seconds below which a rate is chance."""
