"""Results as a person reads them: tables of a finished job."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from engine.metrics import JobResult


def result_table(result: JobResult) -> str:
    """The job's throughput, latency and cost, and a row per operator."""
    summary = Table(box=box.SIMPLE, show_header=False, title=f"job {result.config.name}")
    summary.add_column(style="bold")
    summary.add_column()
    for name, value in _summary(result):
        summary.add_row(name, value)
    operators = Table(box=box.SIMPLE, header_style="bold")
    for column in _OPERATOR_COLUMNS:
        operators.add_column(column, justify="left" if column == "operator" else "right")
    for row in _operators(result):
        operators.add_row(*row)
    return _printed(summary, operators)


def result_html(result: JobResult) -> str:
    """The same as two tables of HTML, for a notebook."""
    summary = [
        f"<tr><th style='text-align: left'>{escape(name)}</th>"
        f"<td style='text-align: left'>{escape(value)}</td></tr>"
        for name, value in _summary(result)
    ]
    operators = [
        "<tr>"
        + "".join(
            f"<td style='text-align: {'right' if at else 'left'}'>{escape(cell)}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in _operators(result)
    ]
    heads = "".join(
        f"<th style='text-align: {'right' if at else 'left'}'>{column}</th>"
        for at, column in enumerate(_OPERATOR_COLUMNS)
    )
    return (
        f"<b>job {escape(result.config.name)}</b>"
        f"<table>{''.join(summary)}</table>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(operators)}</tbody></table>"
    )


def result_line(result: JobResult) -> str:
    """The job's name, records, throughput and latency in a line."""
    statistics = result.statistics
    latency = statistics.latency
    return (
        f"job {result.config.name!r}: {statistics.records:,} records in {result.seconds:.2f} s, "
        f"{rate(statistics.throughput)} records/s"
        + (f", p99 {duration(latency.p99)}" if latency.count else "")
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table; the first two columns are names, the others numbers."""
    drawn = Table(box=box.SIMPLE, header_style="bold")
    for at, column in enumerate(columns):
        drawn.add_column(column, justify="left" if at < 2 else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*row)
    return _printed(drawn)


def rate(per_second: float) -> str:
    """A rate for people: `1.23M`, `45.6k`, `789`."""
    for factor, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if per_second >= factor:
            return f"{per_second / factor:.3g}{suffix}"
    return f"{per_second:.3g}"


def _summary(result: JobResult) -> list[tuple[str, str]]:
    """What is told of the whole job: names and values."""
    statistics = result.statistics
    rows = [
        ("records at the sinks", f"{statistics.records:,}"),
        (
            "throughput",
            f"{rate(statistics.throughput)} records/s over {statistics.window_seconds:.2f} s "
            f"(sources {rate(statistics.source_throughput)})",
        ),
    ]
    latency = statistics.latency
    if latency.count:
        rows.append(
            (
                "latency",
                f"p50 {duration(latency.p50)}, p95 {duration(latency.p95)}, "
                f"p99 {duration(latency.p99)}, p99.9 {duration(latency.p999)}, "
                f"max {duration(latency.max)} ({latency.count:,} markers)",
            )
        )
    if statistics.clock_uncertainty_us:
        known = f"hosts' offsets known to ±{duration(statistics.clock_uncertainty_us)}"
        rows.append(("clocks", known))
    if statistics.reconnects:
        rows.append(
            (
                "reconnects",
                f"{statistics.reconnects}, longest interruption "
                f"{duration(statistics.longest_interruption_ms * 1e3)}",
            )
        )
    rows.append(
        (
            "cpu",
            f"{result.cpu_seconds_per_million:.3f} s per million records "
            f"({statistics.cpu_seconds:.2f} s in all)",
        )
    )
    if statistics.refused_connections or statistics.dropped_messages:
        rows.append(
            (
                "strangers",
                f"{statistics.refused_connections:,} connections refused, "
                f"{statistics.dropped_messages:,} messages dropped",
            )
        )
    rows.append(("wall time", f"{result.seconds:.2f} s, start and tear-down included"))
    return rows


def _operators(result: JobResult) -> list[tuple[str, ...]]:
    """A row for each operator, as `_OPERATOR_COLUMNS` names them."""
    return [
        (
            operator.name,
            f"{operator.parallelism}",
            f"{operator.records_in:,}",
            f"{operator.records_out:,}",
            *(f"{share:.0%}" for share in (operator.busy, operator.blocked, operator.idle)),
        )
        for operator in result.statistics.operators
    ]


def _printed(*drawn: Table) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(*drawn)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def duration(microseconds: float) -> str:
    """A duration for people: `85 µs`, `1.2 ms`, `3.4 s`."""
    if microseconds < 1e3:
        return f"{microseconds:.3g} µs"
    if microseconds < 1e6:
        return f"{microseconds / 1e3:.3g} ms"
    return f"{microseconds / 1e6:.3g} s"


_OPERATOR_COLUMNS = ("operator", "tasks", "in", "out", "busy", "blocked", "idle")
