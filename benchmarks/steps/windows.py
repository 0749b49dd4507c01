"""Throughput of windows: `python -m benchmarks.steps.windows [runs] [case ...]`.

Records have a random word and a time in microseconds, which is independent of the clock: a second
of event time has a fixed number of records. Cases run in turn, at parallelism 1, with one process
of sources and one of windows, batch 1000. A line has the median, the least and the most of million
records per second, the CPU seconds per million, and the ratio to another case.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import Any

import engine
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator
from operators import (
    KeyedStream,
    Pipeline,
    Session,
    Sliding,
    Stream,
    Tumbling,
    WindowedStream,
    source,
)
from operators.sinks import Discard
from operators.sources.batches import Blocks


def main() -> None:
    """Run the cases in turn, and print a line each."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    names = sys.argv[2:] or list(CASES)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            found[name].append(measure(CASES[name]))
    print(f"{'':38} M/s  (least-most)   CPU s/M   against")
    for name, pairs in found.items():
        rates, costs = zip(*pairs, strict=True)
        rate, case = statistics.median(rates), CASES[name]
        line = f"{name:36} {rate:5.2f}  ({min(rates):.2f}-{max(rates):.2f})"
        line += f"  {statistics.median(costs):8.4f}"
        if case.against in found:
            other = statistics.median(each for each, _ in found[case.against])
            line += f"   {rate / other:.2f} of {case.against}"
        print(line, flush=True)


@dataclass(frozen=True)
class Case:
    """A job of one source and one operator."""

    windows: Any = None
    """None: a count of all records, without time."""
    over: timedelta | None = None
    """In place of windows a span that ends at each record, of whose times the mean is computed."""
    columnar: bool = False
    keyless: bool = False
    """Whether all records are counted without a key."""
    per_record: bool = False
    """Whether Python functions make a count of each record, and add the counts."""
    words: int = 100
    per_second: int = 1_000_000
    """Records in a second of event time."""
    disorder_us: int = 0
    """How much earlier a record may be than one before it."""
    against: str = ""


def measure(case: Case) -> tuple[float, float]:
    """Run the job once; million records per second, and CPU seconds per million."""
    result = engine.execute(
        pipeline(case), batch_size=BATCH, warmup_seconds=WARMUP, progress="none", name="windows"
    )
    ran = result.statistics
    return ran.source_throughput / 1e6, ran.cpu_seconds / ran.source_records * 1e6


def pipeline(case: Case) -> Pipeline:
    """The job of a case."""
    records: Stream[Any] = source(Timed(case))
    key, time_of = ("word", "time") if case.columnar else (0, 1)
    if case.per_record:
        records = records.map(lambda pair: (pair[0], pair[1], 1))
    late = timedelta(microseconds=case.disorder_us)
    keyed: KeyedStream[Any, Any] | WindowedStream[Any, Any]
    if case.keyless:
        if case.windows is None:
            return records.count().sink(Discard())
        timed = records.with_event_time(time_of, out_of_orderness=late)
        return timed.window(case.windows).count().sink(Discard())
    if case.over is not None:
        timed = records.with_event_time(time_of, out_of_orderness=late)
        return timed.key_by(key).over(case.over).mean(time_of).sink(Discard())
    if case.windows is None:
        keyed = records.key_by(key)
    else:
        timed = records.with_event_time(time_of, out_of_orderness=late)
        keyed = timed.key_by(key).window(case.windows)
    counts: Stream[Any] = keyed.reduce(added) if case.per_record else keyed.count()
    return counts.sink(Discard())


def added(one: tuple[str, int, int], other: tuple[str, int, int]) -> tuple[str, int, int]:
    """Both counts of a word together."""
    return (one[0], one[1], one[2] + other[2])


class Timed(SourceOperator[Any]):
    """Pairs (word, time), or columns of both, for some seconds.

    Records of a list have a time for each batch, columns one for each row.
    """

    def __init__(self, case: Case) -> None:
        self.case = case

    @property
    def properties(self) -> Properties:
        """Whether records are columns."""
        return Properties(emits_columns=self.case.columnar, never_waits=True)

    def open(self, context: TaskContext) -> Blocks:
        """All batches of the only task."""
        import numpy as np

        random = np.random.default_rng(0)
        drawn = [random.integers(self.case.words, size=BATCH) for _ in range(PREPARED)]
        make = self._columns if self.case.columnar else self._pairs
        return Blocks(partial(make, drawn), 0, context.batch_size)

    def _pairs(self, drawn: list[Any], start: int) -> Iterator[tuple[int, Any]]:
        words = [f"word number {number:06}" for number in range(self.case.words)]
        blocks = [[words[number] for number in each] for each in drawn]
        step = BATCH * 1_000_000 // self.case.per_second
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for block in blocks:
                yield start, list(zip(block, repeat(START_US + start * step), strict=False))
                start += 1

    def _columns(self, drawn: list[Any], start: int) -> Iterator[tuple[int, Any]]:
        import numpy as np
        import pyarrow as pa

        words = np.array([f"word number {number:06}" for number in range(self.case.words)])
        blocks = [pa.array(words[each].tolist()) for each in drawn]
        random = np.random.default_rng(1)
        step = 1_000_000 / self.case.per_second
        times = (np.arange(BATCH) * step).astype(np.int64) + START_US
        early = [
            times - random.integers(self.case.disorder_us + 1, size=BATCH) for _ in range(PREPARED)
        ]
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for block, each in zip(blocks, early, strict=True):
                now = pa.array(each + int(start * BATCH * step))
                yield start, pa.record_batch([block, now], names=["word", "time"])
                start += 1


BATCH = 1000
PREPARED = 1000
"""Batches with random words, which are repeated."""
SECONDS = 2.5
WARMUP = 0.5
START_US = 1_760_000_000_000_000
"""October 2025: as large in a record as present times."""
_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)
_MANY = 100_000
_RARE = 20
"""Records in a second of event time: those of a day pass in a run."""
_SLOW = 100_000
CASES = {
    "count": Case(),
    "tumbling 1 s": Case(Tumbling(_SECOND), against="count"),
    "count without a key": Case(keyless=True, against="count"),
    "tumbling 1 s without a key": Case(Tumbling(_SECOND), keyless=True, against="tumbling 1 s"),
    "sessions, 100,000 keys": Case(Session(_SECOND), words=_MANY),
    "short sessions, 100,000 keys": Case(Session(_SECOND / 5), words=_MANY),
    "tumbling 1 s, slow": Case(Tumbling(_SECOND), per_second=_SLOW, against="count"),
    "sliding 60 s by 1 s, slow": Case(
        Sliding(60 * _SECOND, _SECOND), per_second=_SLOW, against="tumbling 1 s, slow"
    ),
    "reduce": Case(per_record=True),
    "reduce, tumbling 1 s": Case(Tumbling(_SECOND), per_record=True, against="reduce"),
    "columns, count": Case(columnar=True),
    "columns, tumbling 1 s": Case(Tumbling(_SECOND), columnar=True, against="columns, count"),
    "columns, count without a key": Case(columnar=True, keyless=True, against="columns, count"),
    "columns, tumbling 1 s without a key": Case(
        Tumbling(_SECOND), columnar=True, keyless=True, against="columns, tumbling 1 s"
    ),
    "columns, tumbling 1 s, disorder": Case(
        Tumbling(_SECOND), columnar=True, disorder_us=1_000_000, against="columns, count"
    ),
    "over 1 h": Case(over=_HOUR, per_second=_RARE, against="count"),
    "over 24 h": Case(over=24 * _HOUR, per_second=_RARE, against="over 1 h"),
    "over 1 h, 100,000 keys": Case(over=_HOUR, words=_MANY, per_second=_RARE),
    "over 24 h, 100,000 keys": Case(
        over=24 * _HOUR, words=_MANY, per_second=_RARE, against="over 1 h, 100,000 keys"
    ),
    "columns, over 1 h": Case(
        over=_HOUR, columnar=True, per_second=_RARE, against="columns, count"
    ),
    "columns, over 24 h": Case(
        over=24 * _HOUR, columnar=True, per_second=_RARE, against="columns, over 1 h"
    ),
    "columns, over 24 h, 100,000 keys": Case(
        over=24 * _HOUR, words=_MANY, columnar=True, per_second=_RARE
    ),
}

if __name__ == "__main__":
    main()
