"""A job whose history is killed with it, again and again: `python -m tests.faults.history_job`.

Arguments: a folder, how often, a seed, and `processes` for workers in processes of their own. Each
time a child drives a job, writes numbered lines to its log, and is killed at a seeded moment. The
history then has to open, and to have what the child had written up to two seconds before.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from engine.config import JobConfig
from engine.driver.local.launcher import LocalLauncher
from engine.history import history as writing
from engine.history.reading import JobHistory
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords


def drive(path: Path, marks: int, *, processes: bool) -> None:
    """Run a job until somebody kills it, whose file is written anew often."""
    tempfile.tempdir = str(path.parent)
    writing.MOST_BYTES, writing.COMPACTED_BYTES, writing.GROWTH_BYTES = 4_000, 2_500, 1_500
    pipeline = source(RandomWords(length=64, rate=1000)).map(str.upper).rebalance().sink(Discard())
    config = JobConfig(name="killed", history=str(path), parallelism=2)
    launcher = LocalLauncher() if processes else ThreadLauncher(None, None)
    handle = JobHandle(Plan.of(pipeline, config), launcher)
    numbers = random.Random(0)
    for number in range(1_000_000):
        noise = numbers.randbytes(20).hex()
        launcher.hear(f"mark {number} {noise}\n")
        os.write(marks, f"{number} {time.monotonic()}\n".encode())
        time.sleep(0.01)
    handle.wait_finished()


def kill_one(path: Path, seconds: float, *, processes: bool) -> str:
    """Kill a driver so long after its history has begun; raises AssertionError if it lacks much."""
    path.unlink(missing_ok=True)
    reading, writing_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        drive(path, writing_end, processes=processes)
        os._exit(1)
    os.close(writing_end)
    told: list[str] = []
    reader = threading.Thread(target=lambda: told.extend(os.fdopen(reading)), daemon=True)
    reader.start()
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(seconds)
    killed = time.monotonic()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    reader.join()
    history = JobHistory.read(path)
    assert history.state == "killed", history.state
    assert history.name == "killed"
    assert history["plan"], "it has no plan"
    marks = [int(line["text"].split()[1]) for line in history["log"] if "mark" in line["text"]]
    known = [line.split() for line in told if line.endswith("\n")]
    due = max((int(n) for n, at in known if float(at) < killed - 2.0), default=-1)
    last = max(marks, default=-1)
    assert last >= due, f"it has {last}, expected {due}"
    assert marks == list(range(last - len(marks) + 1, last + 1)), "it has gaps"
    at = {int(n): float(at) for n, at in known}
    lost = killed - at[last] if last in at else float("nan")
    return f"{path.stat().st_size} bytes, {len(marks)} marks, the last {lost:.2f} s before"


def main() -> None:
    """Kill as many as were asked for."""
    folder, times, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    moments = random.Random(seed)
    for number in range(times):
        seconds = moments.uniform(0.0, moments.choice((0.3, 1.0, 4.0)))
        told = kill_one(folder / "job.oka", seconds, processes="processes" in sys.argv)
        print(f"{number}: killed after {seconds:.3f} s: {told}", flush=True)


if __name__ == "__main__":
    main()
