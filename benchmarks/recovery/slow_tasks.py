"""Checkpoints when tasks are slow: `python -m benchmarks.recovery.slow_tasks shm tcp`.

Two functions of 1.5 ms, one after the other, process 8,000 records of 1 KB, with a checkpoint each
half second. A line has the number of checkpoints, and the time of the last one: for most of that
its barrier waited for records.
"""

from __future__ import annotations

import sys
import time

import engine
from benchmarks.recovery.checkpoints import checkpoint_settings
from operators import Pipeline, source
from operators.sinks import Discard
from operators.sources import RandomWords


def main() -> None:
    """A line for each transport."""
    for transport in sys.argv[1:] or ["shm"]:
        with checkpoint_settings(0.5) as settings:
            result = engine.execute(
                pipeline(), batch_size=100, transport=transport, progress="none", **settings
            )
        found = result.statistics
        print(
            f"{transport}: {found.checkpoints} checkpoints in {found.elapsed_seconds:.1f} s, "
            f"the last of {found.checkpoint_ms:.0f} ms"
        )


def pipeline() -> Pipeline:
    """Each function is a task of its own, with a channel before it."""
    words = source(RandomWords(length=1000, count=8000))
    return words.rebalance().map(slowly).rebalance().map(slowly).sink(Discard())


def slowly(word: str) -> str:
    """Return the record after 1.5 ms."""
    time.sleep(0.0015)
    return word


if __name__ == "__main__":
    main()
