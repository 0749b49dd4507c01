"""Nexmark's queries: events per second and CPU time of Oka's ways and of other systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.peers.flink import FLINK
from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing
from benchmarks.plots.log_bars import METRICS, Bar, Metric, bars_of_group, draw_panels
from benchmarks.schema.rows import Row
from engine.units import rate

Queries = dict[str, list[Row]]


def draw(result: Mapping[str, Any], _rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each batch size and parallelism; a bar for each system and API of a query.

    Runs with checkpoints and at a rate are in the tables only.
    """
    cells: dict[tuple[int, int], Queries] = {}
    for found in result["rows"]:
        row = Row.of(found)
        if row.throughput is not None and not (found.get("interval_seconds") or row.is_open):
            queries = cells.setdefault((found["batch_size"], found["parallelism"]), {})
            queries.setdefault(found["query"], []).append(row)
    return [_draw(result, *cell, queries) for cell, queries in cells.items()]


def _draw(result: Mapping[str, Any], batch: int, parallelism: int, queries: Queries) -> Drawing:
    names = sorted(queries, key=lambda name: -int(name[1:]))  # the first one at the top
    figure = Figure(figsize=(style.WIDTH, 1.6 + 0.55 * len(names)), layout="constrained")
    draw_panels(
        figure,
        _METRICS,
        names,
        lambda metric, at: _bars(metric, queries[names[at]], at),
        _HEIGHT * 0.92,
    )
    ways = {(row.variant.system, row.variant.api): row for rows in queries.values() for row in rows}
    looks = [Patch(color=colors.color(*way), label=row.variant.name) for way, row in ways.items()]
    figure.legend(handles=looks, loc="outside lower center", ncols=len(looks))
    title = f"Nexmark: batch {batch:,}, parallelism {parallelism}"
    figure.suptitle(style.heading(result, title))
    return Drawing(
        f"nexmark_{batch}_{parallelism}",
        title,
        "Bars of each query, events per second: "
        + "; ".join(
            f"{name} "
            + ", ".join(
                f"{row.variant.name} {rate(row.throughput.median)}"
                for row in queries[name]
                if row.throughput
            )
            for name in reversed(names)
        )
        + ".",
        "Medians, from the slowest to the fastest run. × says how many times better Oka is than "
        "Flink SQL, which ran in turn with it. All axes are logarithmic.",
        figure,
    )


def _bars(metric: Metric, rows: Sequence[Row], at: int) -> list[Bar]:
    """The bars of one query, next to each other."""
    flink = next((metric.of_row(row) for row in rows if row.variant.system == FLINK), None)
    return bars_of_group(metric, rows, at, flink, _HEIGHT)


_METRICS = (
    METRICS[0]._replace(axis="events/s"),
    METRICS[1]._replace(axis="CPU seconds per million events"),
)
_HEIGHT = 0.27
