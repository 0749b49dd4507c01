"""Spans and patterns of event time: `oka bench event-time`.

Each work is done by Oka and by others in turn, over the same records, and all come to the same. A
run lasts from the first source's start to the last sink's end; Flink's is the sixth run of its JVM.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.event_time.over import OVER
from benchmarks.event_time.patterns import PATTERNS
from benchmarks.options import file_options, names_option, parallelism_option, repeats_option
from benchmarks.works import Work, run_works

WORKS: dict[str, Work] = {work.name: work for work in (*OVER, *PATTERNS)}


@click.command("event-time")
@names_option("--work", "works", WORKS, "Which ones.")
@click.option("--records", default=1_000_000, type=click.IntRange(1), help="Of the input.")
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
    """Spans that end at each record, and patterns, in turn with other systems.

    `over` beside Flink SQL's OVER and Quix Streams' sliding windows; patterns beside Flink CEP.
    `make peers-flink peers-quix` installs them, and a broker needs Java 17 and Maven; what is
    absent is left out. Ctrl-C stops; the same command with the same --json file then goes on where
    it stopped.
    """
    chosen = [WORKS[name] for name in works]
    run_works("event-time", chosen, records, parallelism, repeats, json_file, fresh)
