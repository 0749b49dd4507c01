"""The time of a rescale: `python -m benchmarks.recovery.rescale 3 200`.

The first number is the number of keys in millions; the state has the last text of each key, and the
second number is its length in bytes. Without it, the state is a running count of keys, each about
30 bytes of a savepoint. The job goes from one task to two, three, two and one. All keys were in a
savepoint before, as in a job that runs longer than its interval. A line has the seconds until the
job had stopped with its savepoint, the seconds until each of its new tasks had seen a record, and
the latter per GB of the savepoint.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import engine
from benchmarks.recovery.checkpoints import Keys
from benchmarks.recovery.command import wait_for_state
from engine.checkpoint import CheckpointLog, Manifest, open_storage
from operators import Stream, source
from operators.sinks import Discard


def main() -> None:
    """Rescale, and print the time of each."""
    keys = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 3_000_000
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory(prefix="oka-rescale-") as made:
        folder = Path(made)
        handle = engine.submit(
            kept(keys, size).map_batches(noting(folder)).sink(Discard()),
            checkpoints=str(folder / "checkpoints"),
            checkpoint_interval_seconds=60.0,
            progress="none",
        )
        try:
            wait_for_state(handle, keys)
            handle.savepoint("first")
            for tasks in (2, 3, 2, 1):
                stopped, went_on = rescale(handle, folder, tasks)
                state = newest(folder / "checkpoints").bytes / 1e9
                told = f"{state:.2f} GB, {went_on / state:.1f} s/GB"
                print(f"to {tasks}: stopped in {stopped:.2f} s, went on in {went_on:.2f} s; {told}")
        finally:
            handle.cancel()
            handle.wait_stopped()


def kept(keys: int, size: int) -> Stream[Any]:
    """The state of each key: its count, or its last text of so many bytes."""
    numbers = source(Keys(10**12, keys))
    if not size:
        return numbers.key_by().count()
    texts = numbers.map_batches(lambda batch: [(number, f"{number:0{size}}") for number in batch])
    return texts.key_by(0).last(1)


def rescale(handle: engine.JobHandle, folder: Path, tasks: int) -> tuple[float, float]:
    """Seconds until the savepoint was made, and until the last of the new tasks counted."""
    before = _notes(folder)
    began = time.monotonic()
    handle.rescale(tasks)
    stopped = time.monotonic()
    while len(new := _notes(folder) - before) < tasks:
        with suppress(TimeoutError):
            handle.wait_finished(0.01)  # raises what ended it
    went_on = max(note.stat().st_mtime for note in new) - time.time() + time.monotonic()
    return stopped - began, went_on - began


def newest(checkpoints: Path) -> Manifest:
    """The last savepoint."""
    made = CheckpointLog(open_storage(checkpoints)).savepoints()
    return max(made.values(), key=lambda each: each.epoch)


def noting(folder: Path) -> Callable[[list[Any]], list[Any]]:
    """A function of batches that makes a file at its process's first batch."""
    noted: set[int] = set()

    def note(batch: list[Any]) -> list[Any]:
        if os.getpid() not in noted:
            noted.add(os.getpid())
            (folder / f"note-{os.getpid()}").touch()
        return batch[:1]

    return note


def _notes(folder: Path) -> set[Path]:
    return set(folder.glob("note-*"))


if __name__ == "__main__":
    main()
