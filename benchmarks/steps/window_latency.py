"""Latency of the result of a window: `python -m benchmarks.steps.window_latency 400000`.

Random words come at that rate per second, each with the time of its arrival. They are counted in
windows of a tenth of a second, per record and natively. A window is complete when every source has
passed its end. A line has two latencies of its first result, in milliseconds:

- *behind the watermark*: since the last source has read a word past the window's end;
- *behind the end*: since the end. It includes the sources' wait for their next batch, which follows
  from rate and batch size, and which no engine can shorten.
"""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_left
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

import engine
from operators import Pipeline, Tumbling, source
from operators.sinks import Collect
from operators.sources import RandomWords

Api = Literal["per record", "native"]


def main() -> None:
    """Measure each API and batch size, and print a line each."""
    rate = float(sys.argv[1]) if len(sys.argv) > 1 else 400_000.0
    print(f"{rate:,.0f} words/s, parallelism {PARALLELISM}, ms      behind the watermark  the end")
    for api in API:
        for batch_size in (100, 1000):
            behind, raw = measure(api, rate, batch_size=batch_size)
            cells = (_percentiles(behind), _percentiles(raw))
            print(f"{api:12} batch {batch_size:5}  {len(raw):4} windows  {cells[0]}   {cells[1]}")


def measure(
    api: Api, rate: float, *, batch_size: int = 1000, seconds: float = 4.0
) -> tuple[list[float], list[float]]:
    """Run the job; returns each window's latency in ms after the watermark and after its end."""
    result = engine.execute(
        pipelines(api, rate, seconds),
        parallelism=PARALLELISM,
        batch_size=batch_size,
        progress="none",
    )
    read: dict[int, list[int]] = {}
    for process, read_us in result.outputs["read"]:
        read.setdefault(process, []).append(read_us)
    behind, raw = [], []
    warm = min(map(min, read.values())) + 500_000
    for end_us, came_us in result.outputs["came"]:
        at = [(times, bisect_left(times, end_us)) for times in read.values()]
        if end_us < warm or any(first == len(times) for times, first in at):
            continue  # its result came at the end of the input
        behind.append((came_us - max(times[first] for times, first in at)) / 1000)
        raw.append((came_us - end_us) / 1000)
    return sorted(behind), sorted(raw)


def pipelines(api: Api, rate: float, seconds: float) -> list[Pipeline]:
    """The windows with their arrival times, and the progress of the sources with its times."""
    words = source(RandomWords(length=32, seconds=seconds, rate=rate))
    timed = words.map_batches(with_now).with_event_time(2)
    windows = timed.key_by(0).window(Tumbling(timedelta(seconds=0.1)))
    counts = windows.count() if api == "native" else windows.reduce(add)
    return [
        counts.map_batches(arrival).sink(Collect()).named("came"),
        timed.map_batches(reading).sink(Collect()).named("read"),
    ]


def with_now(words: list[str]) -> list[tuple[str, int, int]]:
    """Each word with a one and the time."""
    now_us = time.time_ns() // 1000
    return [(word, 1, now_us) for word in words]


def add(so_far: Any, record: Any) -> Any:
    """The sum of the ones."""
    return so_far[0], so_far[1] + record[1], record[2]


def arrival(results: list[Any]) -> list[tuple[int, int]]:
    """The end of the first result's window, and its arrival time."""
    return [(results[0][3], time.time_ns() // 1000)] if results else []


def reading(records: list[Any]) -> list[tuple[int, int]]:
    """The source that has read these, and when; a channel may join batches."""
    return [(os.getpid(), read_us) for read_us in sorted({record[2] for record in records})]


def _percentiles(values: Iterable[float]) -> str:
    ordered = list(values)
    p50, p99 = (ordered[int(share * len(ordered))] for share in (0.5, 0.99))
    return f"p50 {p50:5.1f} p99 {p99:5.1f}"


API: tuple[Api, ...] = ("per record", "native")
PARALLELISM = 2

if __name__ == "__main__":
    main()
