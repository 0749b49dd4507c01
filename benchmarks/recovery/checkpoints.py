"""The cost of checkpoints: `oka bench checkpoints`.

A running count of many keys, with a checkpoint each second and without, in turn, and the same by
Flink's DataStream in Java with state on the heap, its fastest. A run lasts from the first source's
start to the last sink's end.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np

import engine
from benchmarks.measurement import Case, Measurement, Run
from benchmarks.options import file_options, names_option, parallelism_option, repeats_option
from benchmarks.peers.flink import FLINK, Found, run_flink
from benchmarks.peers.jvm import JvmPeer
from benchmarks.schema.result import Result, Row
from benchmarks.schema.rows import OWN
from benchmarks.sweep import Cell, Settings, every_case, sweep
from benchmarks.systems import OKA
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator
from engine.report.tables import table
from engine.units import rate
from operators import Pipeline, source
from operators.sinks import Discard
from operators.sources.batches import Blocks


@dataclass(frozen=True)
class StateCase(Case):
    """A count of keys by one API of one system, with checkpoints or without."""

    keys: int = 0
    interval_seconds: float | None = None
    """Seconds between checkpoints; None: no checkpoints."""

    unit: ClassVar[str] = "records/s"

    @property
    def label(self) -> str:
        """The case in words."""
        told = told_of(self.interval_seconds)
        return f"{self.system} {self.api}, {self.keys:,} keys, {told}"


def told_of(interval_seconds: float | None) -> str:
    """The interval in words."""
    return f"a checkpoint each {interval_seconds:g} s" if interval_seconds else "no checkpoints"


class Keys(SourceOperator[int]):
    """So many numbers below `keys`, uniformly distributed, in an order without a pattern."""

    properties = Properties(never_waits=True)

    def __init__(self, records: int, keys: int) -> None:
        self.records = records
        self.keys = keys

    def open(self, context: TaskContext) -> Blocks:
        """The share of this task."""
        first, end = (self.records * at // context.parallelism for at in _ends(context.index))

        def blocks(start: int) -> Iterator[tuple[int, list[int]]]:
            for at in range(start, end, _BLOCK):
                numbers = np.arange(at, min(at + _BLOCK, end), dtype=np.int64)
                yield at, (numbers * _STRIDE % self.keys).tolist()

        return Blocks(blocks, first, context.batch_size)


def native(keys: Keys) -> Pipeline:
    """Counted in Rust."""
    return source(keys).key_by().count().sink(Discard())


def per_record(keys: Keys) -> Pipeline:
    """Counted by a function of Python, which is called for each record."""
    pairs = source(keys).map(lambda key: (key, 1))
    return pairs.key_by(0).reduce(lambda a, b: (a[0], a[1] + b[1])).sink(Discard())


APIS: dict[str, tuple[Callable[[Keys], Pipeline], int, int]] = {
    "native": (native, 1_000_000, 60_000_000),
    "per_record": (per_record, 100_000, 12_000_000),
}
"""Each with its number of keys, and the records for some ten seconds."""
FLINK_JAVA = JvmPeer(FLINK, "datastream", "native", None, "oka-peers.jar", needs_jar=True)
"""Says what it needs, and how to install that."""


@click.command("checkpoints")
@names_option(
    *("--api", "apis", APIS),
    "How Oka counts: native with a million keys, per record with 100,000.",
)
@click.option("--interval", default=1.0, help="Seconds from a checkpoint to the next.")
@click.option(
    "--share",
    default=1.0,
    type=click.FloatRange(0, min_open=True),
    help="Of the records that take about ten seconds: 0.1 for a look, 6 for a minute.",
)
@parallelism_option("1")
@click.option("--peers/--no-peers", default=True, help="Alternate with Flink in Java.")
@repeats_option
@file_options
def command(
    apis: tuple[str, ...],
    interval: float,
    share: float,
    parallelism: tuple[int, ...],
    peers: bool,
    repeats: int,
    json_file: Path | None,
    fresh: bool,
) -> None:
    """Jobs with a checkpoint each second in turn with jobs without, and Flink's beside them.

    `make peers-flink` builds Flink; without it, Oka runs alone. Every run has to count all records.
    """
    absent = FLINK_JAVA.missing() if peers else None
    if absent:
        click.echo(f"left out: {absent}; {FLINK_JAVA.setup}", err=True)
    cells = [
        _cell(api, tasks, interval, peers and not absent)
        for tasks, api in itertools.product(parallelism, apis)
    ]
    chosen = {"interval": interval, "share": share, "repeats": repeats}
    result = Result("checkpoints", chosen, json_file, fresh, StateCase)

    def measure(case: Case, _run: Run) -> Measurement:
        assert isinstance(case, StateCase)
        return run(case, share)

    sweep(cells, Settings(0.0, 0.0, repeats, 0), result, measure)
    click.echo(report(result.rows))
    result.raise_failures(every_case(cells))


def _cell(api: str, tasks: int, interval: float, with_flink: bool) -> Cell:
    keys = APIS[api][1]
    systems = [(OKA, api, "local", "shm")]
    if with_flink:
        systems.append((FLINK, "datastream", OWN, OWN))
    cases = [
        StateCase(*system, _KEY_BYTES, _BATCH, tasks, beside=api, keys=keys, interval_seconds=each)
        for system in systems
        for each in (None, interval)
    ]
    return Cell(tuple(cases), ("closed",))


def run(case: StateCase, share: float) -> Measurement:
    """Run a case once; raises RuntimeError where it did not count every record."""
    records = max(1, int(APIS[str(case.beside)][2] * share))
    found = (_run_oka if case.system == OKA else _run_flink)(case, records)
    if found.rows != records:
        raise RuntimeError(f"{case.label} counted {found.rows:,} records, expected {records:,}")
    return Measurement(
        throughput=records / found.seconds,
        cpu_seconds_per_million=found.cpu_seconds / records * 1e6,
        histogram=b"",
        records=records,
    )


def _run_oka(case: StateCase, records: int) -> Found:
    keys = Keys(records, case.keys)
    with checkpoint_settings(case.interval_seconds) as settings:
        result = engine.execute(
            APIS[case.api][0](keys),
            name=case.api,
            parallelism=case.parallelism,
            batch_size=case.batch_size,
            transport="shm",
            progress="none",
            **settings,
        )
    statistics = result.statistics
    counted = next(each for each in statistics.operators if each.name in ("count", "reduce"))
    return Found(statistics.elapsed_seconds, statistics.cpu_seconds, counted.records_in)


@contextmanager
def checkpoint_settings(interval_seconds: float | None) -> Iterator[dict[str, Any]]:
    """The job's settings: checkpoints in a temporary folder, or none."""
    with tempfile.TemporaryDirectory(prefix="oka-checkpoints-") as folder:
        yield (
            {}
            if interval_seconds is None
            else {"checkpoints": folder, "checkpoint_interval_seconds": interval_seconds}
        )


def _run_flink(case: StateCase, records: int) -> Found:
    configuration = {
        "pipeline.object-reuse": "true",
        "state.backend.type": "hashmap",
        "execution.checkpointing.dir": "file://{folder}/checkpoints",
    }
    if case.interval_seconds is not None:
        interval_ms = round(case.interval_seconds * 1000)
        configuration["execution.checkpointing.interval"] = f"{interval_ms} ms"
    settings = {"records": records, "keys": case.keys}
    return run_flink("KeyedCount", case.parallelism, configuration, settings, _FLINK_RUNS)


def report(rows: Sequence[Row]) -> str:
    """A line for each case, with the cost of its checkpoints."""
    without = {_place(found): found for found in rows if found["interval_seconds"] is None}
    return table(_COLUMNS, [_line(found, without.get(_place(found))) for found in rows], keys=5)


def _line(found: Row, without: Row | None) -> tuple[str, ...]:
    interval = found["interval_seconds"]
    place = (
        *(found["system"], found["api"], f"{found['keys']:,}", str(found["parallelism"])),
        f"{interval:g} s" if interval else "never",
    )
    throughput, cpu = found["throughput"], found["cpu_seconds_per_million"]
    if throughput is None:
        return (*place, "failed", "", "", "", "")
    ratios = ("", "")
    if interval and without and without["throughput"]:
        ratios = (
            f"{throughput['median'] / without['throughput']['median']:.2f}",
            f"{cpu['median'] / without['cpu_seconds_per_million']['median']:.2f}",
        )
    spread = f"{rate(throughput['min'])}-{rate(throughput['max'])}"
    return (
        *place,
        rate(throughput["median"]),
        spread,
        ratios[0],
        f"{cpu['median']:.3f}",
        ratios[1],
    )


def _place(found: Row) -> tuple[object, ...]:
    return found["system"], found["api"], found["keys"], found["parallelism"]


def _ends(index: int) -> tuple[int, int]:
    return index, index + 1


_COLUMNS = (
    *("system", "api", "keys", "p", "checkpoint each"),
    *("records/s", "min-max", "x without", "cpu s/M", "x more"),
)
_BATCH = 1000
_KEY_BYTES = 8
_BLOCK = 64_000
_STRIDE = 7_368_787
"""Coprime to the numbers of keys: neighbours are far apart, and all keys occur."""
_FLINK_RUNS = 3
"""In a JVM; the last run counts, each takes some ten seconds."""
