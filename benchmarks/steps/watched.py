"""The throughput of a job that is watched: `python -m benchmarks.steps.watched [4] [10]`.

The arguments are seconds and rounds. A word count of two tasks goes on at full speed: a job that
nobody watches, without a history, and then one with a history that is left alone and watched by an
open page and a Prometheus that scrapes each second, in turn, for so many seconds each. Words per
second of a busy machine, and CPU time per word, vary by more than what is looked for, so the
kernel's count of each thread tells: a worker has one thread at work on records, and what its others
take is what the task may lack. It is shown as parts per thousand of what the first takes, beside
the driver's share of a core: medians over the phases.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

import engine
from benchmarks.steps.watching import PAGE, SCRAPE
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords


def main() -> None:
    """Watch a job and do not, in turn, and print what it takes."""
    seconds, rounds = [*map(int, sys.argv[1:]), *(4, 10)[len(sys.argv) - 1 :]]
    found = {"unwatched": _phases({"history": "off"}, (False, False), seconds, rounds)}
    with tempfile.TemporaryDirectory(prefix="oka-watched-") as folder:
        settings = {"history": folder, "metrics_port": 0, "ui_port": 0}
        phases = _phases(settings, (False, True, True, False), seconds, rounds)
    for name, is_watched in (("alone", False), ("watched", True)):
        found[name] = [each for each in phases if each[0] == is_watched]
    print("           other threads of workers, ‰    driver, % of a core   throughput left")
    base = 0.0
    for name, figures in found.items():
        _, *columns = zip(*figures, strict=True)
        others, driver = (statistics.median(column) for column in columns)
        base = base or 1 + others
        print(f"{name:10} {1000 * others:15.2f} {100 * driver:26.2f} {base / (1 + others):20.4f}")


def _phases(
    settings: Mapping[str, Any], phases: Sequence[bool], seconds: int, rounds: int
) -> list[tuple[bool, float, float]]:
    """Of a job, what its phases have taken; they are watched or not, in each round."""
    pipeline = source(RandomWords(words=1000)).key_by().count().sink(Discard())
    handle = engine.submit(pipeline, progress="none", **settings)
    asking = ((PAGE, handle.ui_url), (SCRAPE.replace("(15)", "(1)"), handle.metrics_url))
    processes = [
        subprocess.Popen([sys.executable, "-c", program, address], stderr=subprocess.DEVNULL)
        for program, address in asking
        if address is not None
    ]
    try:
        time.sleep(5.0)
        found = [
            (each, *_phase(processes, seconds, is_watched=each))
            for _ in range(rounds)
            for each in phases
        ]
        assert all(each.poll() is None for each in processes), "who asks has failed"
        return found
    finally:
        for each in processes:
            each.kill()
            each.wait()
        handle.cancel()
        handle.wait_stopped()


def _phase(
    processes: Sequence[subprocess.Popen[bytes]], seconds: int, *, is_watched: bool
) -> tuple[float, float]:
    """What other threads take of the first one's time, and the driver of a core."""
    for each in processes:
        os.kill(each.pid, signal.SIGCONT if is_watched else signal.SIGSTOP)
    time.sleep(0.3)
    before, driver, began = _threads(processes), time.process_time(), time.monotonic()
    time.sleep(seconds)
    driver = (time.process_time() - driver) / (time.monotonic() - began)
    first = others = 0
    for worker, threads in _threads(processes).items():
        spent = [ns - before[worker].get(thread, 0) for thread, ns in threads.items()]
        if max(spent) > _AT_WORK * seconds * 1e9:  # it is no process that forks them
            first += max(spent)
            others += sum(spent) - max(spent)
    return others / first, driver


def _threads(processes: Sequence[subprocess.Popen[bytes]]) -> dict[int, dict[str, int]]:
    """Nanoseconds on a core of each thread, of each process of the job but the driver."""
    asking = {each.pid for each in processes}
    found = {}
    for child in psutil.Process().children(recursive=True):
        if child.pid in asking:
            continue
        stats = Path(f"/proc/{child.pid}/task").glob("*/schedstat")
        found[child.pid] = {each.parent.name: int(each.read_text().split()[0]) for each in stats}
    return found


_AT_WORK = 0.02
"""The least share of a core of a task's thread, however busy the machine is."""

if __name__ == "__main__":
    main()
