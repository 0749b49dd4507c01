"""Words per second across hosts, and how much of their links' rate the words themselves take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.rows import Row
from engine.units import rate


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """One figure: a panel per link rate, a group of bars per number of nodes."""
    known = [row for row in rows if row.nodes]
    if not known:
        return []
    names = style.series([row.variant for row in known])
    lines: dict[str, list[Row]] = {}
    for row in sorted(known, key=lambda row: row.nodes or 0):
        batch = f", batch {row.batch_size:,}" if row.batch_size else ""
        name = f"{names[row.variant].name}, {row.payload_bytes:,}-byte words{batch}"
        lines.setdefault(f"{name}, {row.load_name}" if row.is_open else name, []).append(row)
    # An API looks as in other figures, unless it has several lines here.
    looks = [
        names[line[0].variant].at if len(lines) == len(names) else at
        for at, line in enumerate(lines.values())
    ]
    nodes = sorted({row.nodes for row in known if row.nodes})
    links = sorted({row.rate_bits_per_second for row in known}, key=lambda bits: bits or 1e99)
    figure, (panels,) = style.grid(1, len(links), height=4.2, share=False)
    for panel, link in zip(panels, links, strict=True):
        for at, (look, line) in enumerate(zip(looks, lines.values(), strict=True)):
            shown = [row for row in line if row.rate_bits_per_second == link]
            _bars(panel, shown, nodes, look, at, len(lines))
        panel.set_title(_link(link))
        panel.set_xticks(range(len(nodes)), [str(number) for number in nodes])
        panel.set_xlabel("nodes")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: rate(value)))
        panel.margins(y=0.15)
        panel.grid(visible=False, axis="x")
    panels[0].set_ylabel("throughput (words/s)")
    title = "Word count across hosts, by the rate of their links"
    figure.suptitle(style.heading(result, title))
    style.legends(
        figure, [style.series_handle(at, name) for at, name in zip(looks, lines, strict=True)]
    )
    return [Drawing("testbed", title, _alt(lines), _NOTE, figure)]


def _bars(
    panel: Axes, rows: Sequence[Row], nodes: Sequence[int], look: int, at: int, of: int
) -> None:
    """The bars of one line, which is the at-th in each group."""
    spreads = [row.throughput for row in rows if row.throughput]
    places = [
        nodes.index(row.nodes) + _GROUP * ((at + 0.5) / of - 0.5) for row in rows if row.nodes
    ]
    panel.bar(
        places,
        [spread.median for spread in spreads],
        width=_GROUP / of * 0.92,
        yerr=style.error(spreads),
        color=style.series_style(look)["color"],
        error_kw={"elinewidth": 1, "ecolor": "#333333"},
    )
    for place, spread, row in zip(places, spreads, rows, strict=True):
        share = _share(row)
        panel.annotate(
            rate(spread.median) + (f"\n{share:.0%}" if share is not None else ""),
            (place, spread.max),
            xytext=(0, 3),
            textcoords="offset points",
            horizontalalignment="center",
            fontsize=8,
        )


def _alt(lines: Mapping[str, Sequence[Row]]) -> str:
    told = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{rate(row.throughput.median)} on {row.nodes} ({_link(row.rate_bits_per_second)})"
            for row in line
            if row.throughput
        )
        for name, line in lines.items()
    )
    return f"Words per second by number of nodes: {told}."


def _link(bits: float | None) -> str:
    if bits is None:
        return "no limit"
    return f"{bits / 1e9:g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:g} Mbit/s"


def _share(row: Row) -> float | None:
    """The words' own bits per second, as a share of one link's rate."""
    if not row.rate_bits_per_second or not row.throughput:
        return None
    return row.throughput.median * row.payload_bytes * 8 / row.rate_bits_per_second


_GROUP = 0.8
_NOTE = (
    "Medians, from the slowest to the fastest run. The percentage is what the words alone (payload "
    "× words per second) take of the rate of one link, without what carries them; it is above "
    "100 % where several links share the work."
)
