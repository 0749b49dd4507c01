"""Words per second across hosts, and how much of their links' rate the words themselves take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.plots import style
from benchmarks.plots.drawing import Drawing
from benchmarks.rows import Row
from engine.tables import rate


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """One figure: a line for each way, payload, batch size and rate, by number of nodes."""
    known = [row for row in rows if row.nodes]
    if not known:
        return []
    names = style.names([row.variant for row in known])
    lines: dict[str, list[Row]] = {}
    for row in sorted(known, key=lambda row: row.nodes or 0):
        batch = f", batch {row.batch_size:,}" if row.batch_size else ""
        name = f"{names[row.variant]}, {row.payload_bytes:,} B{batch}, {_link(row)}"
        if row.is_open:
            name += f", load {row.load}"
        lines.setdefault(name, []).append(row)
    nodes = sorted({row.nodes for row in known if row.nodes})
    limited = any(row.rate_bits_per_second for row in known)
    figure, (panels,) = style.grid(1, 2 if limited else 1, height=4.2, share=False)
    for at, line in enumerate(lines.values()):
        spreads = [row.throughput for row in line if row.throughput]
        panels[0].errorbar(
            [row.nodes or 0 for row in line],
            [spread.median for spread in spreads],
            yerr=style.error(spreads),
            **style.series_style(at),
        )
        shares = [(row.nodes or 0, share) for row in line if (share := _share(row)) is not None]
        if shares:
            panels[1].plot(
                [at_nodes for at_nodes, _ in shares],
                [100.0 * share for _, share in shares],
                **style.series_style(at),
            )
    style.log_axis(panels[0], "y", "words")
    panels[0].set_ylabel("throughput (words/s)")
    if limited:
        panels[1].set_ylabel("words' bytes, % of one link's rate")
        panels[1].set_ylim(bottom=0)
    for panel in panels:
        style.number_axis(panel, nodes)
        panel.set_xlabel("nodes")
    title = "Word count across hosts"
    figure.suptitle(style.heading(result, title))
    style.legends(figure, [style.series_handle(at, name) for at, name in enumerate(lines)])
    return [
        Drawing(
            "testbed",
            title,
            "Words per second by number of nodes: "
            + "; ".join(
                f"{name}: "
                + ", ".join(
                    f"{rate(row.throughput.median)} on {row.nodes}"
                    for row in line
                    if row.throughput
                )
                for name, line in lines.items()
            )
            + ".",
            "The share is that of the words alone (payload × words per second), without what "
            "carries them; over 100 % where several links share the work.",
            figure,
        )
    ]


def _link(row: Row) -> str:
    bits = row.rate_bits_per_second
    return f"{rate(bits)}bit/s" if bits else "no limit"


def _share(row: Row) -> float | None:
    """The words' own bits per second, as a share of one link's rate."""
    if not row.rate_bits_per_second or not row.throughput:
        return None
    return row.throughput.median * row.payload_bytes * 8 / row.rate_bits_per_second
