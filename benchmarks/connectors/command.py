"""The works of connectors: `oka bench connectors`.

Each work is done by Oka and by others in turn, over the same input. A run lasts from the first
source's start to the last sink's end; others run in processes of their own, without their start.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.connectors import kafka, reads
from benchmarks.connectors.files import WRITES
from benchmarks.options import file_options, names_option, parallelism_option, repeats_option
from benchmarks.works import Work, run_works

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
    run_works("connectors", chosen, records, parallelism, repeats, json_file, fresh)
