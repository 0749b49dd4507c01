"""The whole distribution of latency from the histograms: a panel per batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.schema.rows import CLOSED, Row
from engine.network import LatencyHistogram


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """One figure: the smallest payload and parallelism, under open load if there are such rows."""
    known = [row for row in rows if row.histogram is not None]
    if not known:
        return []
    load = min((row.load for row in known if row.is_open), default=CLOSED)
    known = [row for row in known if row.load == load]
    payload = min(row.payload_bytes for row in known)
    known = [row for row in known if row.payload_bytes == payload]
    tasks = min(row.parallelism or 1 for row in known)
    known = [row for row in known if (row.parallelism or 1) == tasks]
    batches = sorted({row.batch_size for row in known}, key=lambda size: size or 0)
    names = style.series([row.variant for row in known])
    figure, (panels,) = style.grid(1, len(batches), height=3.8)
    farthest = 1.0
    for panel, batch in zip(panels, batches, strict=True):
        for variant, system in names.items():
            for row in known:
                if row.variant == variant and row.batch_size == batch and row.histogram:
                    nines, latencies = _curve(LatencyHistogram.from_bytes(row.histogram))
                    farthest = max(farthest, nines[-1])
                    panel.plot(
                        nines,
                        latencies,
                        markevery=max(1, round(len(nines) / 5)),
                        **system.look,
                    )
        panel.set_title(f"batch {batch:,}" if batch is not None else "its own batches")
        style.log_axis(panel, "y", "time")
    ticks = range(math.floor(farthest) + 1)
    for panel in panels:
        panel.set_xticks(list(ticks), [_LABELS[tick] for tick in ticks], fontsize=8.5)
    style.label_grid([panels], "percentile", ["latency"])
    cell = f"{payload:,}-byte words, parallelism {tasks}, {known[0].load_name}"
    title = f"Distribution of latency: {cell}"
    figure.suptitle(style.heading(result, title))
    style.legends(figure, *([system.handle] for system in names.values()))
    return [
        Drawing(
            "distribution",
            title,
            "A panel per batch size: latency on a log axis against the percentile, a curve for "
            f"each of {', '.join(system.name for system in names.values())}. "
            "The table has p50 to the maximum of every row.",
            "Each step to the right is ten times rarer. A curve ends where one marker remains.",
            figure,
        )
    ]


def _curve(histogram: LatencyHistogram) -> tuple[list[float], list[float]]:
    """Latencies in µs by the number of nines: 1 is the 90th percentile, 2 the 99th."""
    most = min(math.log10(max(histogram.count, 10)), float(len(_LABELS) - 1))
    nines = [most * at / _POINTS for at in range(_POINTS + 1)]
    return nines, [histogram.percentile(100.0 * (1.0 - 10.0**-nine)) for nine in nines]


_LABELS = ("min", "90", "99", "99.9", "99.99", "99.999")
_POINTS = 100
