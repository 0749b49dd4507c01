"""Requests over HTTP: `oka bench serve`.

The same handlers in Oka, in Ray Serve's modes, in FastAPI and in a bare ASGI function on uvicorn,
in turn: requests per second and latency under closed load, latency of requests that arrive at half
of that rate, and requests per second when four times as many arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.options import file_options, names_option, repeats_option
from benchmarks.schema.result import Result, Row
from benchmarks.serve import clients
from benchmarks.serve.floors import HALF, OVERLOAD, floors
from benchmarks.serve.measure import measure
from benchmarks.serve.systems import HANDLERS, SYSTEMS, ServeCase, System
from benchmarks.sweep import Cell, Settings, every_case, sweep
from engine.report.tables import table
from engine.units import duration, rate


@click.command("serve")
@names_option(
    *("--handler", "handlers", HANDLERS),
    "noop: an answer and no more; hops: ten operators in two paths; ensemble: ten operators, "
    "one answer; busy: 1 ms of work, under four times of what it can do; model: by a model of "
    "10 MB; swaps: by one that is replaced twice a second; disconnects: 10,000 clients that go.",
)
@names_option("--system", "systems", (each.system for each in SYSTEMS), "Which ones.")
@click.option(
    "--clients",
    "most_clients",
    default=64,
    type=click.IntRange(2),
    help="Connections; at most 16 for hops and ensemble. noop is measured with a single one, too.",
)
@click.option(
    "--seconds", default=3, type=click.IntRange(1), help="Length of a run, without its warm-up."
)
@click.option(
    "--warmup",
    default=1,
    type=click.IntRange(0),
    help="Seconds of requests before they are measured.",
)
@repeats_option
@click.option("--seed", default=0, help="Of the moments of arrival.")
@file_options
def command(
    handlers: tuple[str, ...],
    systems: tuple[str, ...],
    most_clients: int,
    seconds: int,
    warmup: int,
    repeats: int,
    seed: int,
    json_file: Path | None,
    fresh: bool,
) -> None:
    """Requests over HTTP by Oka and by other servers, in turn, with the ratios.

    `make load` builds the client at a rate, `make peers-serve` installs the other servers; one that
    is absent is left out. wrk, a package of Debian, makes the closed loop. Each run starts its
    server anew. Ctrl-C stops; the same command with the same --json file then goes on where it
    stopped.
    """
    clients.check()
    present = []
    for each in SYSTEMS:
        if each.system in systems and (absent := each.missing()):
            click.echo(f"left out: {each.system} {each.api}: {absent}", err=True)
        elif each.system in systems:
            present.append(each)
    cells = [cell for each in handlers for cell in _cells(each, present, most_clients)]
    chosen = {"seconds": seconds, "warmup": warmup, "repeats": repeats, "seed": seed}
    result = Result("serve", chosen, json_file, fresh, ServeCase)
    sweep(cells, Settings(seconds, warmup, repeats, seed), result, measure)
    click.echo(report(result.rows))
    for floor in floors(result.rows):
        click.echo(str(floor))
    result.raise_failures(every_case(cells))


def _cells(handler: str, systems: Sequence[System], most_clients: int) -> list[Cell]:
    able = [each for each in systems if handler in each.handlers]
    loads = {"busy": ("closed", OVERLOAD), "disconnects": ("closed",)}
    if not able:
        return []
    few = handler in ("hops", "ensemble")  # Ray Serve answers tens of them in a second
    clients = min(most_clients, _FEW_CLIENTS) if few else most_clients
    cells = [
        Cell(
            tuple(each.case(handler, clients) for each in able),
            loads.get(handler, ("closed", HALF)),
        )
    ]
    if handler == "noop":
        cells.append(Cell(tuple(each.case(handler, 1) for each in able), ("closed",)))
    return cells


def report(rows: Sequence[Row]) -> str:
    """A line for each case."""
    return table(_COLUMNS, [_line(row) for row in rows], keys=4)


def _line(row: Row) -> tuple[str, ...]:
    place = (
        *(str(row[field]) for field in ("handler", "system", "api", "clients")),
        {OVERLOAD: "4×", HALF: "half"}.get(row["load"], str(row["load"])),
    )
    throughput, cpu, latency = row["throughput"], row["cpu_seconds_per_million"], row["latency_us"]
    if throughput is None:
        return (*place, "failed", *("",) * (len(_COLUMNS) - len(place) - 1))
    return (
        *place,
        rate(throughput["median"]),
        f"{rate(throughput['min'])}-{rate(throughput['max'])}",
        *(duration(latency[part]) if latency else "" for part in ("p50", "p99", "p999")),
        f"{cpu['median'] / 1000:.4f}",
    )


_FEW_CLIENTS = 16
_COLUMNS = (
    *("handler", "system", "way", "clients", "load", "requests/s", "min-max"),
    *("p50", "p99", "p99.9", "cpu s/1,000"),
)
