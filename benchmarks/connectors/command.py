"""The works of connectors: `oka bench connectors`.

Each work is done by Oka and by others in turn, over the same input. A run lasts from the first
source's start to the last sink's end; others run in processes of their own, without their start.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from benchmarks.connectors import kafka, reads
from benchmarks.connectors.files import WRITES
from benchmarks.connectors.work import OKA, Work, WorkCase
from benchmarks.options import file_options, names_option, parallelism_option, repeats_option
from benchmarks.schema.result import Result, Row
from benchmarks.sweep import Cell, Settings, every_case, missing, sweep
from engine.report.tables import table
from engine.units import rate

WORKS: dict[str, Work] = {work.name: work for work in (*WRITES, *reads.READS, *kafka.KAFKA)}


@click.command("connectors")
@names_option("--work", "works", WORKS, "Which ones.")
@click.option("--records", default=2_000_000, type=click.IntRange(1), help="Of the input.")
@parallelism_option("1")
@repeats_option
@file_options
def command(
    works: tuple[str, ...],
    records: int,
    parallelism: tuple[int, ...],
    repeats: int,
    json_file: Path | None,
    fresh: bool,
) -> None:
    """Connectors in turn with the libraries that they stand on and with other systems.

    `make peers-files` installs DuckDB and Polars, `make peers-bytewax peers-quix` the others beside
    Kafka, whose broker needs Java 17 and Maven; what is absent is left out. Ctrl-C stops; the
    same command with the same --json file then goes on where it stopped.
    """
    chosen = [WORKS[name] for name in works]
    for peer in dict.fromkeys(peer for work in chosen for peer in work.peers):
        if absent := peer.missing():
            click.echo(f"left out: {absent}; {peer.setup}", err=True)
    settings = {"records": records, "repeats": repeats}
    result = Result("connectors", settings, json_file, fresh, WorkCase)
    every: list[Cell] = []
    for work in chosen:
        cells = [Cell(tuple(work.cases(records, tasks)), ("closed",)) for tasks in parallelism]
        every += cells
        with ExitStack() as stack:
            if missing(cells, result):
                folder = tempfile.TemporaryDirectory(prefix="oka-connectors-")
                stack.enter_context(work.prepared(records, Path(stack.enter_context(folder))))
            sweep(cells, Settings(0.0, 0.0, repeats, 0), result, work.measure)
    click.echo(report(result.rows))
    result.raise_failures(every_case(every))


def report(rows: Sequence[Row]) -> str:
    """A line for each system of each work; how many times Oka's rate and CPU time are theirs."""
    own = {_place(found): found for found in rows if found["system"] == OKA}
    return table(_COLUMNS, [_line(found, own.get(_place(found))) for found in rows], keys=4)


def _line(found: Row, own: Row | None) -> tuple[str, ...]:
    place = tuple(str(found[field]) for field in ("work", "system", "api", "parallelism"))
    throughput, cpu = found["throughput"], found["cpu_seconds_per_million"]
    if throughput is None:
        return (*place, "failed", "", "", "", "")
    ratios = ("", "")
    if own is not None and own["throughput"] and own is not found:
        ratios = (
            f"{own['throughput']['median'] / throughput['median']:.2f}",
            f"{own['cpu_seconds_per_million']['median'] / cpu['median']:.2f}",
        )
    return (
        *place,
        rate(throughput["median"]),
        f"{rate(throughput['min'])}-{rate(throughput['max'])}",
        ratios[0],
        f"{cpu['median']:.3f}",
        ratios[1],
    )


def _place(found: Row) -> tuple[object, ...]:
    return found["work"], found["parallelism"]


_COLUMNS = (
    *("work", "system", "api", "p", "records/s", "min-max", "Oka x this"),
    *("cpu s/M", "Oka x this cpu"),
)
