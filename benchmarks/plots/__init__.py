"""Figures of result files: `draw` makes the figures of a result, `render` an image of one.

They need the extra `report`. No figure touches matplotlib's global state or a screen.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from typing import Any

import matplotlib

from benchmarks.plots import (
    bars,
    broadcast,
    cost,
    distribution,
    load,
    nexmark,
    peers,
    scaling,
    serve,
    testbed,
    works,
)
from benchmarks.plots.drawing import Drawing
from benchmarks.plots.style import RC
from benchmarks.schema.rows import Row, Spread

__all__ = ["Drawing", "draw", "render"]


def draw(result: Mapping[str, Any]) -> list[Drawing]:
    """The figures of a result that `results_file.check` accepts; none if no row has a value."""
    rows = [_without_zero(Row.of(row)) for row in result["rows"]]
    measured = [row for row in rows if row.throughput is not None]
    with matplotlib.rc_context(RC):
        return [
            drawing
            for figures in _FIGURES.get(result["benchmark"], _GENERAL)
            for drawing in figures(result, measured)
        ]


def render(drawing: Drawing, image_format: str) -> bytes:
    """The figure as `png` or `svg`."""
    data = io.BytesIO()
    metadata = {"Date": None} if image_format == "svg" else None
    with matplotlib.rc_context(RC):
        drawing.figure.savefig(data, format=image_format, metadata=metadata)
    return data.getvalue()


def _without_zero(row: Row) -> Row:
    """The row without medians of 0, which have no place on a log axis."""
    return dataclasses.replace(row, throughput=_positive(row.throughput), cpu=_positive(row.cpu))


def _positive(spread: Spread | None) -> Spread | None:
    return spread if spread is not None and spread.median > 0 else None


_GENERAL = (scaling.draw, cost.draw, load.draw, distribution.draw)
_FIGURES = {
    "broadcast": (broadcast.draw,),
    "connectors": (works.draw,),
    "event-time": (works.draw,),
    "nexmark": (nexmark.draw,),
    "peers": (peers.draw,),
    "serve": (serve.draw,),
    "sustainable": (bars.draw, load.draw),
    "testbed": (testbed.draw,),
}
