"""Nexmark's queries: events per second and CPU time of Oka's ways and of other systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.peers.flink import FLINK
from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing
from benchmarks.plots.log_bars import METRICS, Bar, Metric, bar, draw_bars
from benchmarks.schema.rows import Row, Spread
from engine.units import rate, three_digits

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
    panels = figure.subplots(1, len(_METRICS), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, _METRICS, strict=True):
        bars = [each for at, name in enumerate(names) for each in _bars(metric, queries[name], at)]
        draw_bars(panel, metric, bars, height=_HEIGHT * 0.92)
    panels[0].set_yticks(range(len(names)), names)
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
    places = [at + _HEIGHT * ((len(rows) - 1) / 2 - number) for number in range(len(rows))]
    return [
        bar(metric, row, place, _better(metric, row, flink))
        for row, place in zip(rows, places, strict=True)
    ]


def _better(metric: Metric, row: Row, flink: Spread | None) -> str:
    found = metric.of_row(row)
    if row.variant.system != "oka" or not flink or not found:
        return ""
    ratio = found.median / flink.median
    return f"  {three_digits(ratio if metric.more_is_better else 1 / ratio)}×"


_METRICS = (
    METRICS[0]._replace(axis="events/s"),
    METRICS[1]._replace(axis="CPU seconds per million events"),
)
_HEIGHT = 0.27
