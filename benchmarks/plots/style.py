"""How every figure looks: colours with one meaning everywhere, axes, legends, titles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchmarks.rows import Row, Spread, Variant
from engine.units import duration, rate


def batch_color(batch_size: int | None) -> str:
    """The colour of a batch size, the same in every figure (Okabe and Ito's palette)."""
    if batch_size is None:
        return _NEUTRAL
    if batch_size in _BATCHES:
        return _BATCHES[batch_size][0]
    return _OTHER_BATCHES[int(math.log2(batch_size)) % len(_OTHER_BATCHES)]


def batch_marker(batch_size: int | None) -> str:
    """The marker of a batch size, so that colour is not all that tells it."""
    return _BATCHES[batch_size][1] if batch_size in _BATCHES else "P"


def series_style(at: int) -> dict[str, Any]:
    """Colour and marker of the at-th system (Paul Tol's muted palette, none of a batch size's)."""
    return {"color": _SERIES[at % len(_SERIES)], "marker": _MARKERS[at % len(_MARKERS)]}


def heading(result: Mapping[str, Any], what: str) -> str:
    """A figure's title: what it shows, on which machine, when."""
    return f"{what}\n{machine_name(result)} · {result.get('date') or 'no date'}"


def machine_name(result: Mapping[str, Any]) -> str:
    """The machine of a result in a few words."""
    machine = result.get("machine") or {}
    parts = [str(machine.get("processor") or "unknown machine")]
    if machine.get("cores"):
        parts.append(f"{machine['cores']} cores")
    return ", ".join(parts)


def grid(
    rows: int, columns: int, height: float = 3.2, *, share: bool = True
) -> tuple[Figure, list[list[Axes]]]:
    """A figure of panels, by rows; they share their scales along each row and column."""
    figure = Figure(
        figsize=(max(_LEAST_WIDTH, _PANEL_WIDTH * columns + 0.8), height * rows + 2.2),
        layout="constrained",
    )
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
    """Bars from the least to the most around the medians, as matplotlib wants them."""
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


def batch_handles(rows: Sequence[Row]) -> list[Line2D]:
    """Legend entries for the batch sizes of these rows."""
    sizes = sorted({row.batch_size for row in rows if row.batch_size is not None})
    return [
        Line2D([], [], color=batch_color(size), marker=batch_marker(size), label=f"batch {size:,}")
        for size in sizes
    ]


class Series(NamedTuple):
    """How a system is named and drawn in a figure."""

    name: str
    at: int
    """Its place among the looks of `series_style`."""

    @property
    def look(self) -> dict[str, Any]:
        """Colour and marker."""
        return series_style(self.at)


def series(variants: Sequence[Variant]) -> dict[Variant, Series]:
    """Each different one, Oka first; its name is as short as tells it from the others.

    Oka's APIs look the same in every figure.
    """
    different = sorted(dict.fromkeys(variants), key=lambda variant: variant.system != "oka")
    short = [variant.name for variant in different]
    found: dict[Variant, Series] = {}
    others = len(_OKA)
    for variant in different:
        taken = {each.at for each in found.values()}
        at = _OKA.index(variant.name) if variant.name in _OKA else others
        if at in taken or at == others:
            at, others = others, others + 1
        name = f"{variant.name} ({variant.way})" if short.count(variant.name) > 1 else variant.name
        found[variant] = Series(name, at)
    return found


def series_handle(at: int, label: str) -> Line2D:
    """The legend entry of the at-th system."""
    return Line2D([], [], label=label, **series_style(at))


def gray_handle(label: str, **look: Any) -> Line2D:
    """A legend entry for what is told by line or marker and not by colour."""
    return Line2D([], [], color=_NEUTRAL, label=label, **look)


def legends(figure: Figure, *groups: Sequence[Line2D]) -> None:
    """One legend below all panels, columns by group; outside, it can cover nothing."""
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
    """Ticks at powers of ten; at 2 and 5 times them, too, where there are few powers."""

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
_FEW = 200.0
_MOST_ENTRIES = 5
_OKA = ("oka per_record", "oka map_batches", "oka native", "oka columnar")
_PANEL_WIDTH = 3.9
_LEAST_WIDTH = 11.0
_NEUTRAL = "#555555"
_BATCHES = {
    1: ("#D55E00", "o"),
    10: ("#E69F00", "s"),
    100: ("#009E73", "^"),
    1000: ("#0072B2", "D"),
    10_000: ("#CC79A7", "v"),
}
_OTHER_BATCHES = ("#56B4E9", "#B8A000", "#000000")
_SERIES = (
    "#332288",
    "#CC6677",
    "#117733",
    "#999933",
    "#882255",
    "#44AA99",
    "#AA4499",
    "#88CCEE",
    "#777777",
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_UNITS: dict[str, Callable[[float], str]] = {
    "words": rate,
    "time": duration,
    "seconds": lambda value: f"{value:g} s",
}
