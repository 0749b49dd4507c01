"""The word count between hosts: `oka bench testbed`.

Source tasks fill one half of the hosts, sink tasks the other, one task on each, so that every word
crosses the switch. The switch's counters prove it: a run in which fewer bytes crossed than the
words have is a failure, and so is one whose counts are not exact.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.measurement import Case, row
from benchmarks.options import Numbers, api_option, settings, sweep_options, words_options
from benchmarks.schema.result import Result
from benchmarks.sweep import Cell, Settings, every_case, missing, sweep
from benchmarks.systems import OKA
from benchmarks.testbed.cluster import check_nodes, running_cluster
from benchmarks.testbed.command import name_option
from benchmarks.testbed.job import measure
from benchmarks.testbed.rate import RateType, show_rate
from benchmarks.testbed.report import report
from engine.errors import ConfigError, StartError
from engine.units import counted


class Rates(click.ParamType[tuple[int | None, ...]]):
    """A list of rates, such as `1gbit,unlimited`."""

    name = "rate,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, ...]:
        """Parse the list."""
        return tuple(RateType().convert(each, param, ctx) for each in str(value).split(","))


@click.command("testbed")
@click.option("--nodes", type=Numbers(), default="2", help="Hosts; even numbers.")
@click.option(
    "--rate",
    "rates",
    type=Rates(),
    default="1gbit,unlimited",
    help="Of each host's link, in each direction.",
)
@api_option("per_record,native,columnar")
@words_options("32,1024", "1000")
@click.option("--insecure", is_flag=True, help="Run each case without encryption, too, in turn.")
@sweep_options(seconds=3.0, warmup=1.0)
@name_option
def command(
    nodes: tuple[int, ...],
    rates: tuple[int | None, ...],
    api: tuple[str, ...],
    payload: tuple[int, ...],
    batch: tuple[int, ...],
    insecure: bool,
    load: tuple[str, ...],
    seconds: float,
    warmup: float,
    repeats: int,
    seed: int,
    json_file: Path | None,
    fresh: bool,
    name: str,
) -> None:
    """Word count between hosts whose links have a rate: throughput, latency, CPU, bytes on links.

    Ctrl-C stops; the same command with the same --json file then goes on where it stopped.
    """
    chosen = settings(seconds, warmup, repeats, seed)
    for count in nodes:
        if count % 2:
            raise ConfigError(
                f"nodes is {count}, expected an even number",
                "one half of the hosts has the source tasks, the other the sink tasks",
            )
        check_nodes(count)
    result = Result("testbed", dataclasses.asdict(chosen), json_file, fresh)
    secured = (True, False) if insecure else (True,)
    testbeds = []
    for count, rate in itertools.product(nodes, rates):
        case = Case(
            OKA, "", "ray", "auto", 0, 0, count // 2, nodes=count, rate_bits_per_second=rate
        )
        cells = [
            Cell(
                tuple(
                    dataclasses.replace(
                        case,
                        api=each,
                        payload_bytes=size,
                        batch_size=most,
                        encryption=encryption,
                    )
                    for each in api
                    for encryption in secured
                ),
                load,
            )
            for size, most in itertools.product(payload, batch)
        ]
        testbeds.append(cells)
    for cells in testbeds:
        _sweep(cells, chosen, result, name)
    click.echo(report(result.rows))
    result.raise_failures(case for cells in testbeds for case in every_case(cells))


def _sweep(cells: Sequence[Cell], chosen: Settings, result: Result, name: str) -> None:
    """Measure missing rows, on a temporary testbed."""
    lacking = missing(cells, result)
    if not lacking:
        return
    nodes, rate = cells[0].cases[0].nodes, cells[0].cases[0].rate_bits_per_second
    assert nodes is not None
    about = f"{counted(nodes, 'host')}, {show_rate(rate)}"

    def tell(line: str) -> None:
        print(f"{about}: {line}", file=sys.stderr, flush=True)

    try:
        with running_cluster(nodes, rate=rate, name=name, tell=tell) as cluster:
            sweep(cells, chosen, result, functools.partial(measure, cluster))
    except StartError as error:
        tell(f"failed: {error}")
        result.add(
            [row(case, [], [str(error)]) for cell, load in lacking for case in cell.under(load)]
        )
