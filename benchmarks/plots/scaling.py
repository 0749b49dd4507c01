"""Throughput, p99 and average latency against parallelism: the three figures of Volga's article.

One figure per payload: a row of panels per metric, a column per batch size, a line per system.
Volga's figures from other machines are gray, as far as they help to read the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing
from benchmarks.schema import references
from benchmarks.schema.references import Reference
from benchmarks.schema.rows import Row, Variant
from engine.units import duration, rate


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each payload that was measured under closed load."""
    closed = [row for row in rows if not row.is_open and row.parallelism is not None]
    names = style.series([row.variant for row in closed])
    return [
        _draw(result, payload, [row for row in closed if row.payload_bytes == payload], names)
        for payload in sorted({row.payload_bytes for row in closed})
    ]


@dataclass(frozen=True)
class _Metric:
    label: str
    unit: str
    of_row: Callable[[Row], float | None]
    of_reference: Callable[[Reference], float | None]


def _draw(
    result: Mapping[str, Any],
    payload: int,
    rows: Sequence[Row],
    names: Mapping[Variant, style.Series],
) -> Drawing:
    batches = sorted({row.batch_size for row in rows}, key=lambda size: size or 0)
    farthest = _BEYOND * max(row.parallelism or 1 for row in rows)
    beside = [
        reference
        for reference in references.volga()
        if reference.payload_bytes == payload and reference.parallelism <= farthest
    ]
    shown = [reference for reference in beside if reference.batch_size in batches]
    figure, axes = style.grid(len(_METRICS), len(batches), height=2.5)
    ticks = sorted(
        {row.parallelism for row in rows if row.parallelism}
        | {tick for tick in _TICKS if shown and tick <= max(r.parallelism for r in shown)}
    )
    for panels, metric in zip(axes, _METRICS, strict=True):
        for panel, batch in zip(panels, batches, strict=True):
            for line in _lines([each for each in shown if each.batch_size == batch]):
                _draw_references(panel, line, metric)
            for variant, system in names.items():
                _draw_system(
                    panel,
                    [row for row in rows if (row.variant, row.batch_size) == (variant, batch)],
                    metric,
                    system,
                )
            style.number_axis(panel, ticks)
            style.log_axis(panel, "y", metric.unit)
    for panel, batch in zip(axes[0], batches, strict=True):
        panel.set_title("its own batches" if batch is None else f"batch {batch:,}")
    style.label_grid(axes, "parallelism", [metric.label for metric in _METRICS])
    title = f"Throughput and latency against parallelism, {payload:,}-byte words"
    figure.suptitle(style.heading(result, title))
    style.legends(
        figure,
        [names[variant].handle for variant in names if any(row.variant == variant for row in rows)],
        [
            style.gray_handle(source, **_LOOKS[source])
            for source in dict.fromkeys(reference.source for reference in shown)
        ],
    )
    return Drawing(
        name=f"scaling_{payload}",
        title=title,
        alt=_alt(payload, rows, names),
        note=_NOTE if shown else _SHORT_NOTE,
        figure=figure,
    )


def _draw_system(panel: Axes, rows: Sequence[Row], metric: _Metric, system: style.Series) -> None:
    line = sorted((row for row in rows if metric.of_row(row)), key=lambda row: row.parallelism or 0)
    spreads = [row.throughput for row in line if row.throughput is not None]
    panel.errorbar(
        [row.parallelism or 0 for row in line],
        [metric.of_row(row) or 0.0 for row in line],
        yerr=style.error(spreads) if metric.unit == "words" else None,
        zorder=3,
        **system.look,
    )


def _draw_references(panel: Axes, line: Sequence[Reference], metric: _Metric) -> None:
    values = [(each.parallelism, metric.of_reference(each)) for each in line]
    known = [(at, value) for at, value in values if value]
    if known:
        panel.plot(
            [at for at, _ in known],
            [value for _, value in known],
            color=colors.GRAY,
            zorder=2,
            **_LOOKS[line[0].source],
        )


def _lines(drawn: Sequence[Reference]) -> list[list[Reference]]:
    """The rows of each curve, by parallelism."""
    lines: dict[str, list[Reference]] = {}
    for reference in sorted(drawn, key=lambda each: each.parallelism):
        lines.setdefault(reference.source, []).append(reference)
    return list(lines.values())


def _alt(payload: int, rows: Sequence[Row], names: Mapping[Variant, style.Series]) -> str:
    best = max(rows, key=lambda row: row.throughput.median if row.throughput else 0.0)
    assert best.throughput is not None
    text = (
        f"Log-log panels per batch size of {payload}-byte words. The most, "
        f"{rate(best.throughput.median)} words per second: {names[best.variant].name}, "
        f"batch {best.batch_size}, parallelism {best.parallelism}."
    )
    latencies = [row for row in rows if row.latency_us]
    if latencies:
        least = min(latencies, key=lambda row: row.p99 or 0.0)
        text += (
            f" The lowest p99 latency, {duration(least.p99 or 0.0)}: {names[least.variant].name}, "
            f"batch {least.batch_size}, parallelism {least.parallelism}."
        )
    return text


_METRICS = (
    _Metric(
        "throughput (words/s)",
        "words",
        lambda row: row.throughput.median if row.throughput else None,
        lambda reference: reference.throughput,
    ),
    _Metric("p99 latency", "time", lambda row: row.p99, lambda reference: reference.p99_us),
    _Metric("average latency", "time", lambda row: row.mean, lambda reference: reference.mean_us),
)
_TICKS = (1, 2, 4, 8, 16, 32)
_BEYOND = 4
"""Published curves are drawn up to so many times the parallelism that was measured here."""
_LOOKS: dict[str, dict[str, Any]] = {
    references.VOLGA_SOURCES["local"]: {"linestyle": (0, (5, 2)), "linewidth": 1.1, "alpha": 0.8},
    references.VOLGA_SOURCES["cluster"]: {"linestyle": (0, (1, 1.5)), "linewidth": 1.3},
    references.VOLGA_SOURCES["volga_local_channels"]: {
        "linestyle": "none",
        "marker": "*",
        "markersize": 9,
        "markerfacecolor": "none",
    },
}
_SHORT_NOTE = (
    "Closed load: as fast as possible. Its latency is mostly time in queues. Both axes are "
    "logarithmic; points are medians, error bars go from the slowest to the fastest run."
)
_NOTE = (
    f"{_SHORT_NOTE} Gray is Volga on the machines that the legend names, not on this one: compare "
    "shapes and orders of magnitude. Its latencies are whole milliseconds up to 10 ms, then steps "
    "of 10 ms, at most 9,990 ms. It was published up to parallelism 32."
)
