"""The mesh: `oka bench mesh`, the cost per worker of n sources x n sinks, and so n x n channels.

The total rate is the same at every size, so that CPU per million words shows the cost of the
channels.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click
import psutil

import engine
from benchmarks.options import Numbers, settings
from engine.report.tables import table
from engine.units import duration
from engine.units import rate as show_rate
from pipelines.word_count import random_word_count


@dataclass(frozen=True)
class Footprint:
    """The resources of one worker while the job runs."""

    descriptors: int
    threads: int
    private_mb: float
    """Private memory."""
    shared_mb: float
    """Its share of memory that several processes map: code, and the rings."""


@click.command("mesh")
@click.option("--sizes", type=Numbers(), default="1,8,32", help="Tasks per operator.")
@click.option("--rate", default=2e6, help="Words per second in all; 0: no limit.")
@click.option("--seconds", default=8.0, help="Length of each run.")
@click.option("--repeats", default=3, help="Runs of each size, alternating.")
@click.option("--runtime", type=click.Choice(["local", "ray"]), default="local")
@click.help_option("--help", "-h")
def command(
    sizes: tuple[int, ...], rate: float, seconds: float, repeats: int, runtime: str
) -> None:
    """Full meshes of n x n channels: CPU, descriptors, threads and memory of each worker.

    A native word count, batches of 1000 words of 32 bytes. Medians over runs and workers.
    """
    settings(seconds, 0.0, repeats, 0)
    rows: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    for number in range(repeats):
        for size in sizes:
            click.echo(f"[{number + 1}/{repeats}] {size} x {size} channels", err=True)
            rows[size].append(_run(size, rate or None, seconds, runtime))
    cells = []
    for size, runs in rows.items():
        of = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        cells.append(
            (
                str(size),
                show_rate(of["throughput"]),
                f"{of['cpu']:.3f}",
                duration(of["p50"]),
                duration(of["p99"]),
                f"{of['descriptors']:.0f}",
                f"{of['threads']:.0f}",
                f"{of['private']:.1f} MB",
                f"{of['shared']:.1f} MB",
            )
        )
    click.echo(table(_COLUMNS, cells))


def _run(size: int, rate: float | None, seconds: float, runtime: Any) -> dict[str, float]:
    handle = engine.submit(
        random_word_count(seconds, 32, rate=rate, api="native"),
        parallelism=size,
        batch_size=1000,
        runtime=runtime,
        warmup_seconds=1.0,
        connect_timeout_seconds=300.0,
    )
    try:
        while handle.statistics().elapsed_seconds < seconds / 2:
            with suppress(NotYet):
                handle.wait_finished(_LOOK_SECONDS)
                raise click.ClickException(
                    f"{size} x {size} ended before its workers were looked at"
                )
        footprints = _footprints(2 * size, runtime)
        result = handle.wait_finished()
    except BaseException:
        handle.cancel()
        raise
    words = sum(result.output.values())
    return {
        "throughput": result.statistics.input_throughput,
        "cpu": result.statistics.cpu_seconds / words * 1e6,
        "p50": result.latency.p50,
        "p99": result.latency.p99,
        "descriptors": statistics.median(each.descriptors for each in footprints),
        "threads": statistics.median(each.threads for each in footprints),
        "private": statistics.median(each.private_mb for each in footprints),
        "shared": statistics.median(each.shared_mb for each in footprints),
    }


def _footprints(workers: int, runtime: str) -> Sequence[Footprint]:
    """The workers of tasks that run now."""
    if runtime == "local":
        servers = psutil.Process().children()  # each forks the workers of a job
        processes = [worker for server in servers for worker in server.children()]
    else:
        processes = [p for p in psutil.process_iter() if p.name().startswith("ray::Worker")]
    found = []
    for process in processes:
        memory = process.memory_full_info()
        found.append(
            Footprint(
                descriptors=process.num_fds(),
                threads=process.num_threads(),
                private_mb=memory.uss / 1e6,
                shared_mb=(memory.pss - memory.uss) / 1e6,
            )
        )
    if len(found) != workers:
        raise click.ClickException(f"{len(found)} worker processes are there, expected {workers}")
    return found


_LOOK_SECONDS = 0.2
_COLUMNS = (
    "n",
    "words/s",
    "CPU s/M",
    "p50",
    "p99",
    "descriptors",
    "threads",
    "private",
    "shared",
)
