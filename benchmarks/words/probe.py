"""A probe: one run at an offered rate, and whether the pipeline keeps up with it.

A rate is sustained when all of these hold over the steady window (after the warm-up, until the
source ends):

- the sinks receive at least 98 % of it;
- the backlog does not grow. It is the number of words that are due by the source's schedule and not
  counted at a sink, sampled while the job runs. The slope of the least-squares line is at most 1 %
  of the rate;
- p99 of the latency, from the moment that the schedule intends, is within the bound.

Why these numbers: each sample of the backlog is a few ms early or late, which in a window of 3 s
with a sample each 0.1 s changes the slope by 0.1 % of the rate. A pause of 100 ms at the very end,
which looks like growth, changes it by 0.7 %. A pipeline that lacks one percent of the rate would be
a second late after 100 s. Words come in batches, so slope and throughput may also differ by one
batch of every task over the window; that matters only at rates of a few batches per second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Any

import engine
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.systems import measure_oka
from engine.network import LatencyHistogram
from engine.report.statistics import Latency
from engine.units import duration, rate


@dataclass(frozen=True)
class Sample:
    """The job at one moment while it runs."""

    seconds: float
    """Seconds since the first word was seen to be emitted."""
    emitted: int
    """Words that left the sources."""
    counted: int
    """Words that the sinks' tasks have received."""


@dataclass(frozen=True)
class Probe:
    """The measurement of one run at a rate."""

    offered: float
    """Words per second, over all sources."""
    measurement: Measurement
    backlog_slope: float | None
    """Words per second by which the backlog grows; None with too few samples."""
    reasons: tuple[str, ...]
    """Why the rate is not sustained; empty if it is."""

    @property
    def sustained(self) -> bool:
        """Whether the pipeline keeps up."""
        return not self.reasons

    @property
    def latency(self) -> Latency:
        """Over the steady window; its count is 0 if no marker arrived."""
        return _latency(self.measurement)

    def to_dict(self) -> dict[str, Any]:
        """The probe as an entry of a row."""
        latency = self.latency
        return {
            "offered": self.offered,
            "throughput": self.measurement.throughput,
            "backlog_slope": self.backlog_slope,
            "p50_us": latency.p50 if latency.count else None,
            "p99_us": latency.p99 if latency.count else None,
            "sustained": self.sustained,
            "reasons": list(self.reasons),
        }

    def __str__(self) -> str:
        latency = self.latency
        backlog = "?" if self.backlog_slope is None else f"{self.backlog_slope / self.offered:+.1%}"
        verdict = "sustained" if self.sustained else f"not sustained: {'; '.join(self.reasons)}"
        return (
            f"{rate(self.offered)} words/s offered, {rate(self.measurement.throughput)} counted, "
            f"backlog {backlog} of the rate, p50 {duration(latency.p50)}, "
            f"p99 {duration(latency.p99)}: {verdict}"
        )


def probe(case: Case, run: Run, p99_bound_us: float) -> Probe:
    """Run Oka at the run's rate and judge it; raises EngineError, RuntimeError if it fails."""
    assert run.rate is not None, "a probe offers a rate"
    watch = _Watch(case.parallelism)
    measurement = measure_oka(case, run, watch)
    return judge(case, run, measurement, watch.samples, p99_bound_us)


def judge(
    case: Case,
    run: Run,
    measurement: Measurement,
    samples: Sequence[Sample],
    p99_bound_us: float,
) -> Probe:
    """The verdict on a run, by the module's definition."""
    assert run.rate is not None, "a probe offers a rate"
    reasons = []
    grain = case.batch_size * case.parallelism / run.seconds
    least = _LEAST_THROUGHPUT * run.rate - grain
    if measurement.throughput < least:
        reasons.append(
            f"{rate(measurement.throughput)} words/s were counted, expected at least {rate(least)}"
        )
    slope = _backlog_slope(samples, run)
    most = _MOST_BACKLOG_SLOPE * run.rate + grain
    if slope is None:
        reasons.append(f"fewer than {_LEAST_SAMPLES} samples of the backlog in {run.seconds:g} s")
    elif slope > most:
        reasons.append(f"the backlog grew by {rate(slope)} words/s, expected at most {rate(most)}")
    latency = _latency(measurement)
    if not latency.count:
        reasons.append("no marker arrived after the warm-up")
    elif latency.p99 > p99_bound_us:
        reasons.append(f"p99 is {duration(latency.p99)}, expected at most {duration(p99_bound_us)}")
    return Probe(run.rate, measurement, slope, tuple(reasons))


def _backlog_slope(samples: Sequence[Sample], run: Run) -> float | None:
    """The growth in words per second; the start of the schedule does not matter."""
    assert run.rate is not None, "a probe offers a rate"
    # After its last word, the source may have ended: no word is due any more.
    last = max((sample.emitted for sample in samples), default=0)
    steady = [each for each in samples if each.seconds >= run.warmup and each.emitted < last]
    if len(steady) < _LEAST_SAMPLES:
        return None
    times = [each.seconds for each in steady]
    backlog = [run.rate * each.seconds - each.counted for each in steady]
    return linear_regression(times, backlog).slope


def _latency(measurement: Measurement) -> Latency:
    histogram = LatencyHistogram()
    if measurement.histogram:
        histogram.merge(measurement.histogram)
    return Latency.of(histogram)


class _Watch:
    """Samples of a job: one for each call with it."""

    def __init__(self, parallelism: int, now: Callable[[], float] = time.monotonic) -> None:
        self.samples: list[Sample] = []
        self._parallelism = parallelism
        self._now = now
        self._started: float | None = None

    def __call__(self, job: engine.JobHandle) -> None:
        asked = self._now()
        statistics = job.statistics()
        moment = (asked + self._now()) / 2
        operators = statistics.operators
        # A task that did not answer in time would look like words that were lost.
        complete = operators and all(each.parallelism == self._parallelism for each in operators)
        if not complete or not statistics.source_records:
            return
        sink = next(each for each in operators if each.vertex == operators[-1].vertex)
        if self._started is None:
            self._started = moment
        self.samples.append(
            Sample(moment - self._started, statistics.source_records, sink.records_in)
        )


_LEAST_THROUGHPUT = 0.98
_MOST_BACKLOG_SLOPE = 0.01
_LEAST_SAMPLES = 5
