"""The works of connectors: `oka bench connectors`.

Each work is done by Oka and by others in turn, over the same input. A run lasts from the first
source's start to the last sink's end; others run in processes of their own, without their start.
"""

from __future__ import annotations

from benchmarks.connectors import kafka, reads
from benchmarks.connectors.files import WRITES
from benchmarks.works import Work, works_command

WORKS: dict[str, Work] = {work.name: work for work in (*WRITES, *reads.READS, *kafka.KAFKA)}


command = works_command(
    "connectors",
    WORKS,
    2_000_000,
    """Connectors in turn with the libraries that they stand on and with other systems.

`make peers-files` installs DuckDB and Polars, `make peers-bytewax peers-quix` the others beside
Kafka, whose broker needs Java 17 and Maven; what is absent is left out. Ctrl-C stops; the
same command with the same --json file then goes on where it stopped.
    """,
)
