"""The highest open rate that a word count sustains: `oka bench sustainable`.

`probe` defines when a rate is sustained, `search` finds the highest one. At this rate the pipeline
can run for long with short latencies; at the closed throughput it cannot.
"""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

import engine
from benchmarks.measurement import Case, Measurement, Run, row
from benchmarks.options import (
    api_option,
    parallelism_option,
    result_options,
    runtime_option,
    settings,
    transport_option,
    words_options,
)
from benchmarks.schema.result import Result, Row
from benchmarks.systems import measure, oka, runtime
from benchmarks.words.probe import Probe, probe
from benchmarks.words.search import highest_rate
from engine.report.tables import table
from engine.units import duration, rate

RunProbe = Callable[[Case, Run, float], Probe]


@dataclass(frozen=True)
class Search:
    """The settings of the search in every case."""

    seconds: float
    warmup: float
    seed: int
    p99_ms: float
    tolerance: float
    confirm: int


@click.command("sustainable")
@words_options("32", "1000")
@parallelism_option("1")
@api_option()
@runtime_option
@transport_option
@click.option("--p99-ms", default=10.0, help="Highest p99 of the latency, in ms.")
@click.option("--seconds", default=3.0, help="Length of a probe, without its warm-up.")
@click.option("--warmup", default=0.7, help="Seconds left out at the start of a probe.")
@click.option("--tolerance", default=0.05, help="Precision of the search, as a share of the rate.")
@click.option(
    "--confirm",
    default=3,
    help="Further probes in which the rate must hold; else the next lower one is taken.",
)
@result_options
def command(
    payload: tuple[int, ...],
    batch: tuple[int, ...],
    parallelism: tuple[int, ...],
    api: tuple[str, ...],
    runtime_name: str,
    transport: str | None,
    p99_ms: float,
    seconds: float,
    warmup: float,
    tolerance: float,
    confirm: int,
    seed: int,
    json_file: Path | None,
    fresh: bool,
) -> None:
    """The highest rate of words with a steady backlog and a bounded p99, by trial.

    A rate is sustained if the sinks receive at least 98 % of it, the backlog grows by at most 1 %
    of it per second, and p99 is within --p99-ms. Each case takes about ten probes.
    """
    search = _checked(Search(seconds, warmup, seed, p99_ms, tolerance, confirm))
    result = Result("sustainable", dataclasses.asdict(search), json_file, fresh)
    cases = [
        oka(name, runtime_name, transport, (payload_bytes, batch_size, tasks), load="sustainable")
        for tasks, payload_bytes, batch_size, name in itertools.product(
            parallelism, payload, batch, api
        )
    ]
    try:
        with runtime(runtime_name, max(parallelism)):
            for case in cases:
                if not result.has(case):
                    result.add([find(case, search)])
    except BaseException:
        result.tell_kept()
        raise
    click.echo(report(result.rows))
    result.raise_failures(cases)


def find(
    case: Case,
    search: Search,
    measure: Callable[[Case, Run], Measurement] = measure,
    probe: RunProbe = probe,
) -> Row:
    """The row of a case: medians over the probes that confirmed its rate, and all its probes."""
    probes: list[Probe] = []
    closed = Run(search.seconds, search.warmup, None, search.seed)

    def holds(words_per_second: float) -> bool:
        run = dataclasses.replace(closed, rate=words_per_second)
        probes.append(probe(case, run, search.p99_ms * 1e3))
        _tell(case, str(probes[-1]))
        return probes[-1].sustained

    found, upper, failures = None, None, []
    _tell(case, "measuring the closed load")
    try:
        upper = measure(case, closed).throughput
        _tell(case, f"{rate(upper)} words/s at closed load")
        found = highest_rate(holds, upper, search.tolerance, search.confirm)
    except _FAILURES as error:
        failures.append(f"{case.label}: {error}")
    else:
        if found is None:
            failures.append(
                f"{case.label}: no rate is sustained; the last probe: {probes[-1]}"
                "\n\nhint: a higher --p99-ms, or a machine with nothing else to do"
            )
    for failure in failures:
        _tell(case, failure)
    confirming = [] if found is None else probes[-search.confirm :]
    return {
        **row(case, [each.measurement for each in confirming], failures, found),
        "sustainable_rate": found,
        "p99_bound_ms": search.p99_ms,
        "closed_throughput": upper,
        "probes": [each.to_dict() for each in probes],
    }


def report(rows: Sequence[Row]) -> str:
    """A line for each case."""
    return table(_COLUMNS, [_line(found) for found in rows], keys=5)


def _line(found: Row) -> tuple[str, ...]:
    place = (
        found["system"],
        found["api"],
        *(str(found[field]) for field in ("payload_bytes", "batch_size", "parallelism")),
    )
    sustained, closed = found["sustainable_rate"], found["closed_throughput"]
    probes, latency = str(len(found["probes"])), found["latency_us"]
    if sustained is None:
        return (*place, "none", "", rate(closed) if closed else "failed", "", "", "", probes)
    return (
        *place,
        rate(sustained),
        f"{sustained / closed:.2f}",
        rate(closed),
        duration(latency["p50"]),
        duration(latency["p99"]),
        f"{found['cpu_seconds_per_million']['median']:.3f}",
        probes,
    )


def _checked(search: Search) -> Search:
    """The search itself; raises click.UsageError."""
    settings(search.seconds, search.warmup, 1, search.seed)
    for option, value, least, below in (
        ("--seconds", search.seconds, 1.0, float("inf")),
        ("--p99-ms", search.p99_ms, 1e-3, float("inf")),
        ("--tolerance", search.tolerance, 1e-3, 1.0),
        ("--confirm", search.confirm, 1, float("inf")),
    ):
        if not least <= value < below:
            above = "" if below == float("inf") else f" and below {below:g}"
            raise click.UsageError(f"{option} is {value}, expected at least {least:g}{above}")
    return search


def _tell(case: Case, text: str) -> None:
    place = f"{case.api} {case.payload_bytes} B, batch {case.batch_size}, p {case.parallelism}"
    print(f"[{place}] {text}", file=sys.stderr, flush=True)


_FAILURES = (engine.EngineError, RuntimeError, OSError, subprocess.SubprocessError)
_COLUMNS = (
    "system",
    "api",
    "bytes",
    "batch",
    "p",
    "sustained words/s",
    "x closed",
    "closed",
    "p50",
    "p99",
    "cpu s/M",
    "probes",
)
