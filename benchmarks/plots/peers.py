"""Oka and each of its peers: words per second, CPU time and p99 latency, and their ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.plots.log_bars import METRICS, Bar, Metric, bar, better, draw_panels
from benchmarks.schema.rows import Row, Spread
from engine.units import rate


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """A figure for each payload, batch size, parallelism and load; two bars for each peer."""
    oka = {_place(row): row for row in rows if row.variant.system == "oka"}
    cells: dict[tuple[object, ...], list[_Pair]] = {}
    for row in rows:
        ours = oka.get(_place(row))
        if row.variant.system != "oka" and ours is not None:
            cells.setdefault(_place(row)[1:], []).append(_Pair(ours, row))
    return [_draw(result, cell, pairs) for cell, pairs in cells.items()]


def _place(row: Row) -> tuple[object, ...]:
    return row.beside, row.payload_bytes, row.batch_size, row.parallelism, row.load


class _Pair(NamedTuple):
    oka: Row
    peer: Row


def _draw(result: Mapping[str, Any], cell: tuple[object, ...], pairs: Sequence[_Pair]) -> Drawing:
    ordered = sorted(pairs, key=lambda pair: _median(pair.peer.throughput))
    first = ordered[0].oka
    figure = Figure(figsize=(style.WIDTH, 1.4 + 0.58 * len(ordered)), layout="constrained")
    metrics = [m for m in METRICS if any(m.of_row(row) for pair in ordered for row in pair)]
    draw_panels(
        figure,
        metrics,
        [f"{pair.peer.variant.name}\nOka {pair.oka.variant.api}" for pair in ordered],
        lambda metric, at: _bars_of(metric, ordered[at], at),
        2 * _HALF * 0.92,
    )
    title = (
        f"Oka in turn with each peer: {first.payload_bytes:,}-byte words, batch "
        f"{first.batch_size:,}, parallelism {first.parallelism}"
    )
    if first.is_open:
        title += f", {first.load_name}"
    figure.suptitle(style.heading(result, title))
    return Drawing(
        "peers_" + "_".join(str(part).replace(".", "_") for part in cell),
        title,
        "Bars of each peer and of Oka in turn with it: "
        + "; ".join(
            f"{pair.peer.variant.name} {rate(pair.peer.throughput.median)}, "
            f"Oka {pair.oka.variant.api} {rate(pair.oka.throughput.median)}"
            for pair in reversed(ordered)
            if pair.peer.throughput and pair.oka.throughput
        )
        + ".",
        "Medians, from the slowest to the fastest run. Each peer ran in turn with the API of Oka "
        "that does the same kind of work: the bar below. × says how many times better Oka is. All "
        "axes are logarithmic.",
        figure,
    )


def _bars_of(metric: Metric, pair: _Pair, at: int) -> list[Bar]:
    """The bars of one peer: its own, and Oka's with the ratio if both have a value."""
    behind = better(metric, metric.of_row(pair.oka), metric.of_row(pair.peer))
    return [bar(metric, pair.oka, at - _HALF, behind), bar(metric, pair.peer, at + _HALF)]


def _median(spread: Spread | None) -> float:
    return spread.median if spread else 0.0


_HALF = 0.2
