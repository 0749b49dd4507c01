"""Words per second across hosts, and the share of the links' rate that the words take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.schema.rows import Row
from benchmarks.testbed.rate import link_name
from engine.units import rate


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """One figure: a row of panels per payload, a column per link rate, bars by number of nodes."""
    known = [row for row in rows if row.nodes]
    if not known:
        return []
    lines = _lines(known)
    nodes = sorted({row.nodes for row in known if row.nodes})
    links = sorted({row.rate_bits_per_second for row in known}, key=lambda bits: bits or 1e99)
    payloads = sorted({row.payload_bytes for row in known})
    figure, axes = style.grid(len(payloads), len(links), height=2.6, share=False)
    for panels, payload in zip(axes, payloads, strict=True):
        for panel, link in zip(panels, links, strict=True):
            for at, line in enumerate(lines.values()):
                shown = [
                    row
                    for row in line.rows
                    if (row.rate_bits_per_second, row.payload_bytes) == (link, payload)
                ]
                _bars(panel, shown, nodes, line, _GROUP / len(lines), at)
            panel.set_title(f"{payload:,}-byte words, {link_name(link)}")
            panel.set_xticks(range(len(nodes)), [str(number) for number in nodes])
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: rate(value)))
            panel.margins(y=0.2)
            panel.grid(visible=False, axis="x")
    style.label_grid(axes, "nodes", ["throughput (words/s)"] * len(payloads))
    title = "Word count across hosts, by the rate of their links"
    figure.suptitle(style.heading(result, title))
    style.legends(
        figure,
        [
            Patch(facecolor=line.color, hatch=line.hatch, edgecolor="white", label=name)
            for name, line in lines.items()
        ],
    )
    return [Drawing("testbed", title, _alt(lines), _NOTE, figure)]


class _Line(NamedTuple):
    """A system and its settings, with one bar in each group."""

    color: str
    hatch: str
    """Distinguishes the lines of one system."""
    rows: Sequence[Row]


def _lines(rows: Sequence[Row]) -> dict[str, _Line]:
    """By name: each system, and if they differ, each batch size and load."""
    names = style.series([row.variant for row in rows])
    several = len({row.batch_size for row in rows}) > 1
    found: dict[str, _Line] = {}
    for row in sorted(rows, key=lambda row: row.nodes or 0):
        name = names[row.variant].name
        if several and row.batch_size:
            name += f", batch {row.batch_size:,}"
        if row.is_open:
            name += f", {row.load_name}"
        if name not in found:
            color = names[row.variant].color
            alike = sum(line.color == color for line in found.values())
            found[name] = _Line(color, _HATCHES[alike % len(_HATCHES)], [])
        found[name] = found[name]._replace(rows=[*found[name].rows, row])
    return found


def _bars(
    panel: Axes, rows: Sequence[Row], nodes: Sequence[int], line: _Line, width: float, at: int
) -> None:
    """The bars of one line, which has the index `at` in each group."""
    spreads = [row.throughput for row in rows if row.throughput]
    places = [nodes.index(row.nodes) + width * (at + 0.5) - _GROUP / 2 for row in rows if row.nodes]
    panel.bar(
        places,
        [spread.median for spread in spreads],
        width=width * 0.92,
        yerr=style.error(spreads),
        color=line.color,
        hatch=line.hatch,
        edgecolor="white",
        error_kw=style.ERROR_BARS,
    )
    for place, spread, row in zip(places, spreads, rows, strict=True):
        share = _share(row)
        panel.annotate(
            rate(spread.median) + (f" ({share:.0%})" if share is not None else ""),
            (place, spread.max),
            xytext=(0, 3),
            textcoords="offset points",
            horizontalalignment="center",
            fontsize=8,
        )


def _alt(lines: Mapping[str, _Line]) -> str:
    told = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{rate(row.throughput.median)} on {row.nodes} ({link_name(row.rate_bits_per_second)}, "
            f"{row.payload_bytes} bytes)"
            for row in line.rows
            if row.throughput
        )
        for name, line in lines.items()
    )
    return f"Words per second by number of nodes: {told}."


def _share(row: Row) -> float | None:
    """The words' own bits per second, as a share of one link's rate."""
    if not row.rate_bits_per_second or not row.throughput:
        return None
    return row.throughput.median * row.payload_bytes * 8 / row.rate_bits_per_second


_GROUP = 0.8
_HATCHES = ("", "//", "..", "xx", "--")
_NOTE = (
    "Medians, from the slowest to the fastest run. The percentage is what the words alone (payload "
    "× words per second) take of the rate of one link, without what carries them; it is above "
    "100 % where several links share the work."
)
