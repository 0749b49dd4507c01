"""Oka beside each of its peers: words per second, CPU time and p99 latency, and their ratios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.rows import Row, Spread
from engine.units import duration, rate


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


class _Bar(NamedTuple):
    place: float
    spread: Spread
    color: str
    text: str


class _Metric(NamedTuple):
    label: str
    axis: str
    unit: str
    written: Callable[[float], str]
    of_row: Callable[[Row], Spread | None]
    more_is_better: bool


def _draw(result: Mapping[str, Any], cell: tuple[object, ...], pairs: Sequence[_Pair]) -> Drawing:
    ordered = sorted(pairs, key=lambda pair: _median(pair.peer.throughput))
    first = ordered[0].oka
    figure = Figure(figsize=(17.0, 2.4 + 0.62 * len(ordered)), layout="constrained")
    panels = figure.subplots(1, len(_METRICS), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, _METRICS, strict=True):
        _bars(panel, metric, ordered)
    panels[0].set_yticks(
        range(len(ordered)),
        [f"{pair.peer.variant.name}\nOka {pair.oka.variant.api}" for pair in ordered],
    )
    title = (
        f"Oka in turn with each peer: {first.payload_bytes:,}-byte words, batch "
        f"{first.batch_size:,}, parallelism {first.parallelism}"
    )
    if first.is_open:
        title += f", {first.load_name}"
    figure.suptitle(style.heading(result, title))
    style.legends(
        figure,
        [
            Line2D([], [], color=color, linewidth=8, label=label)
            for color, label in ((_OKA, "Oka"), (_PEER, "the peer"))
        ],
    )
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
        "that does the same kind of work; × says how many times better Oka is. All axes are "
        "logarithmic.",
        figure,
    )


def _bars(panel: Axes, metric: _Metric, pairs: Sequence[_Pair]) -> None:
    bars = [bar for at, pair in enumerate(pairs) for bar in _bars_of(metric, pair, at)]
    panel.barh(
        [bar.place for bar in bars],
        [bar.spread.median for bar in bars],
        height=2 * _HALF * 0.92,
        xerr=style.error([bar.spread for bar in bars]),
        color=[bar.color for bar in bars],
        error_kw={"elinewidth": 1, "ecolor": "#333333"},
    )
    # A log axis has no zero to start bars from. A third of it is for the figures at their ends.
    style.log_axis(panel, "x", metric.unit)
    if bars:
        start = min(bar.spread.min or bar.spread.median for bar in bars) / 2
        most = max(bar.spread.max for bar in bars)
        panel.set_xlim(start, most * (most / start) ** 0.45)
    for bar in bars:
        panel.annotate(
            bar.text,
            (bar.spread.max, bar.place),
            xytext=(5, 0),
            textcoords="offset points",
            verticalalignment="center",
            fontsize=9,
        )
    panel.set_xlabel(metric.axis)
    panel.set_title(metric.label)
    panel.grid(visible=False, axis="y")


def _bars_of(metric: _Metric, pair: _Pair, at: int) -> list[_Bar]:
    """The bars of one peer: Oka's with the ratio, and the peer's; without one, no ratio."""
    ours, theirs = metric.of_row(pair.oka), metric.of_row(pair.peer)
    bars = []
    if ours:
        text = metric.written(ours.median)
        if theirs:
            ratio = ours.median / theirs.median
            text += f"  {ratio if metric.more_is_better else 1 / ratio:.3g}×"
        bars.append(_Bar(at - _HALF, ours, _OKA, text))
    if theirs:
        bars.append(_Bar(at + _HALF, theirs, _PEER, metric.written(theirs.median)))
    return bars


def _median(spread: Spread | None) -> float:
    return spread.median if spread else 0.0


def _p99(row: Row) -> Spread | None:
    return Spread(row.p99, row.p99, row.p99) if row.p99 else None


_METRICS = (
    _Metric("throughput", "words/s", "words", rate, lambda row: row.throughput, True),
    _Metric(
        "CPU time",
        "CPU seconds per million words",
        "seconds",
        lambda seconds: f"{seconds:.3g} s",
        lambda row: row.cpu,
        False,
    ),
    _Metric("p99 latency", "latency", "time", duration, _p99, False),
)
_OKA = "#0072b2"
_PEER = "#9a9a9a"
_HALF = 0.2
