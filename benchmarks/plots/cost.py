"""CPU seconds per million words against batch size: a panel per payload, a line per system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing
from benchmarks.schema import references
from benchmarks.schema.rows import Row, Variant


def draw(result: Mapping[str, Any], rows: Sequence[Row]) -> list[Drawing]:
    """One figure of the rows under closed load that know their CPU time."""
    known = [row for row in rows if not row.is_open and row.cpu and row.batch_size]
    if not known:
        return []
    payloads = sorted({row.payload_bytes for row in known})
    parallelisms = sorted({row.parallelism or 1 for row in known})
    names = style.series([row.variant for row in known])
    figure, (panels,) = style.grid(1, len(payloads), height=4.2)
    volga = [
        each
        for each in references.volga()
        if each.cpu and each.payload_bytes in payloads and each.parallelism == 1
    ]
    for panel, payload in zip(panels, payloads, strict=True):
        for variant, system in names.items():
            for tasks in parallelisms:
                line = sorted(
                    (
                        row
                        for row in known
                        if row.variant == variant
                        and row.payload_bytes == payload
                        and (row.parallelism or 1) == tasks
                    ),
                    key=lambda row: row.batch_size or 0,
                )
                spreads = [row.cpu for row in line if row.cpu]
                panel.errorbar(
                    [row.batch_size or 0 for row in line],
                    [spread.median for spread in spreads],
                    yerr=style.error(spreads),
                    linestyle=_line_style(parallelisms.index(tasks)),
                    **system.look,
                )
        beside = [each for each in volga if each.payload_bytes == payload]
        panel.plot(
            [each.batch_size for each in beside],
            [each.cpu or 0.0 for each in beside],
            color=colors.GRAY,
            **_VOLGA,
        )
        panel.set_title(f"{payload:,}-byte words")
        style.number_axis(panel, sorted({row.batch_size or 0 for row in known} | _BATCHES))
        style.log_axis(panel, "y", "seconds")
    style.label_grid([panels], "batch size (words)", ["CPU seconds per million words"])
    title = "CPU time per million words"
    figure.suptitle(style.heading(result, title))
    style.legends(
        figure,
        [system.handle for system in names.values()],
        [
            *(
                style.gray_handle(f"parallelism {tasks}", linestyle=_line_style(at))
                for at, tasks in enumerate(parallelisms)
            ),
            *(
                style.gray_handle(f"{source}, parallelism 1", **_VOLGA)
                for source in dict.fromkeys(each.source for each in volga)
            ),
        ],
    )
    return [
        Drawing("cpu", title, _alt(known, names), "User and system time of all processes.", figure)
    ]


def _line_style(at: int) -> Any:
    return _LINE_STYLES[at % len(_LINE_STYLES)]


def _alt(known: Sequence[Row], names: Mapping[Variant, style.Series]) -> str:
    least = min(known, key=lambda row: row.cpu.median if row.cpu else 0.0)
    most = max(known, key=lambda row: row.cpu.median if row.cpu else 0.0)
    return "A log panel per payload. " + " ".join(
        f"The {word}, {row.cpu.median:.3g} s: {names[row.variant].name}, "
        f"{row.payload_bytes} bytes, batch {row.batch_size}, parallelism {row.parallelism}."
        for word, row in (("least", least), ("most", most))
        if row.cpu
    )


_LINE_STYLES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
_BATCHES = {1, 10, 100, 1000}
_VOLGA: dict[str, Any] = {
    "linestyle": "none",
    "marker": "*",
    "markersize": 9,
    "markerfacecolor": "none",
}
