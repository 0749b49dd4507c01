"""Works, of connectors and others: records per second and CPU time of Oka and of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing
from benchmarks.plots.log_bars import METRICS, Bar, Metric, bars_of_group, draw_panels
from benchmarks.schema.rows import Row
from engine.units import rate

Works = dict[str, list[Row]]


def draw(result: Mapping[str, Any], _rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each parallelism; a bar for each system of a work."""
    cells: dict[int, Works] = {}
    for found in result["rows"]:
        if (row := Row.of(found)).throughput is not None:
            works = cells.setdefault(found["parallelism"], {})
            works.setdefault(found["work"], []).append(row)
    return [_draw(result, *cell) for cell in cells.items()]


def _draw(result: Mapping[str, Any], parallelism: int, works: Works) -> Drawing:
    names = list(works)[::-1]  # the first one at the top
    figure = Figure(figsize=(style.WIDTH, 1.6 + 0.6 * len(names)), layout="constrained")
    draw_panels(
        figure,
        _METRICS,
        names,
        lambda metric, at: _bars(metric, works[names[at]], at),
        _HEIGHT * 0.92,
    )
    ways = {row.variant.name: row.variant for rows in works.values() for row in rows}
    looks = [
        Patch(color=colors.color(way.system, way.api), label=name) for name, way in ways.items()
    ]
    figure.legend(handles=looks, loc="outside lower center", ncols=min(len(looks), 4))
    benchmark = result["benchmark"]
    title = f"{benchmark.capitalize().replace('-', ' ')}: parallelism {parallelism}"
    figure.suptitle(style.heading(result, title))
    told = (
        f"{name} "
        + ", ".join(
            f"{row.variant.name} {rate(row.throughput.median)}" for row in rows if row.throughput
        )
        for name, rows in works.items()
    )
    return Drawing(
        f"{benchmark.replace('-', '_')}_{parallelism}",
        title,
        "Bars of each work, records per second: " + "; ".join(told) + ".",
        "Medians, from the slowest to the fastest run. × says how many times better Oka is than "
        "the first of the others, which ran in turn with it. All axes are logarithmic.",
        figure,
    )


def _bars(metric: Metric, rows: Sequence[Row], at: int) -> list[Bar]:
    """The bars of one work, next to each other."""
    other = next((metric.of_row(row) for row in rows if row.variant.system != "oka"), None)
    return bars_of_group(metric, rows, at, other, _HEIGHT)


_METRICS = (
    METRICS[0]._replace(axis="records/s"),
    METRICS[1]._replace(axis="CPU seconds per million records"),
)
_HEIGHT = 0.27
