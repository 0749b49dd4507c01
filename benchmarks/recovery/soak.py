"""The soak: `oka bench soak`, or `make soak`.

Word counts one after the other, as fast as they go: per record and native, over shared memory and
over encrypted TCP, with a marker on every record and on every hundredth. Each second it samples the
memory and the descriptors of every worker. It fails if memory still grows after the warm-up, if
descriptors grow, or if a count is not exact.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import Literal

import click
import psutil

import engine
from engine.units import counted, duration, rate
from pipelines.word_count import random_word_count


@dataclass(frozen=True)
class Sample:
    """One process at one moment."""

    seconds: float
    """Since the job began to run."""
    memory_bytes: int
    """Resident set."""
    descriptors: int


@dataclass(frozen=True)
class Round:
    """One word count of the soak."""

    api: Literal["per_record", "native"]
    transport: Literal["shm", "tcp"]
    marker_interval: int

    def __str__(self) -> str:
        return f"{self.api} over {self.transport}, a marker per {self.marker_interval}"


ROUNDS = (
    Round("per_record", "shm", 100),
    Round("native", "tcp", 1),
    Round("per_record", "tcp", 100),
    Round("native", "shm", 1),
)


@click.command("soak")
@click.option("--seconds", default=600.0, help="Length of all word counts together.")
@click.option("--parallelism", default=1, help="Source tasks, and sink tasks.")
@click.option("--payload", default=32, help="Bytes in a word.")
def command(seconds: float, parallelism: int, payload: int) -> None:
    """Word counts for ten minutes: memory and descriptors stay flat, counts exact."""
    least = 2 * _LEAST_SAMPLES * len(ROUNDS)
    if seconds < least:
        raise click.UsageError(f"--seconds is {seconds:g}, expected at least {least}")
    failures = []
    ours = psutil.Process()
    before = ours.num_fds()
    for each in ROUNDS:
        failures += [
            f"{each}: {problem}"
            for problem in _soak(each, seconds / len(ROUNDS), parallelism, payload)
        ]
    if ours.num_fds() > before:
        failures.append(f"the driver had {before} descriptors before and {ours.num_fds()} after")
    for failure in failures:
        print(f"failed: {failure}")
    if failures:
        sys.exit(1)
    print("memory and descriptors stayed flat, every count was exact")


def judge(samples: Sequence[Sample]) -> list[str]:
    """The problems of a process with these samples; the first third is warm-up.

    Memory is judged by the least-squares line through all later samples: it may rise by
    MOST_GROWTH_BYTES_PER_MINUTE, or by LEAST_GROWTH_BYTES in total if that is more, so that one
    late allocation in a short run is no leak. Descriptors may vary, but those of the second half
    must not all be above those of the first.
    """
    if len(samples) < _LEAST_SAMPLES:
        return [f"only {len(samples)} samples, expected at least {_LEAST_SAMPLES}"]
    problems = []
    warm = samples[len(samples) // 3 :]
    minutes = (warm[-1].seconds - warm[0].seconds) / 60
    growth = _slope(warm) * (warm[-1].seconds - warm[0].seconds)
    bound = max(LEAST_GROWTH_BYTES, MOST_GROWTH_BYTES_PER_MINUTE * minutes)
    if growth > bound:
        problems.append(
            f"memory grew by {growth / _MIB:.1f} MiB in {minutes:.1f} minutes, "
            f"expected at most {bound / _MIB:.1f} MiB"
        )
    first, second = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    most, least = (
        max(sample.descriptors for sample in first),
        min(sample.descriptors for sample in second),
    )
    if least > most:
        problems.append(f"descriptors grew from {most} to {least}")
    return problems


def _slope(samples: Sequence[Sample]) -> float:
    """Bytes per second of the line that fits best."""
    count = len(samples)
    middle = sum(sample.seconds for sample in samples) / count
    mean = sum(sample.memory_bytes for sample in samples) / count
    spread = sum((sample.seconds - middle) ** 2 for sample in samples)
    together = sum((s.seconds - middle) * (s.memory_bytes - mean) for s in samples)
    return together / spread


def _soak(each: Round, seconds: float, parallelism: int, payload: int) -> list[str]:
    handle = engine.submit(
        random_word_count(seconds, payload, api=each.api),
        parallelism=parallelism,
        transport=each.transport,
        marker_interval=each.marker_interval,
        progress="none",
    )
    print(f"{each}: {duration(seconds * 1e6)}", flush=True)
    samples: dict[psutil.Process, list[Sample]] = {}
    started = told = time.monotonic()
    while (result := _result(handle)) is None:
        now = time.monotonic()
        servers = psutil.Process().children()  # the one that forks the workers
        for worker in (worker for server in servers for worker in server.children()):
            sample = _sample(worker, now - started)
            if sample is not None and now - started < seconds:
                samples.setdefault(worker, []).append(sample)
        if now - told >= _TELL_SECONDS:
            told = now
            _tell(each, handle.statistics(), samples)
    problems = [
        f"worker {worker.pid}: {problem}"
        for worker, of_worker in samples.items()
        for problem in judge(of_worker)
    ]
    if len(samples) != 2 * parallelism:
        problems.append(f"{counted(len(samples), 'worker')} seen, expected {2 * parallelism}")
    arrived, emitted = sum(result.output.values()), result.statistics.source_records
    if arrived != emitted:
        problems.append(f"the source emitted {emitted} words, the sink counted {arrived}")
    return problems


def _result(handle: engine.JobHandle) -> engine.JobResult | None:
    """The job's result, if it comes within a second."""
    try:
        return handle.wait_finished(timeout=1.0)
    except NotYet:
        return None


def _sample(worker: psutil.Process, seconds: float) -> Sample | None:
    try:
        with worker.oneshot():
            return Sample(seconds, worker.memory_info().rss, worker.num_fds())
    except psutil.Error:  # it just ended
        return None


def _tell(
    each: Round,
    statistics: engine.JobStatistics,
    samples: dict[psutil.Process, list[Sample]],
) -> None:
    latest = [of_worker[-1] for of_worker in samples.values()]
    memory = " ".join(f"{sample.memory_bytes / _MIB:.1f}" for sample in latest)
    print(
        f"{each}: {statistics.elapsed_seconds:4.0f} s  {rate(statistics.input_throughput)} words/s"
        f"  p99 {duration(statistics.latency.p99)}  memory {memory} MiB"
        f"  descriptors {' '.join(str(sample.descriptors) for sample in latest)}",
        flush=True,
    )


_MIB = 1024 * 1024
_TELL_SECONDS = 10.0
_LEAST_SAMPLES = 6
MOST_GROWTH_BYTES_PER_MINUTE = 1 * _MIB
"""A byte that is lost per record is a hundred times as much."""
LEAST_GROWTH_BYTES = 4 * _MIB
"""Bytes that an allocator may take late without a trend."""
