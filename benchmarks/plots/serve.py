"""Requests over HTTP: requests per second of each server, CPU time, latencies."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing
from benchmarks.plots.log_bars import METRICS, Bar, Metric, bar, draw_bars
from benchmarks.schema.rows import Row, Spread
from engine.units import duration, rate, three_digits


def draw(result: Mapping[str, Any], _rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each handler, number of clients and load, with a bar for each server.

    Results under overload, and with clients that disconnect, are in the table only.
    """
    cells: dict[_Cell, list[Row]] = {}
    for found in result["rows"]:
        row = Row.of(found)
        if row.throughput is not None and found["handler"] in _HANDLERS:
            cell = _Cell(found["handler"], found["clients"], row.is_open)
            cells.setdefault(cell, []).append(row)
    return [_draw(result, cell, rows) for cell, rows in cells.items()]


class _Cell(NamedTuple):
    handler: str
    clients: int
    is_open: bool


def _draw(result: Mapping[str, Any], cell: _Cell, rows: Sequence[Row]) -> Drawing:
    ordered = sorted(rows, key=lambda row: row.throughput.median if row.throughput else 0.0)
    latencies = cell.is_open or cell.clients == 1
    metrics = [
        each
        for each in (_LATENCIES if latencies else _RATES)
        if any(each.of_row(row) for row in ordered)
    ]
    earlier = {} if latencies else _earlier(cell)
    figure = Figure(figsize=(style.WIDTH, 1.6 + 0.36 * len(ordered)), layout="constrained")
    panels = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        draw_bars(panel, metric, [_bar(metric, row, ordered, at) for at, row in enumerate(ordered)])
    for at, row in enumerate(ordered):
        if before := earlier.get((row.variant.system, row.variant.api)):
            panels[0].plot([before], [at], marker="|", markersize=16, color=colors.GRAY)
    panels[0].set_yticks(range(len(ordered)), [row.variant.name for row in ordered])
    if earlier:
        mark = Line2D([], [], marker="|", linestyle="", color=colors.GRAY, markersize=12)
        figure.legend([mark], ["on another day, 2 cores"], loc="outside lower center")
    clients = "one client" if cell.clients == 1 else f"{cell.clients} connections"
    load = "half of the closed load" if cell.is_open else "closed load"
    title = f"Requests over HTTP: {_HANDLERS[cell.handler]}, {clients}, {load}"
    figure.suptitle(style.heading(result, title))
    return Drawing(
        f"serve_{cell.handler}_{cell.clients}_{'half' if cell.is_open else 'closed'}",
        title,
        "Bars from most to least requests per second: "
        + "; ".join(
            f"{row.variant.name} {rate(row.throughput.median)}"
            + (f", p50 {duration(row.p50)}, p99 {duration(row.p99)}" if row.p50 and row.p99 else "")
            for row in reversed(ordered)
            if row.throughput
        )
        + ".",
        "Medians, from the slowest to the fastest run. × is the ratio to Ray Serve as it comes. "
        "Requests of half load arrive at half of each server's own closed rate, at random moments, "
        "and are timed from then on. All axes are logarithmic.",
        figure,
    )


def _bar(metric: Metric, row: Row, rows: Sequence[Row], at: int) -> Bar:
    """The bar of a row, with the ratio to Ray Serve's default."""
    default = [each for each in rows if each.variant.name == _DEFAULT]
    found, other = metric.of_row(row), metric.of_row(default[0]) if default else None
    ratio = ""
    if found and other and found is not other and row is not default[0]:
        better = found.median / other.median
        ratio = f"  {three_digits(better if metric.more_is_better else 1 / better)}×"
    return bar(metric, row, at, ratio)


def _earlier(cell: _Cell) -> dict[tuple[str, str | None], float]:
    """Requests per second of others on a machine of 2 cores, alone, on another day."""
    with _EARLIER.open(encoding="utf-8", newline="") as file:
        return {
            (found["system"], found["way"]): float(found["requests_per_s"])
            for found in csv.DictReader(file)
            if (found["handler"], int(found["clients"])) == (cell.handler, cell.clients)
        }


def _latency(name: str, field: str) -> Metric:
    def spread(row: Row) -> Spread | None:
        value = (row.latency_us or {}).get(field)
        return Spread(value, value, value) if value else None

    return Metric(name, "latency", "time", duration, spread, False)


def _per_thousand(row: Row) -> Spread | None:
    return row.cpu and Spread(row.cpu.median / 1e3, row.cpu.min / 1e3, row.cpu.max / 1e3)


_RATES = (
    METRICS[0]._replace(axis="requests/s"),
    METRICS[1]._replace(axis="CPU seconds per 1,000 requests", of_row=_per_thousand),
    _latency("p99 latency", "p99"),
)
_LATENCIES = (_latency("p50", "p50"), _latency("p99", "p99"), _latency("p99.9", "p999"))
_HANDLERS = {
    "noop": "an answer and no more",
    "hops": "ten operators, five on each path",
    "ensemble": "ten operators, one answer",
}
_DEFAULT = "ray_serve default"
_EARLIER = Path(__file__).parents[1] / "data" / "serve_2core.csv"
