"""Nexmark's queries: `oka bench nexmark`.

Each query in Oka's ways and by other systems in turn, over the same files of the published
generator's events: Flink SQL, and Python's peers if they have the query. A run lasts from the first
source's start to the last sink's end; Flink's is the sixth run of its JVM.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import click

from benchmarks.measurement import Case
from benchmarks.nexmark import sql
from benchmarks.nexmark.latency import ENDS, LEAST_SECONDS
from benchmarks.nexmark.systems import (
    FLINK_SQL,
    OKA,
    PYTHON_PEERS,
    PYTHON_QUERIES,
    QueryCase,
    Systems,
)
from benchmarks.options import (
    Numbers,
    file_options,
    names_option,
    parallelism_option,
    repeats_option,
)
from benchmarks.peers.flink import FLINK
from benchmarks.peers.peer import Peer
from benchmarks.schema.result import Result, Row
from benchmarks.schema.results_file import check_writable
from benchmarks.schema.rows import OWN
from benchmarks.sweep import Cell, Settings, every_case, missing, offered, sweep
from engine.errors import ConfigError
from engine.report.progress import telling
from engine.report.tables import table
from engine.units import rate
from pipelines.nexmark.events import Events, program
from pipelines.nexmark.queries import QUERIES
from pipelines.nexmark.source import Api


@click.command("nexmark")
@names_option("--query", "queries", QUERIES, "Which ones.")
@click.option("--events", default=5_000_000, type=click.IntRange(1), help="Of all kinds.")
@click.option(
    "--disorder",
    default=1,
    type=click.IntRange(1),
    help="So many that follow one another are shuffled; 1: none.",
)
@click.option("--batch", type=Numbers(), default="4096", help="Most records in a batch.")
@parallelism_option("1")
@click.option("--peers/--no-peers", default=True, help="Alternate with others.")
@repeats_option
@click.option(
    "--checkpoint-each",
    "interval",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="Run Oka with checkpoints, too, in turn with none. [no]",
)
@click.option(
    "--latency/--no-latency",
    default=False,
    help="How long Oka's windows take at half of their rate, too.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Of the files of events: those that are there are used, where none are they are written. "
    "[a temporary one]",
)
@file_options
def command(
    queries: tuple[str, ...],
    events: int,
    disorder: int,
    batch: tuple[int, ...],
    parallelism: tuple[int, ...],
    peers: bool,
    repeats: int,
    interval: float | None,
    latency: bool,
    folder: Path | None,
    json_file: Path | None,
    fresh: bool,
) -> None:
    """Nexmark's queries over a million events and more, in turn with others, and the ratios.

    `make nexmark` builds the generator of events, `make peers-pyflink peers-bytewax peers-pathway`
    the other systems; one that is absent is left out. Every query comes to as many rows in all
    systems, or its run is a failure. Ctrl-C stops; the same command with the same --json file then
    goes on where it stopped.
    """
    others = []
    for peer in (FLINK_SQL, *PYTHON_PEERS.values()) if peers else ():
        if absent := peer.missing():
            click.echo(f"left out: {absent}; {peer.setup}", err=True)
        else:
            others.append(peer)
    cells = [
        _cell(name, batch_size, tasks, interval, others)
        for tasks, batch_size, name in itertools.product(parallelism, batch, queries)
    ]
    timed = [found for cell in cells if (found := _timed(cell))] if latency else []
    chosen = {"events": events, "disorder": disorder, "repeats": repeats}
    result = Result("nexmark", chosen, json_file, fresh, QueryCase)
    with ExitStack() as stack:
        asked = Events(events, disorder=disorder)
        if has_rates := not missing(cells, result):
            timed = _lasting(timed, result, events)
        files = _files(asked, folder, stack) if missing([*cells, *timed], result) else asked
        measure = Systems(files).measure
        once = Settings(0.0, 0.0, repeats, 0)
        sweep(cells, once, result, measure)
        if not has_rates:
            timed = _lasting(timed, result, events)
        sweep(timed, once, result, measure)
    click.echo(report(result.rows))
    if timed:
        click.echo(report_latency(result.rows))
    result.raise_failures(every_case([*cells, *timed]))


def _cell(
    name: str, batch_size: int, tasks: int, interval: float | None, others: Sequence[Peer]
) -> Cell:
    def case(
        system: str, api: str, runtime: str, transport: str, seconds: float | None = None
    ) -> QueryCase:
        return QueryCase(
            *(system, api, runtime, transport, _BID_BYTES, batch_size, tasks),
            query=name,
            interval_seconds=seconds,
        )

    intervals = (None,) if interval is None else (None, interval)
    cases = [case(OKA, api, "local", "shm", each) for api in get_args(Api) for each in intervals]
    for peer in others:
        known = sql.QUERIES if peer is FLINK_SQL else PYTHON_QUERIES
        if name in known and tasks <= peer.most_tasks:
            cases.append(case(peer.system, peer.api, OWN, OWN))
    return Cell(tuple(cases), ("closed",))


def _timed(cell: Cell) -> Cell | None:
    """Oka's cases of a cell at half of their rate, if the query's rows name their windows."""
    cases = tuple(
        case
        for case in cell.cases
        if isinstance(case, QueryCase) and case.system == OKA and case.query in ENDS
    )
    return Cell(cases, (_HALF,)) if cases else None


def _lasting(cells: Sequence[Cell], result: Result, events: int) -> list[Cell]:
    """The cases whose events last long enough at half of the measured rate."""

    def lasts(case: Case) -> bool:
        half = offered(case, result)
        if half is None or events >= half * LEAST_SECONDS:  # without a rate, its runs report that
            return True
        click.echo(
            f"left out: {case.label} at half of its rate, where {events:,} events take "
            f"{events / half:.2f} s; expected {LEAST_SECONDS} s: --events {half:.0f} takes one",
            err=True,
        )
        return False

    kept = [(tuple(filter(lasts, cell.under(_HALF))), cell.loads) for cell in cells]
    return [Cell(cases, loads) for cases, loads in kept if cases]


def _files(asked: Events, folder: Path | None, stack: ExitStack) -> Events:
    """Files of the requested events. Raises ConfigError if the folder has others."""
    if folder is not None and (folder / "bid.arrow").exists():
        found = Events.read(folder)
        if (found.events, found.disorder) != (asked.events, asked.disorder):
            raise ConfigError(
                f"{folder} has {found.events:,} events with disorder {found.disorder}, "
                f"expected {asked.events:,} with {asked.disorder}",
                "name another --folder, or one that is not there",
            )
        return found
    program()
    if folder is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oka-nexmark-")))
    check_writable(folder / "bid.arrow")
    with telling(f"writing {asked.events:,} events to {folder}"):
        return asked.write(folder)


def report(rows: Sequence[Row]) -> str:
    """A line for each way of each query, with its ratios to Flink SQL of the same cell.

    With checkpoints, the ratios are to the same case without.
    """
    rows = [found for found in rows if found["load"] == "closed"]
    flink = {_place(found): found for found in rows if found["system"] == FLINK}
    without = {(*_place(it), it["api"]): it for it in rows if not it.get("interval_seconds")}
    lines = [
        _line(
            it,
            without.get((*_place(it), it["api"]))
            if it["interval_seconds"]
            else flink.get(_place(it)),
        )
        for it in rows
    ]
    return table(_COLUMNS, lines, keys=6)


def report_latency(rows: Sequence[Row]) -> str:
    """A line for each way of each query whose windows were timed."""
    lines = [
        (
            *(str(it[field]) for field in ("query", "api", "batch_size", "parallelism")),
            _told(it),
            rate(it["offered"]) if it["offered"] else "",
            *(
                f"{it['latency_us'][name] / 1000:.1f}" if it["latency_us"] else "failed"
                for name in ("p50", "p99")
            ),
        )
        for it in rows
        if it["load"] == _HALF
    ]
    columns = ("query", "api", "batch", "p", "checkpoint each", "events/s", "p50 ms", "p99 ms")
    return table(columns, lines, keys=5)


def _told(found: Row) -> str:
    interval = found.get("interval_seconds")
    return f"{interval:g} s" if interval else "never"


def _line(found: Row, other: Row | None) -> tuple[str, ...]:
    fields = ("query", "system", "api", "batch_size", "parallelism")
    place = (*(str(found[field]) for field in fields), _told(found))
    throughput, cpu = found["throughput"], found["cpu_seconds_per_million"]
    if throughput is None:
        return (*place, "failed", "", "", "", "")
    ratios = ("", "")
    if other and other["throughput"] and other is not found:
        ratios = (
            f"{throughput['median'] / other['throughput']['median']:.2f}",
            f"{other['cpu_seconds_per_million']['median'] / cpu['median']:.2f}",
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
    return found["query"], found["batch_size"], found["parallelism"]


_COLUMNS = (
    *("query", "system", "api", "batch", "p", "checkpoint each"),
    *("events/s", "min-max", "x other", "cpu s/M", "x less"),
)
_HALF = "0.5"
_BID_BYTES = 100
"""About, as the generator has it."""
