"""Spans and patterns of event time: `oka bench event-time`.

Each work is done by Oka and by others in turn, over the same records, and all come to the same. A
run lasts from the first source's start to the last sink's end; Flink's is the sixth run of its JVM.
"""

from __future__ import annotations

from benchmarks.event_time.over import OVER
from benchmarks.event_time.patterns import PATTERNS
from benchmarks.works import Work, works_command

WORKS: dict[str, Work] = {work.name: work for work in (*OVER, *PATTERNS)}


command = works_command(
    "event-time",
    WORKS,
    1_000_000,
    """Spans that end at each record, and patterns, in turn with other systems.

`over` beside Flink SQL's OVER and Quix Streams' sliding windows; patterns beside Flink CEP.
`make peers-flink peers-quix` installs them, and a broker needs Java 17 and Maven; what is
absent is left out. Ctrl-C stops; the same command with the same --json file then goes on where
it stopped.
    """,
)
