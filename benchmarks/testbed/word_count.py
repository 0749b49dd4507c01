"""The word count between hosts: `oka bench testbed`.

Source tasks fill one half of the hosts, sink tasks the other, one task on each, so that every word
crosses the switch. That it did is proven by the switch's own counters: a run in which fewer bytes
crossed it than the words have is a failure, as is one whose counts are not exact.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from benchmarks.measurement import Case, Measurement, row
from benchmarks.testbed.cluster import Cluster, running_cluster
from benchmarks.testbed.command import name_option
from benchmarks.testbed.job import measure
from benchmarks.testbed.network import Traffic
from benchmarks.testbed.rate import RateType, show_rate
from benchmarks.testbed.report import report
from benchmarks.word_count import APIS, Choices, Numbers
from engine.errors import ConfigError, EngineError, StartError
from engine.metrics import commit, machine, versions
from engine.tables import rate


class Rates(click.ParamType[tuple[int | None, ...]]):
    """A list of rates, such as `1gbit,unlimited`."""

    name = "rate,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, ...]:
        """Parse the list."""
        return tuple(RateType().convert(each, param, ctx) for each in str(value).split(","))


@click.command("testbed")
@click.option(
    "--nodes", type=Numbers(), default="2", show_default=True, help="Hosts; even numbers."
)
@click.option(
    "--rate",
    "rates",
    type=Rates(),
    default="1gbit,unlimited",
    show_default=True,
    help="Of each host's link, in each direction.",
)
@click.option(
    "--api",
    type=Choices(APIS),
    default="per_record,native,columnar",
    show_default=True,
    help="How the count is written.",
)
@click.option(
    "--payload", type=Numbers(), default="32,1024", show_default=True, help="Bytes in a word."
)
@click.option(
    "--batch", type=Numbers(), default="1000", show_default=True, help="Most words in a batch."
)
@click.option("--insecure", is_flag=True, help="Run each case without encryption, too, in turn.")
@click.option(
    "--seconds", default=3.0, show_default=True, help="Length of a run, without its warm-up."
)
@click.option(
    "--warmup", default=1.0, show_default=True, help="Seconds left out at the start of a run."
)
@click.option("--repeats", default=3, show_default=True, help="Runs of each case, in turn.")
@click.option("--seed", default=0, show_default=True, help="Of the random words.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write rows in the schema oka.bench/1 here.",
)
@name_option
def command(
    nodes: tuple[int, ...],
    rates: tuple[int | None, ...],
    api: tuple[str, ...],
    payload: tuple[int, ...],
    batch: tuple[int, ...],
    insecure: bool,
    seconds: float,
    warmup: float,
    repeats: int,
    seed: int,
    json_file: Path | None,
    name: str,
) -> None:
    """Word count between hosts whose links have a rate: throughput, latency, CPU, bytes on them."""
    if seconds <= 0 or warmup < 0 or repeats < 1:
        raise click.UsageError(
            "--seconds must be above 0, --warmup not below, --repeats at least 1"
        )
    for count in nodes:
        if count % 2:
            raise ConfigError(
                f"nodes is {count}, expected an even number",
                "one half of the hosts has the source tasks, the other the sink tasks",
            )
    if json_file is not None:
        _check_writable(json_file)
    secured = (True, False) if insecure else (True,)
    sweep = _Sweep(seconds, warmup, repeats, seed, name)
    for count, link in itertools.product(nodes, rates):
        cells = [
            [
                Case("oka", each, "ray", "auto", size, most, count // 2, "closed", encryption)
                for each in api
                for encryption in secured
            ]
            for size in payload
            for most in batch
        ]
        sweep.testbeds.append(_Testbed(count, link, cells))
    try:
        sweep.run(json_file)
    finally:
        if sweep.rows:
            click.echo(report(sweep.rows))
    failed = sum(len(found["failures"]) for found in sweep.rows)
    if failed:
        raise EngineError(f"{failed} runs failed, see the rows' failures")


@dataclass(frozen=True)
class _Testbed:
    nodes: int
    rate: int | None
    cells: list[list[Case]]
    """The cases of a cell run in turn."""

    @property
    def about(self) -> str:
        return f"{self.nodes} hosts, {show_rate(self.rate)}"


@dataclass
class _Runs:
    """What has come of a case."""

    measurements: list[Measurement] = field(default_factory=list)
    traffic: list[dict[int, Traffic]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def row(self, case: Case, testbed: _Testbed) -> dict[str, Any]:
        """The case's row; bytes and packets are sums over its runs, as `records` is."""

        def sums(of: str) -> dict[str, dict[str, int]]:
            return {
                f"{number}": {
                    way: sum(getattr(run[number], f"{way}_{of}") for run in self.traffic)
                    for way in ("sent", "received")
                }
                for number in range(1, testbed.nodes + 1)
            }

        return {
            **row(case, self.measurements, self.failures),
            "nodes": testbed.nodes,
            "rate_bits_per_second": testbed.rate,
            "bridge_bytes": sums("bytes"),
            "bridge_packets": sums("packets"),
        }


class _Sweep:
    """Makes each testbed and runs its cells; within a cell the cases take turns."""

    def __init__(self, seconds: float, warmup: float, repeats: int, seed: int, name: str) -> None:
        self.testbeds: list[_Testbed] = []
        self.rows: list[dict[str, Any]] = []
        self._length = (seconds, warmup)
        self._repeats = repeats
        self._seed = seed
        self._name = name
        self._done = 0

    def run(self, json_file: Path | None) -> None:
        """Run all; what is done is written after each cell."""
        for testbed in self.testbeds:
            cells = list(testbed.cells)
            try:
                with running_cluster(
                    testbed.nodes,
                    rate=testbed.rate,
                    name=self._name,
                    tell=functools.partial(_say, testbed.about),
                ) as cluster:
                    while cells:
                        self.rows += self._alternate(cluster, testbed, cells[0])
                        cells.pop(0)
                        _write(json_file, self.rows)
            except StartError as error:
                _say(testbed.about, f"failed: {error}")
                for case in itertools.chain(*cells):
                    self.rows.append(_Runs(failures=[str(error)]).row(case, testbed))
                _write(json_file, self.rows)

    def _alternate(
        self, cluster: Cluster, testbed: _Testbed, cases: list[Case]
    ) -> list[dict[str, Any]]:
        runs = [_Runs() for _ in cases]
        for _ in range(self._repeats):
            for case, its in zip(cases, runs, strict=True):
                try:
                    measurement, traffic = measure(cluster, case, *self._length, self._seed)
                except StartError as error:
                    its.failures.append(str(error))
                    self._tell(testbed, case, f"failed: {error}")
                else:
                    its.measurements.append(measurement)
                    its.traffic.append(traffic)
                    self._tell(testbed, case, f"{rate(measurement.throughput)} words/s")
        return [its.row(case, testbed) for case, its in zip(cases, runs, strict=True)]

    def _tell(self, testbed: _Testbed, case: Case, outcome: str) -> None:
        self._done += 1
        total = self._repeats * sum(len(cell) for each in self.testbeds for cell in each.cells)
        _say(
            f"[{self._done}/{total}] {testbed.about}, {case.api} "
            f"{'encrypted' if case.encryption else 'plain'} {case.payload_bytes} B, "
            f"batch {case.batch_size}",
            outcome,
        )


def _say(about: str, line: str) -> None:
    print(f"{about}: {line}", file=sys.stderr, flush=True)


def _check_writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--json {path} cannot be written: {error.strerror}") from error
    if not os.access(path.parent, os.W_OK):
        raise click.UsageError(f"--json {path} cannot be written: no permission for its folder")


def _write(path: Path | None, rows: list[dict[str, Any]]) -> None:
    if path is None:
        return
    result = {
        "schema": "oka.bench/1",
        "benchmark": "testbed",
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "rows": rows,
    }
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(result, indent=2) + "\n")
    temporary.replace(path)
