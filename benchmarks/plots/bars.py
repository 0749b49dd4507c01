"""Systems that were measured in one run: words per second, CPU time, p99 latency.

A figure for each payload, batch size, parallelism and load, with the ratio to the baseline at every
bar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.plots.log_bars import METRICS, Bar, Metric, bar, draw_bars
from benchmarks.schema.rows import Row
from engine.units import rate, three_digits


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each cell; systems without a batch size are in the figures of all sizes."""
    cells: dict[_Cell, list[Row]] = {}
    for row in rows:
        cells.setdefault(_Cell.of(row), []).append(row)
    for cell, members in cells.items():
        if cell.batch_size is not None:
            members += cells.get(cell._replace(batch_size=None), [])
    drawn = [
        (cell, members)
        for cell, members in cells.items()
        if cell.batch_size is not None
        or not any(each != cell and each._replace(batch_size=None) == cell for each in cells)
    ]
    return [_draw(result, cell, members) for cell, members in drawn]


class _Cell(NamedTuple):
    payload_bytes: int
    batch_size: int | None
    parallelism: int
    load: str

    @classmethod
    def of(cls, row: Row) -> _Cell:
        return cls(row.payload_bytes, row.batch_size, row.parallelism or 1, row.load)


def _draw(result: Mapping[str, Any], cell: _Cell, rows: Sequence[Row]) -> Drawing:
    ordered = sorted(rows, key=lambda row: row.throughput.median if row.throughput else 0.0)
    names = style.series([row.variant for row in ordered])
    baseline = _baseline(ordered)
    metrics = [metric for metric in METRICS if any(metric.of_row(row) for row in ordered)]
    figure = Figure(figsize=(style.WIDTH, 1.6 + 0.36 * len(ordered)), layout="constrained")
    panels = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        draw_bars(
            panel, metric, [_bar(metric, row, at, baseline) for at, row in enumerate(ordered)]
        )
    panels[0].set_yticks(range(len(ordered)), [names[row.variant].name for row in ordered])
    name = f"{cell.payload_bytes:,}-byte words"
    if cell.batch_size is not None:
        name += f", batch {cell.batch_size:,}"
    name += f", parallelism {cell.parallelism}"
    if rows[0].is_open:
        name += f", {rows[0].load_name}"
    title = f"Systems in the same run: {name}"
    reference = names[baseline.variant].name
    figure.suptitle(style.heading(result, f"{title} (× of {reference})"))
    return Drawing(
        "systems_" + "_".join(str(part).replace(".", "_") for part in cell),
        title,
        f"Bars from most to least words per second, with the ratio to {reference}: "
        + "; ".join(
            f"{names[row.variant].name} {rate(row.throughput.median)}"
            for row in reversed(ordered)
            if row.throughput
        )
        + ".",
        f"Medians, from the slowest to the fastest run; × is the ratio to {reference}. All axes "
        "are logarithmic.",
        figure,
    )


def _bar(metric: Metric, row: Row, at: int, baseline: Row) -> Bar:
    """The bar of a row with the ratio to the baseline."""
    found, reference = metric.of_row(row), metric.of_row(baseline)
    ratio = f"  {three_digits(found.median / reference.median)}×" if found and reference else ""
    return bar(metric, row, at, ratio)


def _baseline(rows: Sequence[Row]) -> Row:
    """The pyzmq pair, or else the fastest other system, or else the slowest of Oka."""
    others = [row for row in rows if row.variant.system != "oka"]
    pairs = [row for row in others if row.variant.system == _PAIR]
    return (pairs or others[-1:] or list(rows))[0]


_PAIR = "pyzmq_msgpack_pair"
