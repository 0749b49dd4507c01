"""The look of every figure: axes, legends, titles; `colors` has the colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchmarks.plots import colors
from benchmarks.schema.rows import Spread, Variant
from engine.units import counted, duration, rate, three_digits


def heading(result: Mapping[str, Any], what: str) -> str:
    """A figure's title: its content, machine and date."""
    return f"{what}\n{machine_name(result)} · {result.get('date') or 'no date'}"


def machine_name(result: Mapping[str, Any]) -> str:
    """The machine of a result in a few words."""
    machine = result.get("machine") or {}
    parts = [str(machine.get("processor") or "unknown machine")]
    if machine.get("cores"):
        parts.append(counted(machine["cores"], "core"))
    return ", ".join(parts)


def grid(
    rows: int, columns: int, height: float = 3.2, *, share: bool = True
) -> tuple[Figure, list[list[Axes]]]:
    """A figure of panels, by rows; they share their scales along each row and column."""
    figure = Figure(figsize=(WIDTH, height * rows + 1.6), layout="constrained")
    axes = figure.subplots(
        rows,
        columns,
        squeeze=False,
        sharex="col" if share else "none",
        sharey="row" if share else "none",
    )
    return figure, [list(row) for row in axes]


def log_axis(axes: Axes, which: str, unit: str) -> None:
    """A log axis with ticks for people; `unit` is `words`, `time` or `seconds`."""
    if which == "x":
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(_Locator(numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _UNITS[unit](value)))
    axis.set_minor_formatter(NullFormatter())


def number_axis(axes: Axes, numbers: Sequence[int]) -> None:
    """A log x axis with a tick at each of these whole numbers."""
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_ticks(list(numbers), [f"{number:,}" for number in numbers])


def error(spreads: Sequence[Spread]) -> list[list[float]]:
    """Error bars from the least to the most, relative to the medians, for matplotlib."""
    return [
        [spread.median - spread.min for spread in spreads],
        [spread.max - spread.median for spread in spreads],
    ]


def label_grid(axes: Sequence[Sequence[Axes]], x: str, y: Sequence[str]) -> None:
    """Name the axes at the outer edge of a grid only."""
    for at in range(len(axes[0])):
        axes[-1][at].set_xlabel(x)
    for row, name in zip(axes, y, strict=True):
        row[0].set_ylabel(name)


class Series(NamedTuple):
    """How a system is named and drawn in a figure."""

    name: str
    color: str
    marker: str

    @property
    def look(self) -> dict[str, Any]:
        """Colour and marker."""
        return {"color": self.color, "marker": self.marker}

    @property
    def handle(self) -> Line2D:
        """Its legend entry."""
        return Line2D([], [], label=self.name, **self.look)


def series(variants: Sequence[Variant]) -> dict[Variant, Series]:
    """Each distinct one, Oka first, with the shortest name that is unique.

    Those of one system with the same colour have different markers.
    """
    different = sorted(dict.fromkeys(variants), key=lambda variant: variant.system != "oka")
    short = [variant.name for variant in different]
    found: dict[Variant, Series] = {}
    for variant in different:
        name = f"{variant.name} ({variant.way})" if short.count(variant.name) > 1 else variant.name
        color = colors.color(variant.system, variant.api)
        taken = {each.marker for each in found.values() if each.color == color}
        markers = colors.markers(variant.system, variant.api)
        marker = next((each for each in markers if each not in taken), markers[0])
        found[variant] = Series(name, color, marker)
    return found


def gray_handle(label: str, **look: Any) -> Line2D:
    """A legend entry for a line style or marker, without a colour."""
    return Line2D([], [], color=colors.GRAY, label=label, **look)


def legends(figure: Figure, *groups: Sequence[Artist]) -> None:
    """One legend below all panels, columns by group; outside, it covers nothing."""
    filled = [
        list(group[at : at + _MOST_ENTRIES])
        for group in groups
        for at in range(0, len(group), _MOST_ENTRIES)
    ]
    most = max(len(group) for group in filled)
    handles = [
        handle
        for group in filled
        for handle in (*group, *[Line2D([], [], alpha=0, label=" ")] * (most - len(group)))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(filled))


class _Locator(LogLocator):
    """Ticks at powers of ten, and at 2 and 5 times them if there are few powers."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        self.set_params(subs=(1.0, 2.0, 5.0) if vmax < vmin * _FEW else (1.0,))
        return super().tick_values(vmin, vmax)


RC: Any = {  # matplotlib types its keys as literals
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "figure.titlesize": 12,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "errorbar.capsize": 2.5,
    "savefig.dpi": 130,
    "savefig.facecolor": "white",
    "svg.hashsalt": "oka",  # the same figure is the same file
}
ERROR_BARS = {"elinewidth": 1.2, "capthick": 1.2, "ecolor": "#808080"}
"""The colour of error bars: visible on dark bars and on white."""
_FEW = 200.0
_MOST_ENTRIES = 5
WIDTH = 12.6
"""Inches of every figure: at 96 pixels each it is as wide as a page of 1280."""
_UNITS: dict[str, Callable[[float], str]] = {
    "words": rate,
    "time": duration,
    "seconds": lambda value: f"{three_digits(value)} s",
}
