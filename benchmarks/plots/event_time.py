"""The picture of event time in the docs: records, watermark, windows and late records.

`python -m benchmarks.plots.event_time docs/images/time.png` draws it again. It shows a job on a
virtual clock, so that it is the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmarks.plots import colors, render, style
from benchmarks.plots.drawing import Drawing
from engine.testing import VirtualClock, run
from operators import BatchFunction, BatchOperator, Stream, TaskContext, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection

TIMES = (1, 3, 2, 6, 5, 9, 12, 8, 14, 7, 13, 17, 16, 19, 4, 21, 18, 25, 23, 27, 24)
"""The times of records in seconds, in the order of their arrival, one a second."""
OUT_OF_ORDERNESS = timedelta(seconds=4)
ALLOWED_LATENESS = timedelta(seconds=4)
WINDOW = timedelta(seconds=10)


@dataclass(frozen=True)
class Observed:
    """The events of the job, as pairs of clock time and event time in seconds."""

    records: list[tuple[float, float]]
    watermarks: list[tuple[float, float]]
    """The watermarks, each from its clock time on."""
    results: list[tuple[float, int, int, int]]
    """Its clock time, the number of records, and the window's start and end."""
    late: list[tuple[float, float]]


def observe() -> Observed:
    """Run the job."""
    records = source(Collection([("moon", time) for time in TIMES], rate=1))
    timed = records.with_event_time(1, unit="s", out_of_orderness=OUT_OF_ORDERNESS)
    windows = timed.key_by(0).window(Tumbling(WINDOW), allowed_lateness=ALLOWED_LATENESS)
    sizes = windows.apply(lambda _key, records, start, end: (len(records), start, end))
    out = run(
        [
            _collected(timed, "seen"),
            _collected(sizes.map(lambda result: result[1]), "results"),
            _collected(sizes.side("late"), "late"),
        ],
        clock=VirtualClock(),
        batch_size=1,
    )
    seen = [(now, what, value) for now, what, value in out["seen"]]
    return Observed(
        records=[(now, value[1]) for now, what, value in seen if what == "record"],
        watermarks=[(now, value / 1e6) for now, what, value in seen if what == "watermark"],
        results=[(now, *value) for now, what, value in out["results"] if what == "record"],
        late=[(now, value[1]) for now, what, value in out["late"] if what == "record"],
    )


def draw(observed: Observed) -> Drawing:
    """Draw event time over clock time."""
    with matplotlib.rc_context(style.RC):
        figure, [[axes]] = style.grid(1, 1, height=6.2)
        _draw_windows(axes, observed)
        _draw_records(axes, observed)
        axes.set_xlabel("when it happens (seconds on the clock)")
        axes.set_ylabel("event time: the time in the record (seconds)")
        axes.set_xlim(-0.6, len(TIMES) - 0.4)
        axes.set_ylim(-0.5, 30.5)
        axes.set_xticks(range(0, len(TIMES), 5))
        figure.suptitle(
            f"Windows of {WINDOW.seconds} s, records up to {OUT_OF_ORDERNESS.seconds} s out of "
            f"order, {ALLOWED_LATENESS.seconds} s of allowed lateness"
        )
        _legend(figure)
    late = ", ".join(f"{time:g}" for _, time in observed.late)
    return Drawing(
        "time",
        "Watermark, windows and lateness",
        f"Dots are records; the watermark is a staircase below them; a window ends where the "
        f"watermark passes its end. The record of second {late} comes too late.",
        "A window has its result when the staircase comes to its upper edge.",
        figure,
    )


def _draw_windows(axes: Axes, observed: Observed) -> None:
    """Each as a band up to its first result, and hatched as long as it is kept after that."""
    size = WINDOW.seconds
    for start in sorted({start for _, _, start, _ in observed.results}):
        end = start + size
        results = [(now, n) for now, n, begin, _ in observed.results if begin == start]
        complete = results[0][0]
        gone = _first(observed.watermarks, end + ALLOWED_LATENESS.seconds) or complete
        band = _BANDS[start // size % 2]
        axes.fill_between([-0.6, complete], start, end, color=band, linewidth=0)
        axes.fill_between([complete, gone], start, end, **_KEPT)
        axes.text(-0.4, end - 0.3, f"window {start} to {end}", va="top")
        for at, (now, n) in enumerate(results):
            axes.plot([now, now], [start, end], color=_RESULT, linewidth=2.4)
            side, shift = ("left", 0.12) if at else ("right", -0.12)
            text = axes.text(now + shift, start + 0.3, f"{n} records", ha=side, color=_RESULT)
            text.set_fontweight("bold")


def _draw_records(axes: Axes, observed: Observed) -> None:
    late = set(observed.late)
    told = dict(observed.watermarks)
    moments = [*told, len(TIMES) - 1]
    heights = [*told.values(), observed.watermarks[-1][1]]
    axes.step(moments, heights, where="post", color=_WATERMARK, linewidth=2.2, zorder=3)
    for now, time in observed.records:
        behind = max((watermark for at, watermark in told.items() if at < now), default=-1)
        look = _TOO_LATE if (now, time) in late else _BEHIND if time <= behind else _ON_TIME
        axes.plot(now, time, **look, zorder=5)


def _legend(figure: Figure) -> None:
    style.legends(
        figure,
        [
            Line2D([], [], **_ON_TIME, label="record"),
            Line2D([], [], **_BEHIND, label="behind the watermark, but its window is still kept"),
            Line2D([], [], **_TOO_LATE, label="late: its window is gone"),
        ],
        [
            Line2D([], [], color=_WATERMARK, label="watermark: all that follow are later"),
            Line2D([], [], color=_RESULT, label="result of the window"),
            Patch(**_KEPT, label="how long the window is kept behind its first result"),
        ],
    )


def _first(watermarks: Iterable[tuple[float, float]], time: float) -> float | None:
    """When the watermark reached that time; None if it never did."""
    return next((now for now, watermark in watermarks if watermark >= time - 1e-6), None)


def _collected(stream: Stream[Any], name: str) -> Any:
    return stream.then(_Stamped()).with_parallelism(1).sink(Collect()).named(name)


class _Stamped(BatchOperator):
    """Emits records and watermarks with their clock times."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Stamps(context)


class _Stamps(BatchFunction):
    def __init__(self, context: TaskContext) -> None:
        self._now_ns = context.now_ns

    def process(self, batch: list[Any]) -> list[Any]:
        return [(self._now_ns() / 1e9, "record", record) for record in batch]

    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        yield [(self._now_ns() / 1e9, "watermark", watermark_us)]


_WATERMARK = colors.color("oka", "columnar")
_RESULT = colors.color("oka", "map_batches")
_ON_TIME: Any = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 8,
    "color": colors.color("oka", "native"),
}
_LATE = colors.color("pathway")
_BEHIND: Any = _ON_TIME | {"color": _LATE, "markerfacecolor": "white"}
_TOO_LATE: Any = _ON_TIME | {"color": _LATE, "marker": "x", "markeredgewidth": 3}
_KEPT: Any = {"facecolor": "none", "hatch": "////", "edgecolor": "#c9d8e6", "linewidth": 0}
_BANDS = ("#eaf3fb", "#f6f9fc")

if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_bytes(render(draw(observe()), path.suffix[1:]))
