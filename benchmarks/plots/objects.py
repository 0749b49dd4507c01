"""Many objects in S3: the rate of each, and of all together over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing


def draw(result: Mapping[str, Any]) -> Drawing | None:
    """One figure of a result in `oka.bench.s3/1`; None if no job was successful."""
    jobs = [job for job in result["jobs"] if job["error"] is None]
    if not jobs:
        return None
    operation = result["operation"]
    settings = result["settings"]
    with matplotlib.rc_context(style.RC):
        figure, ((left, right),) = style.grid(1, 2, height=3.8, share=False)
        _distribution(left, jobs, _PYWREN[operation])
        _over_time(right, jobs)
        title = (
            f"{len(jobs)} objects of {settings['object_bytes'] / 1e6:,.0f} MB, {operation}, "
            f"{settings['workers']} at one moment"
        )
        failed = len(result["jobs"]) - len(jobs)
        if failed:
            title += f" ({failed} failed)"
        figure.suptitle(style.heading(result, title))
        style.legends(
            figure,
            [
                Line2D([], [], color=_COLOR, linewidth=6, alpha=0.6, label="this run"),
                Line2D(
                    [],
                    [],
                    color=_PYWREN_COLOR,
                    linestyle="--",
                    label=f"per object in PyWren, about {_PYWREN[operation]} MB/s (1,800 objects "
                    "of 2 GB, AWS Lambda; published in\n“Microservices and Terabits”; all together "
                    f"{_PYWREN_ALL[operation]} GB/s at the peak)",
                ),
            ],
        )
    alt = (
        f"Left: a histogram of the rate of each of {len(jobs)} objects. Right: the rate of all "
        "together over time."
    )
    return Drawing(f"s3_{operation}", title, alt, _NOTE, figure)


def _distribution(panel: Axes, jobs: Sequence[Mapping[str, Any]], pywren: int) -> None:
    rates = [job["bytes_per_second"] / 1e6 for job in jobs]
    panel.hist(rates, bins=min(40, max(5, len(rates) // 3)), color=_COLOR, alpha=0.6)
    panel.axvline(pywren, color=_PYWREN_COLOR, linestyle="--")
    panel.set_xlim(left=0)
    panel.set_xlabel("rate of an object (MB/s)")
    panel.set_ylabel("objects")
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_title("distribution")


def _over_time(panel: Axes, jobs: Sequence[Mapping[str, Any]]) -> None:
    edges, rates = together(jobs)
    panel.stairs(rates / 1e6, edges, color=_COLOR, fill=True, alpha=0.6)
    panel.set_ylim(bottom=0)
    panel.set_xlim(0, edges[-1])
    panel.set_xlabel("seconds since the first job began to move bytes")
    panel.set_ylabel("rate of all jobs (MB/s)")
    panel.set_title("all together")


def together(jobs: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    """Edges of periods in seconds from the first start, and bytes per second in each.

    A job's bytes are taken to flow evenly from its start to its stop.
    """
    first = min(job["start"] for job in jobs)
    starts = np.array([job["start"] for job in jobs]) - first
    stops = np.maximum(np.array([job["stop"] for job in jobs]) - first, starts + 1e-9)
    sizes = np.array([job["bytes"] for job in jobs], dtype=np.float64)
    edges = np.linspace(0.0, float(stops.max()), _PERIODS + 1)
    shares = np.clip((edges[:, None] - starts) / (stops - starts), 0.0, 1.0)
    moved = (shares * sizes).sum(axis=1)
    return edges, np.diff(moved) / np.diff(edges)


_NOTE = (
    "The bytes of a job are taken to flow evenly from its start to its stop. PyWren's jobs ran on "
    "Lambda functions against AWS: a landmark, not a comparison."
)
_PYWREN = {"read": 40, "write": 30}  # MB/s of an object
_PYWREN_ALL = {"read": "over 60", "write": "50"}
_PERIODS = 100
_COLOR = colors.color("oka", "s3")
_PYWREN_COLOR = colors.GRAY
