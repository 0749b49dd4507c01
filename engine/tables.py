"""Results as a person reads them: tables of a finished job."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from engine.units import counted, duration, rate, three_digits

if TYPE_CHECKING:
    from engine.metrics import JobResult, JobStatistics, Latency


def result_table(result: JobResult) -> str:
    """The job's throughput, latency and cost, and a row per operator.

    Nothing is told that the job was too short for: no rate of a few milliseconds, no percentile
    that so few markers have, no cost of a million records where there were ten.
    """
    statistics = result.statistics
    summary = Table(box=box.SIMPLE, show_header=False, title=result.config.name)
    summary.add_column(style="bold")
    summary.add_column()
    summary.add_row("records at the sinks", f"{statistics.records:,}")
    if statistics.records:
        summary.add_row("throughput", throughput(statistics))
    if statistics.latency.count:
        summary.add_row("latency", percentiles(statistics.latency))
    if statistics.clock_uncertainty_us:
        summary.add_row(
            "clocks", f"hosts' offsets known to ±{duration(statistics.clock_uncertainty_us)}"
        )
    if statistics.reconnects:
        summary.add_row(
            "reconnects",
            f"{statistics.reconnects}, longest interruption "
            f"{duration(statistics.longest_interruption_ms * 1e3)}",
        )
    summary.add_row("cpu", cost(statistics.cpu_seconds, statistics.records))
    if statistics.refused_connections or statistics.dropped_messages:
        summary.add_row(
            "strangers",
            f"{counted(statistics.refused_connections, 'connection')} refused, "
            f"{counted(statistics.dropped_messages, 'message')} dropped",
        )
    summary.add_row("wall time", f"{duration(result.seconds * 1e6)}, start and tear-down included")

    operators = Table(box=box.SIMPLE, header_style="bold")
    for column in ("operator", "tasks", "in", "out", "busy", "waiting", "blocked", "idle"):
        operators.add_column(column, justify="left" if column == "operator" else "right")
    for operator in statistics.operators:
        shares = (operator.busy, operator.waiting, operator.blocked, operator.idle)
        operators.add_row(
            operator.name,
            f"{operator.parallelism}",
            f"{operator.records_in:,}",
            f"{operator.records_out:,}",
            *(f"{share:.0%}" for share in shares),
        )
    return _printed(summary, operators)


def throughput(statistics: JobStatistics) -> str:
    """Records per second over the steady window, where it is long enough to tell."""
    seconds = duration(statistics.window_seconds * 1e6)
    if statistics.window_seconds < _SHORTEST_WINDOW:
        return f"all within {seconds}: too short for a rate"
    return (
        f"{rate(statistics.throughput)} records/s over {seconds} "
        f"(sources {rate(statistics.source_throughput)})"
    )


def percentiles(latency: Latency) -> str:
    """The percentiles that so many markers have: beyond each there is at least one."""
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
    """CPU time of all workers, and what so many records take, as many as there were."""
    total = f"{duration(cpu_seconds * 1e6)} in all"
    for many, name in ((1_000_000, "million"), (1000, "thousand")):
        if records >= many:
            seconds = three_digits(cpu_seconds / records * many)
            return f"{seconds} s per {name} records ({total})"
    return total


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table; the first two columns are names, the others numbers."""
    drawn = Table(box=box.SIMPLE, header_style="bold")
    for at, column in enumerate(columns):
        drawn.add_column(column, justify="left" if at < 2 else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*row)
    return _printed(drawn)


def _printed(*drawn: Table) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(*drawn)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


_SHORTEST_WINDOW = 0.1
"""Seconds below which a rate is chance: a batch comes or does not."""
