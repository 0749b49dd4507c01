"""Throughput, p99 and average latency against parallelism: the three figures of Volga's article.

One figure per way of measuring, a row of panels per metric, a column per payload, a colour per
batch size; what Volga reaches on other machines is drawn beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from benchmarks import references
from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.references import Reference
from benchmarks.rows import Row, Variant
from engine.units import duration, rate


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each way in which Oka ran under closed load, or else for each system."""
    closed = [row for row in rows if not row.is_open and row.parallelism is not None]
    variants = list(dict.fromkeys(row.variant for row in closed))
    ours = [variant for variant in variants if variant.system == "oka"]
    others = [variant for variant in variants if variant not in ours] if ours else []
    return [
        _draw(result, variant, [row for row in closed if row.variant == variant], closed, others)
        for variant in ours or variants
    ]


@dataclass(frozen=True)
class _Metric:
    label: str
    unit: str
    of_row: Callable[[Row], float | None]
    of_reference: Callable[[Reference], float | None]


def _draw(
    result: Mapping[str, Any],
    variant: Variant,
    rows: Sequence[Row],
    closed: Sequence[Row],
    others: Sequence[Variant],
) -> Drawing:
    payloads = sorted({row.payload_bytes for row in rows})
    batches = {row.batch_size for row in rows}
    beside = [
        row
        for row in closed
        if row.variant in others and row.payload_bytes in payloads and row.batch_size in batches
    ]
    drawn = [
        reference
        for reference in references.volga()
        if reference.payload_bytes in payloads and reference.batch_size in batches
    ]
    # A single payload would be one narrow column: its metrics stand side by side.
    flat = len(payloads) == 1
    shape = (1, len(_METRICS)) if flat else (len(_METRICS), len(payloads))
    figure, axes = style.grid(*shape, share=not flat)
    ticks = sorted(
        {row.parallelism for row in rows if row.parallelism}
        | {tick for tick in _TICKS if drawn and tick <= max(r.parallelism for r in drawn)}
    )
    for at, metric in enumerate(_METRICS):
        for column, payload in enumerate(payloads):
            panel = axes[0][at] if flat else axes[at][column]
            for reference in _lines([r for r in drawn if r.payload_bytes == payload]):
                _draw_references(panel, reference, metric)
            for other, marker in zip(others, _OTHER_MARKERS, strict=False):
                _draw_others(
                    panel,
                    [r for r in beside if r.variant == other and r.payload_bytes == payload],
                    metric,
                    marker,
                )
            _draw_ours(panel, [row for row in rows if row.payload_bytes == payload], metric)
            style.number_axis(panel, ticks)
            style.log_axis(panel, "y", metric.unit)
            if flat:
                panel.set_title(f"{metric.label}, {payload:,}-byte words")
                panel.set_ylabel(metric.label)
                panel.set_xlabel(_X)
            elif at == 0:
                panel.set_title(f"{payload:,}-byte words")
    if not flat:
        style.label_grid(axes, _X, [metric.label for metric in _METRICS])
    name = f"{variant.name} ({variant.way})" if variant.way else variant.name
    title = f"{name}: throughput and latency against parallelism"
    figure.suptitle(style.heading(result, title))
    handles = [style.gray_handle(f"{variant.name} (points: median, bars: min to max)")]
    handles += [
        style.gray_handle(f"{other.name}, same run", linestyle="none", marker=marker)
        for other, marker in zip(others, _OTHER_MARKERS, strict=False)
        if any(row.variant == other for row in beside)
    ]
    handles += [
        style.gray_handle(source, **_LOOKS[source])
        for source in dict.fromkeys(reference.source for reference in drawn)
    ]
    style.legends(figure, style.batch_handles(rows), handles)
    return Drawing(
        name=_file_name(variant),
        title=title,
        alt=_alt(variant, rows),
        note=_NOTE if drawn else _SHORT_NOTE,
        figure=figure,
    )


def _draw_ours(panel: Axes, rows: Sequence[Row], metric: _Metric) -> None:
    for batch in sorted({row.batch_size for row in rows}, key=lambda size: size or 0):
        line = sorted(
            (row for row in rows if row.batch_size == batch and metric.of_row(row)),
            key=lambda row: row.parallelism or 0,
        )
        spreads = [row.throughput for row in line if row.throughput is not None]
        panel.errorbar(
            [row.parallelism or 0 for row in line],
            [metric.of_row(row) or 0.0 for row in line],
            yerr=style.error(spreads) if metric.unit == "words" else None,
            color=style.batch_color(batch),
            marker=style.batch_marker(batch),
            zorder=3,
        )


def _draw_others(panel: Axes, rows: Sequence[Row], metric: _Metric, marker: str) -> None:
    for row in rows:
        value = metric.of_row(row)
        if value:
            panel.plot(
                [row.parallelism or 0],
                [value],
                linestyle="none",
                marker=marker,
                markersize=7,
                markeredgewidth=1.6,
                color=style.batch_color(row.batch_size),
                zorder=4,
            )


def _draw_references(panel: Axes, line: Sequence[Reference], metric: _Metric) -> None:
    values = [(each.parallelism, metric.of_reference(each)) for each in line]
    known = [(at, value) for at, value in values if value]
    if known:
        panel.plot(
            [at for at, _ in known],
            [value for _, value in known],
            color=style.batch_color(line[0].batch_size),
            zorder=2,
            **_LOOKS[line[0].source],
        )


def _lines(drawn: Sequence[Reference]) -> list[list[Reference]]:
    """The references of one payload, those of one curve together, by parallelism."""
    lines: dict[tuple[str, int], list[Reference]] = {}
    for reference in sorted(drawn, key=lambda each: each.parallelism):
        lines.setdefault((reference.source, reference.batch_size), []).append(reference)
    return list(lines.values())


def _alt(variant: Variant, rows: Sequence[Row]) -> str:
    best = max(rows, key=lambda row: row.throughput.median if row.throughput else 0.0)
    assert best.throughput is not None
    text = (
        f"Log-log panels per payload of {variant.name}. The most, "
        f"{rate(best.throughput.median)} words per second, at {best.payload_bytes} bytes, "
        f"batch {best.batch_size}, parallelism {best.parallelism}."
    )
    latencies = [row for row in rows if row.latency_us]
    if latencies:
        least = min(latencies, key=lambda row: row.p99 or 0.0)
        text += (
            f" The lowest p99 latency, {duration(least.p99 or 0.0)}, at {least.payload_bytes} "
            f"bytes, batch {least.batch_size}, parallelism {least.parallelism}."
        )
    return text


def _file_name(variant: Variant) -> str:
    return re.sub(r"\W+", "_", f"scaling {variant.name} {variant.way}".strip())


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
_X = "parallelism (tasks per operator)"
_TICKS = (1, 2, 4, 8, 16, 32)
_OTHER_MARKERS = ("x", "+", "1", "2", "3", "4")
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
    "logarithmic; error bars go from the slowest to the fastest run."
)
_NOTE = (
    f"{_SHORT_NOTE} Volga's curves are of the machines that the legend names, not of this one: "
    "compare shapes and orders of magnitude. Its latencies are whole milliseconds up to 10 ms, "
    "then steps of 10 ms, at most 9,990 ms."
)
