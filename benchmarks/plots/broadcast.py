"""Model broadcast: the time of each Load task, case by case, and the time against nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from benchmarks.plots import colors, style
from benchmarks.plots.drawing import Drawing
from benchmarks.schema.references import Experiment, plasma_vs_s3
from benchmarks.schema.rows import Row, Spread
from benchmarks.testbed.broadcast_cases import BY_NODES, LAYOUTS, WAYS, way_name
from benchmarks.testbed.rate import link_name, show_rate

Found = Mapping[str, Any]


def draw(result: Mapping[str, Any], _rows: Sequence[Row]) -> list[Drawing]:
    """A timeline and a line per number of nodes, for each size, source and rate."""
    measured = [row for row in result["rows"] if row.get("usable_seconds")]
    drawings = []
    for setting in dict.fromkeys(_setting(row) for row in _limited(measured)):
        rows = [row for row in measured if _is_pods(row, setting) or _setting(row) == setting]
        drawings.append(_timeline(result, rows))
        if len({row["case"] for row in rows} & set(BY_NODES.values())) > 1:
            drawings.append(_against_nodes(result, rows))
    return drawings


def _timeline(result: Mapping[str, Any], rows: Sequence[Found]) -> Drawing:
    """A panel per case, with a bar per backend and Load task, as in the published experiment."""
    names = [name for name in LAYOUTS if any(row["case"] == name for row in rows)]
    ways = _ways(rows)
    columns = min(3, len(names))
    figure, panels = style.grid(-(-len(names) // columns), columns, height=2.9, share=False)
    flat = [panel for line in panels for panel in line]
    free = flat[len(names) :]
    for panel in free:
        panel.set_axis_off()
    for panel, name in zip(flat, names, strict=False):
        case = [row for row in rows if row["case"] == name]
        _bars(panel, sorted(case, key=lambda row: ways.index(_way(row))))
        panel.set_title(f"{name}: {LAYOUTS[name].about}")
    for panel in flat[max(0, len(names) - columns) : len(names)]:
        panel.set_xlabel("seconds since the model was ready")
    title = f"Model broadcast, {_about(rows)}: when each Load task had the model"
    figure.suptitle(style.heading(result, title))
    told = [Line2D([], [], color=_look(way)["color"], linewidth=6, label=way) for way in ways]
    read = [
        style.gray_handle("all bytes usable, read in place", linewidth=6),
        style.gray_handle("all bytes read once", linewidth=6, alpha=_PALE),
    ]
    if free:
        free[0].legend(handles=[*told, *read], loc="center", fontsize=10.5)
    else:
        style.legends(figure, told, read)
    seconds = "; ".join(
        f"case {row['case']} {_way(row)} {row['usable_seconds']['median']:.2f} s" for row in rows
    )
    return Drawing(
        f"timeline{_suffix(rows)}", title, f"Seconds until the last task had it: {seconds}.",
        "Medians over the runs. A bar is a Load task; h1 is the Download task's host. Pods of one "
        "machine (cases 2) have no limit between them.", figure,
    )  # fmt: skip


def _bars(panel: Axes, rows: Sequence[Found]) -> None:
    """The bars of one case from top to bottom, one for each Load task of each backend."""
    labels = []
    place = 0.0
    for row in rows:
        color = _look(_way(row))["color"]
        for loader in row["loaders"]:
            panel.barh(place, loader["usable"], height=0.8, color=color)
            read = loader["loaded"] - loader["usable"]
            panel.barh(place, read, left=loader["usable"], height=0.8, color=color, alpha=_PALE)
            labels.append((place, f"h{loader['host']} t{loader['task']}", loader))
            place += 1
        place += _GAP
    longest = max(loader["loaded"] for _, _, loader in labels)
    for at, _, loader in labels:
        panel.annotate(
            f"{loader['usable']:.2f}", (loader["loaded"], at), xytext=(3, 0),
            textcoords="offset points", verticalalignment="center", fontsize=_SMALL,
        )  # fmt: skip
    panel.set_yticks([at for at, _, _ in labels], [label for _, label, _ in labels])
    panel.tick_params(axis="y", labelsize=_SMALL if len(labels) <= _MANY else _SMALL - 2, length=0)
    panel.set_ylim(place - _GAP - 0.4, -0.6)
    panel.set_xlim(0, longest * 1.18)
    panel.grid(visible=False, axis="y")


def _against_nodes(result: Mapping[str, Any], rows: Sequence[Found]) -> Drawing:
    """A line per backend over 1 to 5 nodes, with the published times and the limit of the link.

    Backends with nearly equal times would hide one another, so a second panel has only them, on its
    own axis.
    """
    lines = {way: _by_nodes(rows, way) for way in _ways(rows)}
    slowest = {way: max(each["max"] for each in line.values()) for way, line in lines.items()}
    close = [way for way in lines if slowest[way] <= _CLOSE * min(slowest.values())]
    zoomed = 1 < len(close) < len(lines)
    figure, ((panel, *more),) = style.grid(1, 1 + zoomed, height=4.2, share=False)
    for way, line in lines.items():
        _line(panel, way, line, 0.0)
    others = [*_ideal(panel, rows[0]), *_published(panel, rows[0])]
    panel.set_ylim(bottom=0)
    panel.set_title("all ways")
    for side in more:
        for at, way in enumerate(close):
            _line(side, way, lines[way], _APART * (at - (len(close) - 1) / 2))
        _ideal(side, rows[0])
        side.set_title("the fast ones, closer: this axis does not begin at 0")
        side.margins(y=0.08)
    for side in (panel, *more):
        side.set_xlabel("nodes beside the Download task's, one Load task on each")
        side.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_ylabel("seconds until the last one had the model")
    title = f"Model broadcast, {_about(rows)}: time against nodes"
    figure.suptitle(style.heading(result, title))
    style.legends(figure, [_handle(way) for way in lines], *([others] if others else []))
    told = [
        f"{way}: " + ", ".join(f"{spread['median']:.2f} s" for spread in line.values())
        for way, line in lines.items()
    ]
    return Drawing(
        f"nodes{_suffix(rows)}",
        title,
        f"Seconds by number of nodes. {'; '.join(told)}.",
        "Medians, from the fastest to the slowest run; points of one number of nodes stand side by "
        "side in the right panel. The published figures are of other hardware and software: they "
        "tell the shape of a curve, not who is faster by how much.",
        figure,
    )


def _by_nodes(rows: Sequence[Found], way: str) -> dict[int, Mapping[str, float]]:
    """The spread of a backend's seconds by the number of nodes."""
    return {
        nodes: row["usable_seconds"]
        for nodes, name in BY_NODES.items()
        for row in rows
        if row["case"] == name and _way(row) == way
    }


def _line(panel: Axes, way: str, line: Mapping[int, Mapping[str, float]], aside: float) -> None:
    spreads = [Spread(each["median"], each["min"], each["max"]) for each in line.values()]
    panel.errorbar(
        [nodes + aside for nodes in line],
        [spread.median for spread in spreads],
        yerr=style.error(spreads),
        **_look(way),
    )


def _ideal(panel: Axes, row: Found) -> list[Line2D]:
    """A line at the time in which the model's bytes cross one link."""
    rate = row["rate_bits_per_second"]
    if rate is None:
        return []
    look: dict[str, Any] = {"linestyle": ":"}
    panel.axhline(row["payload_bytes"] * 8 / rate, color=colors.GRAY, **look)
    return [style.gray_handle(f"size / rate ({link_name(rate)})", **look)]


def _published(panel: Axes, row: Found) -> list[Line2D]:
    """The published times, if the model has the published size."""
    if abs(row["payload_bytes"] - Experiment.SIZE) > 0.05 * Experiment.SIZE:
        return []
    handles = []
    found = [each for each in plasma_vs_s3() if each.loaders == each.machines]
    for experiment, marker in (("plasma", "x"), ("s3", "+")):
        points = [each for each in found if each.experiment == experiment]
        look: dict[str, Any] = {"marker": marker, "linestyle": "--", "alpha": 0.8, "markersize": 8}
        panel.plot(
            [each.machines for each in points], [each.seconds for each in points],
            color=colors.GRAY, **look,
        )  # fmt: skip
        handles.append(style.gray_handle(f"{experiment}, {Experiment.SOURCE}", **look))
    slope: dict[str, Any] = {"linestyle": (0, (1, 3)), "marker": "x"}
    machines = list(BY_NODES)
    seconds = [each * Experiment.SIZE / Experiment.BYTES_PER_SECOND for each in machines]
    panel.plot(machines, seconds, color=colors.GRAY, **slope)
    handles.append(style.gray_handle("plasma, the slope as published in words", **slope))
    return handles


def _ways(rows: Sequence[Found]) -> list[str]:
    """The backends of the rows, each after the same one without encryption."""
    return [
        name
        for way in WAYS
        for name in (way_name(way, False), way_name(way, True))
        if any(_way(row) == name for row in rows)
    ]


def _look(way: str) -> dict[str, Any]:
    return {"color": colors.color("oka", way), "marker": colors.markers("oka", way)[0]}


def _handle(way: str) -> Line2D:
    return Line2D([], [], label=way, **_look(way))


def _way(row: Found) -> str:
    return way_name(row["api"], row["encryption"])


def _limited(rows: Sequence[Found]) -> Sequence[Found]:
    """The rows with a rate, which those of pods have not; or else all."""
    return [row for row in rows if not LAYOUTS[row["case"]].pods] or rows


def _setting(row: Found) -> tuple[int, bool, int | None]:
    return row["payload_bytes"], row["in_memory"], row["rate_bits_per_second"]


def _is_pods(row: Found, setting: tuple[int, bool, int | None]) -> bool:
    return LAYOUTS[row["case"]].pods and _setting(row)[:2] == setting[:2]


def _about(rows: Sequence[Found]) -> str:
    row = rows[0]
    where = "in memory" if row["in_memory"] else "in files"
    return f"{row['payload_bytes'] / 1e6:g} MB {where}, links: {link_name(_link(rows))}"


def _link(rows: Sequence[Found]) -> int | None:
    rates = {row["rate_bits_per_second"] for row in rows if not LAYOUTS[row["case"]].pods}
    return rates.pop() if len(rates) == 1 else None


def _suffix(rows: Sequence[Found]) -> str:
    row = rows[0]
    where = "_memory" if row["in_memory"] else ""
    return f"_{row['payload_bytes']}_{show_rate(_link(rows)).replace('.', '_')}{where}"


_CLOSE = 1.5
"""Backends whose slowest times differ by less than this factor hide one another."""
_APART = 0.07
_PALE = 0.45
_GAP = 0.5
_SMALL = 8
_MANY = 12
