"""Latency (p50, p99) against offered load: panels by payload and batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.schema.rows import Row
from engine.units import duration, rate


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each parallelism, of the rows with words offered at a rate."""
    offered = [row for row in rows if row.is_open and row.latency_us]
    parallelisms = sorted({row.parallelism or 1 for row in offered})
    return [
        _draw(result, [row for row in offered if (row.parallelism or 1) == tasks], tasks)
        for tasks in parallelisms
    ]


def _draw(result: Mapping[str, Any], rows: Sequence[Row], tasks: int) -> Drawing:
    payloads = sorted({row.payload_bytes for row in rows})
    batches = sorted({row.batch_size for row in rows}, key=lambda size: size or 0)
    names = style.series([row.variant for row in rows])
    figure, axes = style.grid(len(payloads), len(batches), height=2.9)
    for panels, payload in zip(axes, payloads, strict=True):
        for panel, batch in zip(panels, batches, strict=True):
            for variant, system in names.items():
                line = sorted(
                    (
                        row
                        for row in rows
                        if (row.variant, row.payload_bytes, row.batch_size)
                        == (variant, payload, batch)
                    ),
                    key=_rate,
                )
                look = system.look
                panel.plot(
                    [_rate(row) for row in line], [row.p50 or math.nan for row in line], **look
                )
                panel.plot(
                    [_rate(row) for row in line],
                    [row.p99 or math.nan for row in line],
                    linestyle="--",
                    markerfacecolor="white",
                    **look,
                )
            style.log_axis(panel, "x", "words")
            style.log_axis(panel, "y", "time")
            panel.set_title(
                f"{payload:,}-byte words" + (f", batch {batch:,}" if batch is not None else "")
            )
    style.label_grid(axes, "offered load (words/s)", ["latency"] * len(payloads))
    title = f"Latency against offered load, parallelism {tasks}"
    figure.suptitle(style.heading(result, title))
    style.legends(
        figure,
        [system.handle for system in names.values()],
        [
            style.gray_handle("p50 (filled)", marker="o"),
            style.gray_handle("p99 (hollow)", marker="o", linestyle="--", markerfacecolor="white"),
        ],
    )
    lowest = min(rows, key=lambda row: row.p99 or 0.0)
    return Drawing(
        f"load_parallelism_{tasks}",
        title,
        "Log-log panels per payload and batch size. The lowest p99, "
        f"{duration(lowest.p99 or 0.0)}: {names[lowest.variant].name} at "
        f"{rate(_rate(lowest))} words per second, {lowest.payload_bytes} bytes, "
        f"batch {lowest.batch_size}.",
        "Open load: words are offered at a rate, and a word's latency begins when it should have "
        "left, so that a source that stalls cannot hide latency.",
        figure,
    )


def _rate(row: Row) -> float:
    """Words per second that were offered; if unknown, those that arrived."""
    if row.offered:
        return row.offered
    return row.throughput.median if row.throughput else 0.0
