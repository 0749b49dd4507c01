"""Horizontal bars on a log axis with numbers at their ends, and their metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from benchmarks.plots import colors, style
from benchmarks.schema.rows import Row, Spread
from engine.units import duration, rate, three_digits


class Metric(NamedTuple):
    """The metric of a row that a panel of bars shows."""

    label: str
    axis: str
    unit: str
    written: Callable[[float], str]
    of_row: Callable[[Row], Spread | None]
    more_is_better: bool


class Bar(NamedTuple):
    """One bar; without a spread there is only its text."""

    place: float
    spread: Spread | None
    color: str
    text: str


def bar(metric: Metric, row: Row, place: float, behind: str = "") -> Bar:
    """The bar of a row, in the colour of its system; the text `behind` follows its number."""
    spread = metric.of_row(row)
    text = f"{metric.written(spread.median)}{behind}" if spread else "not measured"
    return Bar(place, spread, colors.color(row.variant.system, row.variant.api), text)


def better(metric: Metric, ours: Spread | None, theirs: Spread | None) -> str:
    """How many times better ours is, as the text behind a bar; empty where one is missing."""
    if not ours or not theirs:
        return ""
    ratio = ours.median / theirs.median
    return f"  {three_digits(ratio if metric.more_is_better else 1 / ratio)}×"


def bars_of_group(
    metric: Metric, rows: Sequence[Row], at: int, other: Spread | None, height: float
) -> list[Bar]:
    """The bars of rows next to each other; Oka's say how many times better they are than other."""
    bars = []
    for number, row in enumerate(rows):
        place = at + height * ((len(rows) - 1) / 2 - number)
        is_oka = row.variant.system == "oka"
        behind = better(metric, metric.of_row(row), other) if is_oka else ""
        bars.append(bar(metric, row, place, behind))
    return bars


def draw_panels(
    figure: Figure,
    metrics: Sequence[Metric],
    names: Sequence[str],
    bars_of: Callable[[Metric, int], Sequence[Bar]],
    height: float,
) -> None:
    """Draw a panel for each metric, with the bars around the place of each name."""
    panels = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for panel, metric in zip(panels, metrics, strict=True):
        bars = [each for at in range(len(names)) for each in bars_of(metric, at)]
        draw_bars(panel, metric, bars, height)
    panels[0].set_yticks(range(len(names)), names)


def draw_bars(panel: Axes, metric: Metric, bars: Sequence[Bar], height: float = 0.8) -> None:
    """Draw the bars at their places on the y axis."""
    known = [(each, each.spread) for each in bars if each.spread]
    panel.barh(
        [each.place for each, _ in known],
        [spread.median for _, spread in known],
        height=height,
        xerr=style.error([spread for _, spread in known]),
        color=[each.color for each, _ in known],
        error_kw=style.ERROR_BARS,
    )
    # A log axis has no zero to start bars from. A third of it is for the numbers at their ends.
    start = min(spread.min or spread.median for _, spread in known) / 2
    most = max(spread.max for _, spread in known)
    style.log_axis(panel, "x", metric.unit)
    panel.set_xlim(start, most * (most / start) ** 0.5)
    panel.xaxis.set_major_locator(
        FixedLocator([tick for tick in panel.get_xticks() if start <= tick <= _BEYOND * most])
    )
    for each in bars:
        panel.annotate(
            each.text,
            (each.spread.max if each.spread else start, each.place),
            xytext=(5, 0),
            textcoords="offset points",
            verticalalignment="center",
            fontsize=9,
            color="#111111" if each.spread else colors.GRAY,
        )
    panel.set_xlabel(metric.axis)
    panel.set_title(f"{metric.label} ({'more' if metric.more_is_better else 'less'} is better)")
    panel.grid(visible=False, axis="y")


def _p99(row: Row) -> Spread | None:
    return Spread(row.p99, row.p99, row.p99) if row.p99 else None


METRICS = (
    Metric("throughput", "words/s", "words", rate, lambda row: row.throughput, True),
    Metric(
        "CPU time",
        "CPU seconds per million words",
        "seconds",
        lambda seconds: f"{three_digits(seconds)} s",
        lambda row: row.cpu,
        False,
    ),
    Metric("p99 latency", "latency", "time", duration, _p99, False),
)
_BEYOND = 2
"""Ticks go up to so many times the longest bar; after them there is text."""
