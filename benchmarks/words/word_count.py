"""The word-count benchmark: `oka bench word-count`.

Oka's word count over 100 random words, in each of its APIs, swept over payload, batch size and
parallelism, alternating in the same run with the pyzmq pair.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click

from benchmarks.measurement import Case
from benchmarks.options import (
    api_option,
    parallelism_option,
    runtime_option,
    settings,
    sweep_options,
    transport_option,
    words_options,
)
from benchmarks.schema.result import Result, Row
from benchmarks.sweep import Cell, every_case, missing, sweep
from benchmarks.systems import PAIR, check_installed, measure, oka, runtime
from engine.config import Strategy
from engine.report.tables import table
from engine.units import duration, rate


@click.command("word-count")
@words_options("32,256,1024", "1,10,100,1000")
@parallelism_option("1,2,4")
@api_option()
@runtime_option
@click.option("--placement", type=click.Choice(get_args(Strategy)), default="operator_first")
@transport_option
@click.option("--insecure", is_flag=True, help="Do not encrypt tcp channels.")
@click.option(
    "--peers/--no-peers", default=True, help="Alternate with the pyzmq pair (at parallelism 1)."
)
@sweep_options()
def command(
    payload: tuple[int, ...],
    batch: tuple[int, ...],
    parallelism: tuple[int, ...],
    api: tuple[str, ...],
    runtime_name: str,
    placement: str,
    transport: str | None,
    insecure: bool,
    peers: bool,
    load: tuple[str, ...],
    seconds: float,
    warmup: float,
    repeats: int,
    seed: int,
    json_file: Path | None,
    fresh: bool,
) -> None:
    """Word count over 100 random words: throughput, latency and CPU, beside a pyzmq pair.

    Every combination of the lists is a case. Ctrl-C stops; the same command with the same --json
    file then goes on where it stopped.
    """
    chosen = settings(seconds, warmup, repeats, seed)
    cells = []
    for tasks, payload_bytes, batch_size in itertools.product(parallelism, payload, batch):
        cell = (payload_bytes, batch_size, tasks)
        more: Any = {"insecure": insecure, "placement": placement}
        cases = [oka(name, runtime_name, transport, cell, **more) for name in api]
        if peers and tasks == 1:
            cases.insert(0, Case(*PAIR, "processes", "tcp", payload_bytes, batch_size, 1))
        cells.append(Cell(tuple(cases), load))
    result = Result("word_count", dataclasses.asdict(chosen), json_file, fresh)
    check_installed(case for cell, load in missing(cells, result) for case in cell.under(load))
    with runtime(runtime_name, max(parallelism)):
        sweep(cells, chosen, result, measure)
    click.echo(report(result.rows))
    result.raise_failures(every_case(cells))


def report(rows: Sequence[Row]) -> str:
    """The rows as a table, each with its ratio to the pair of the same payload, batch and load."""
    pairs = {_cell(found): found for found in rows if (found["system"], found["api"]) == PAIR}
    return table(_COLUMNS, [_line(found, pairs.get(_cell(found))) for found in rows], keys=6)


def _line(found: Row, pair: Row | None) -> tuple[str, ...]:
    place = (
        found["system"],
        found["api"],
        *(str(found[k]) for k in ("payload_bytes", "batch_size", "parallelism", "load")),
    )
    throughput, latency = found["throughput"], found["latency_us"]
    if throughput is None:
        return (*place, "failed", "", "", "", "", "")
    ratio = ""
    if pair and pair["throughput"]:
        ratio = f"{throughput['median'] / pair['throughput']['median']:.2f}"
    return (
        *place,
        rate(throughput["median"]),
        f"{rate(throughput['min'])}-{rate(throughput['max'])}",
        ratio,
        f"{found['cpu_seconds_per_million']['median']:.3f}",
        duration(latency["p50"]) if latency else "",
        duration(latency["p99"]) if latency else "",
    )


def _cell(found: Row) -> tuple[Any, ...]:
    return found["payload_bytes"], found["batch_size"], found["load"]


_COLUMNS = (
    "system",
    "api",
    "bytes",
    "batch",
    "p",
    "load",
    "words/s",
    "min-max",
    "x pair",
    "cpu s/M",
    "p50",
    "p99",
)
