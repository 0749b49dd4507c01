"""Oka and its peers: `oka bench peers`.

Each peer runs in turn with the API of Oka that does the same kind of work: Python code per record
with Python code per record, native counting with native counting. The ratios compare runs that
followed one another.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.measurement import Case
from benchmarks.options import Choices, parallelism_option, settings, sweep_options, words_options
from benchmarks.peers.peer import Peer
from benchmarks.peers.registry import PEERS
from benchmarks.schema.result import Result, Row
from benchmarks.schema.rows import OWN
from benchmarks.sweep import Cell, every_case, missing, sweep
from benchmarks.systems import OKA, check_installed, measure
from engine.errors import ConfigError
from engine.report.tables import table
from engine.units import duration, rate

SYSTEMS = tuple(dict.fromkeys(peer.system for peer in PEERS))


@click.command("peers")
@click.option(
    "--peer",
    "names",
    type=Choices(SYSTEMS),
    help=f"Which ones: {', '.join(SYSTEMS)}.  [all that are installed]",
)
@words_options("32", "1000")
@parallelism_option("1")
@sweep_options(seconds=3.0, warmup=3.0)
def command(
    names: tuple[str, ...] | None,
    payload: tuple[int, ...],
    batch: tuple[int, ...],
    parallelism: tuple[int, ...],
    load: tuple[str, ...],
    seconds: float,
    warmup: float,
    repeats: int,
    seed: int,
    json_file: Path | None,
    fresh: bool,
) -> None:
    """Other systems that count the same words, each in turn with Oka, and the ratios.

    `make peers` installs them, each in a virtual environment of its own. If a named peer is not
    installed, nothing is measured. Without names, peers that are not installed are left out.
    """
    chosen = settings(seconds, warmup, repeats, seed)
    absent = {peer.system: f"{why}; {peer.setup}" for peer in PEERS if (why := peer.missing())}
    if names is None:
        for why in absent.values():
            click.echo(f"left out: {why}", err=True)
    wanted = [
        peer
        for peer in PEERS
        if (peer.system in names if names is not None else peer.system not in absent)
    ]
    cells = [
        _cell(peer, payload_bytes, batch_size, tasks, load)
        for tasks, payload_bytes, batch_size, peer in itertools.product(
            parallelism, payload, batch, wanted
        )
        if (peer.has_batches or batch_size == max(batch)) and tasks <= peer.most_tasks
    ]
    if not cells:
        most = max((peer.most_tasks for peer in wanted), default=0)
        raise ConfigError(
            f"nothing is left to measure: {len(wanted)} peers, which take at most {most} tasks",
            "make peers installs peers; a lower --parallelism",
        )
    result = Result("peers", dataclasses.asdict(chosen), json_file, fresh)
    check_installed(case for cell, load in missing(cells, result) for case in cell.under(load))
    sweep(cells, chosen, result, measure)
    click.echo(report(result.rows))
    result.raise_failures(every_case(cells))


def _cell(
    peer: Peer, payload_bytes: int, batch_size: int, tasks: int, load: tuple[str, ...]
) -> Cell:
    name = f"{peer.system} {peer.api}"
    oka = Case(OKA, peer.like, "local", "shm", payload_bytes, batch_size, tasks, beside=name)
    other = Case(peer.system, peer.api, OWN, OWN, payload_bytes, batch_size, tasks, beside=name)
    return Cell((oka, other), load if peer.has_rate else ("closed",))


def report(rows: Sequence[Row]) -> str:
    """A line for each peer and case, with Oka's figures of the same cell and the ratios."""
    oka = {_place(found): found for found in rows if found["system"] == OKA}
    lines = []
    for found in rows:
        ours = oka.get(_place(found))
        if found["system"] == OKA or ours is None:
            continue
        lines.append(_line(found, ours))
    return table(_COLUMNS, lines, keys=6)


def _line(peer: Row, oka: Row) -> tuple[str, ...]:
    place = (
        f"{peer['system']} {peer['api']}",
        f"oka {oka['api']}",
        *(str(peer[k]) for k in ("payload_bytes", "batch_size", "parallelism", "load")),
    )
    if peer["throughput"] is None or oka["throughput"] is None:
        return (*place, *("failed" if each["throughput"] is None else "" for each in (peer, oka)))
    return (
        *place,
        rate(peer["throughput"]["median"]),
        rate(oka["throughput"]["median"]),
        f"{_ratio(oka, peer, 'throughput'):.1f}",
        f"{peer['cpu_seconds_per_million']['median']:.3f}",
        f"{oka['cpu_seconds_per_million']['median']:.3f}",
        f"{_ratio(peer, oka, 'cpu_seconds_per_million'):.1f}",
        duration(peer["latency_us"]["p99"]) if peer["latency_us"] else "",
        duration(oka["latency_us"]["p99"]) if oka["latency_us"] else "",
    )


def _ratio(above: Row, below: Row, field: str) -> float:
    ratio: float = above[field]["median"] / below[field]["median"]
    return ratio


def _place(found: Row) -> tuple[object, ...]:
    fields = ("beside", "payload_bytes", "batch_size", "parallelism", "load")
    return tuple(found[field] for field in fields)


_COLUMNS = (
    "peer",
    "in turn with",
    "bytes",
    "batch",
    "p",
    "load",
    "words/s",
    "Oka",
    "x",
    "cpu s/M",
    "Oka",
    "x less",
    "p99",
    "Oka",
)
