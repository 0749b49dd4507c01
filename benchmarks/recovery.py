"""How long a job takes to go on after a worker was killed: `python -m benchmarks.recovery local`.

A running count of some millions of keys, checkpointed twice a second; one of its workers is killed
with SIGKILL. A line has the seconds from there to the first file that sinks have committed since,
of several kills, one behind the other. The second argument is how many million keys there are: each
is about 34 bytes of a checkpoint.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

import engine
from benchmarks.checkpoints import Keys
from operators import Pipeline, source
from operators.sinks import JsonLines


def main() -> None:
    """Kill, and print how long each took."""
    runtime = sys.argv[1] if len(sys.argv) > 1 else "local"
    keys = int(float(sys.argv[2]) * 1e6) if len(sys.argv) > 2 else 3_000_000
    seconds = measure(runtime, keys)
    told = ", ".join(f"{each:.2f}" for each in seconds)
    median = statistics.median(seconds)
    print(f"{runtime}, {keys:,} keys: {median:.2f} s in the median of {len(seconds)} ({told})")


def measure(runtime: str, keys: int, kills: int = 5) -> list[float]:
    """Seconds from each kill to the first output that was committed behind it."""
    with tempfile.TemporaryDirectory(prefix="oka-recovery-") as folder:
        out = Path(folder) / "out"
        settings: dict[str, Any] = {"runtime": runtime, "progress": "none"}
        handle = engine.submit(
            pipeline(keys, out),
            checkpoints=str(Path(folder) / "checkpoints"),
            checkpoint_interval_seconds=0.5,
            restarts=kills,
            **settings,
        )
        try:
            wait_for_state(handle, keys)
            found = []
            for _ in range(kills):
                before = committed(out)
                workers = [each for each in _workers(runtime) if each.is_running()]
                killed = time.monotonic()
                os.kill(workers[-1].pid, signal.SIGKILL)
                while not committed(out) - before:
                    time.sleep(0.005)
                found.append(time.monotonic() - killed)
                time.sleep(2.0)  # the next is another failure, not the same
        finally:
            handle.cancel()
            handle.wait_stopped()
        return found


def pipeline(keys: int, out: Path) -> Pipeline:
    """Counts, of which one in a thousand is written."""
    counts = source(Keys(10**12, keys)).key_by().count()
    return counts.map_batches(lambda batch: batch[:1]).sink(JsonLines(out))


def wait_for_state(handle: engine.JobHandle, keys: int) -> None:
    """Until each key has come through the operators, of which there are two that see all."""
    while sum(each.records_in for each in handle.statistics().operators) < 4 * keys:
        time.sleep(0.1)


def committed(out: Path) -> set[Path]:
    """The files that are final."""
    return set(out.glob("part-*"))


def _workers(runtime: str) -> list[psutil.Process]:
    """The processes of tasks below this one, in the order in which they were started."""
    below = psutil.Process().children(recursive=True)
    if runtime == "ray":
        return [each for each in below if each.name().startswith("ray::Worker")]
    return [each for each in below if each.ppid() != os.getpid()]


if __name__ == "__main__":
    main()
