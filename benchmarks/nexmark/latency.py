"""Latency of the results of Nexmark's windows, with events at a fixed rate.

As in `benchmarks.steps.window_latency`, it lasts from the moment at which the last source has read
an event past a window's end, by as much as events may be late, to the window's first result at the
sink. Event time runs as fast as the events come. The first half second is left out, and so are
windows that the end of the input closes.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, cast

import engine
from benchmarks.measurement import Case, Measurement
from engine.columns import is_columns
from engine.network import LatencyHistogram
from operators import Stream, source
from operators.sinks import Collect
from pipelines.nexmark.events import EVERY, OF_EVERY, Events, Kind
from pipelines.nexmark.queries import query
from pipelines.nexmark.source import Api, Nexmark, Tables

Ends = dict[tuple[str, int], list[tuple[int, int]]]


class Watched(Tables):
    """Streams of so many events of all kinds a second, each with the time at which it was read.

    Sources with a rate are read together anyway.
    """

    def __init__(self, events: Events, api: Api, rate: float) -> None:
        super().__init__(events, api)
        self.rate = rate
        self.streams: dict[Kind, Stream[Any]] = {}

    def together(self) -> Watched:
        """These tables: their sources have rates."""
        return self

    def _read(self, kind: Kind, columns: tuple[str, ...]) -> Stream[Any]:
        rate = self.rate * OF_EVERY[kind] / EVERY
        self.streams[kind] = source(Nexmark(self.events, kind, columns, rate)).map_batches(with_now)
        return self.streams[kind]


def run_at_rate(
    case: Case, name: str, events: Events, rate: float, settings: Mapping[str, Any]
) -> Measurement:
    """Run a query at so many events a second. Raises RuntimeError if no window is complete."""
    tables = Watched(events, cast(Api, case.api), rate)
    results = query(name).of(tables).map_batches(partial(arrival, *ENDS[name]))
    pipelines = [results.sink(Collect()).named("came")]
    for kind, stream in tables.streams.items():
        tap = stream.map_batches(reading).sink(Collect())
        pipelines.append(tap.named(f"read {kind}"))
    result = engine.execute(
        pipelines,
        name=name,
        runtime="local",
        transport="shm",
        parallelism=case.parallelism,
        batch_size=case.batch_size,
        progress="none",
        **settings,
    )
    read: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for kind in tables.streams:
        late = events.out_of_orderness(kind) // timedelta(milliseconds=1)
        for process, time_ms, read_us in result.outputs[f"read {kind}"]:
            read[kind, process].append((time_ms - late, read_us))
    found = behind(read, result.outputs["came"])
    if not found:
        raise RuntimeError(
            f"no window of {name} was complete in {result.statistics.elapsed_seconds:.1f} s\n\n"
            "hint: more --events"
        )
    latency = LatencyHistogram()
    latest = max(found)
    latency.record_many([1000 * (latest - each) for each in found], 1000 * latest)
    return Measurement(
        throughput=events.events / result.statistics.elapsed_seconds,
        cpu_seconds_per_million=result.statistics.cpu_seconds / events.events * 1e6,
        histogram=latency.to_bytes(),
        records=events.events,
    )


def behind(read: Ends, came: list[tuple[int, int]]) -> list[int]:
    """Latency in µs of each window's first result, from the watermark that completed it."""
    first: dict[int, int] = {}
    for end_ms, came_us in came:
        first[end_ms] = min(came_us, first.get(end_ms, came_us))
    for times in read.values():
        times.sort()
    warm_us = min(read_us for times in read.values() for _, read_us in times) + 500_000
    found = []
    for end_ms, came_us in first.items():
        at = [(times, bisect_left(times, (end_ms, 0))) for times in read.values()]
        if any(place == len(times) for times, place in at):
            continue  # its result came at the end of the input
        passed_us = max(times[place][1] for times, place in at)
        if passed_us >= warm_us:
            found.append(max(0, came_us - passed_us))
    return found


def with_now(events: Any) -> Any:
    """The events with the time."""
    import numpy as np

    now_us = time.time_ns() // 1000
    return events.append_column("read_us", np.full(len(events), now_us))


def reading(events: Any) -> list[tuple[int, int, int]]:
    """How far each source has read, and when; a channel may join batches."""
    latest: dict[int, int] = {}
    read, times = events["read_us"].to_numpy(), events["date_time"].to_numpy()
    for read_us in {int(read[0]), int(read[-1])} if len(read) else ():
        latest[read_us] = int(times[read == read_us].max())
    return [(os.getpid(), time_ms, read_us) for read_us, time_ms in latest.items()]


def arrival(field: str, begins: int, results: Any) -> list[tuple[int, int]]:
    """The ends of the results' windows, and when they came."""
    now_us = time.time_ns() // 1000
    ends = {
        value if begins == 0 else value // begins * begins + begins
        for value in (
            results[field].to_pylist() if is_columns(results) else [each[field] for each in results]
        )
    }
    return [(end, now_us) for end in ends]


ENDS: dict[str, tuple[str, int]] = {
    "q7": ("date_time", 10_000),
    "q8": ("starttime", 10_000),
    "q11": ("endtime", 0),
}
"""The field of a result with its window's start, and the window's length; 0: it is the end.

Rows of `q5` do not name their windows.
"""

LEAST_SECONDS = 0.75
"""Least duration of the events, for some windows after the first half second."""
