"""Works of connectors: records per second and CPU time of Oka and of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing
from benchmarks.plots.log_bars import METRICS, Bar, Metric, bar, draw_bars
from benchmarks.schema.rows import Row
from engine.units import rate, three_digits

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
    panels = figure.subplots(1, len(_METRICS), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, _METRICS, strict=True):
        bars = [each for at, name in enumerate(names) for each in _bars(metric, works[name], at)]
        draw_bars(panel, metric, bars, height=_HEIGHT * 0.92)
    panels[0].set_yticks(range(len(names)), names)
    ways = {row.variant.name: row.variant for rows in works.values() for row in rows}
    looks = [
        Patch(color=colors.color(way.system, way.api), label=name) for name, way in ways.items()
    ]
    figure.legend(handles=looks, loc="outside lower center", ncols=min(len(looks), 4))
    title = f"Connectors: parallelism {parallelism}"
    figure.suptitle(style.heading(result, title))
    told = (
        f"{name} "
        + ", ".join(
            f"{row.variant.name} {rate(row.throughput.median)}" for row in rows if row.throughput
        )
        for name, rows in works.items()
    )
    return Drawing(
        f"connectors_{parallelism}",
        title,
        "Bars of each work, records per second: " + "; ".join(told) + ".",
        "Medians, from the slowest to the fastest run. × says how many times better Oka is than "
        "the first of the others, which ran in turn with it. All axes are logarithmic.",
        figure,
    )


def _bars(metric: Metric, rows: Sequence[Row], at: int) -> list[Bar]:
    """The bars of one work, next to each other."""
    other = next((metric.of_row(row) for row in rows if row.variant.system != "oka"), None)
    bars = []
    for number, row in enumerate(rows):
        better, found = "", metric.of_row(row)
        if row.variant.system == "oka" and other and found:
            ratio = found.median / other.median
            better = f"  {three_digits(ratio if metric.more_is_better else 1 / ratio)}×"
        bars.append(bar(metric, row, at + _HEIGHT * ((len(rows) - 1) / 2 - number), better))
    return bars


_METRICS = (
    METRICS[0]._replace(axis="records/s"),
    METRICS[1]._replace(axis="CPU seconds per million records"),
)
_HEIGHT = 0.27
