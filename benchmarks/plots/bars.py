"""Systems beside one another, measured in one run: words per second, CPU time, p99 latency.

A figure for each payload, batch size, parallelism and load, with the ratio to the baseline written
at every bar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.rows import Row, Spread
from engine.units import duration, rate


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each cell; systems without batches of their choice are in those of all sizes."""
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


class _Metric(NamedTuple):
    label: str
    axis: str
    unit: str
    written: Callable[[float], str]
    of_row: Callable[[Row], Spread | None]


def _draw(result: Mapping[str, Any], cell: _Cell, rows: Sequence[Row]) -> Drawing:
    ordered = sorted(rows, key=lambda row: row.throughput.median if row.throughput else 0.0)
    names = style.series([row.variant for row in ordered])
    baseline = _baseline(ordered)
    metrics = [metric for metric in _METRICS if any(metric.of_row(row) for row in ordered)]
    figure = Figure(
        figsize=(3.0 + 4.0 * len(metrics), 1.9 + 0.36 * len(ordered)), layout="constrained"
    )
    panels = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        _bars(panel, metric, ordered, baseline)
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
        f"Medians, from the slowest to the fastest run; × is the ratio to {reference}. Oka's bars "
        "have the colour of the batch size, others are gray. All axes are logarithmic.",
        figure,
    )


def _bars(panel: Axes, metric: _Metric, rows: Sequence[Row], baseline: Row) -> None:
    reference = metric.of_row(baseline)
    known = [(at, row, spread) for at, row in enumerate(rows) if (spread := metric.of_row(row))]
    panel.barh(
        [at for at, _, _ in known],
        [spread.median for _, _, spread in known],
        xerr=style.error([spread for _, _, spread in known]),
        color=[
            style.batch_color(row.batch_size) if row.variant.system == "oka" else _PEER
            for _, row, _ in known
        ],
        error_kw={"elinewidth": 1, "ecolor": "#333333"},
    )
    least = min(spread.min or spread.median for _, _, spread in known)
    most = max(spread.max for _, _, spread in known)
    # A log axis has no zero to start bars from. A third of it is for the figures at their ends.
    start = least / 2
    panel.set_xscale("log")
    panel.set_xlim(start, most * (most / start) ** 0.5)
    for at, _, spread in known:
        ratio = f"  {spread.median / reference.median:.3g}×" if reference else ""
        panel.annotate(
            f"{metric.written(spread.median)}{ratio}",
            (spread.max, at),
            xytext=(5, 0),
            textcoords="offset points",
            verticalalignment="center",
            fontsize=9,
        )
    style.log_axis(panel, "x", metric.unit)
    panel.set_xlabel(metric.axis)
    panel.set_title(metric.label)
    panel.grid(visible=False, axis="y")


def _baseline(rows: Sequence[Row]) -> Row:
    """The pyzmq pair, or else the fastest other system, or else the slowest of Oka."""
    others = [row for row in rows if row.variant.system != "oka"]
    pairs = [row for row in others if row.variant.system == _PAIR]
    return (pairs or others[-1:] or list(rows))[0]


def _p99(row: Row) -> Spread | None:
    return Spread(row.p99, row.p99, row.p99) if row.p99 else None


_METRICS = (
    _Metric("throughput (more is better)", "words/s", "words", rate, lambda row: row.throughput),
    _Metric(
        "CPU time (less is better)",
        "CPU seconds per million words",
        "seconds",
        lambda seconds: f"{seconds:.3g} s",
        lambda row: row.cpu,
    ),
    _Metric("p99 latency (less is better)", "latency", "time", duration, _p99),
)
_PAIR = "pyzmq_msgpack_pair"
_PEER = "#9a9a9a"
