"""The throughput of a job that is watched: `python -m benchmarks.steps.watched [4] [20]`.

The arguments are seconds and rounds. A word count of two tasks goes on at full speed. In each round
it is left alone, watched by an open page and a Prometheus that scrapes each second, watched, and
left alone, for so many seconds each. Figures are CPU seconds per million words, since the share of
a busy machine that a job gets says nothing: of its workers, and of them with the driver. The ratio
is that of a round's phases, as a median over the rounds, with the middle half of them.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import engine
from benchmarks.steps.watching import PAGE, SCRAPE
from engine.job import JobHandle
from operators import source
from operators.sinks import Discard
from operators.sources import RandomWords


def main() -> None:
    """Watch a job and do not, in turn, and print what it takes."""
    seconds, rounds = [*map(int, sys.argv[1:]), *(4, 20)[len(sys.argv) - 1 :]]
    pipeline = source(RandomWords(words=1000)).key_by().count().sink(Discard())
    with tempfile.TemporaryDirectory(prefix="oka-watched-") as folder:
        handle = engine.submit(pipeline, history=folder, metrics_port=0, ui_port=0, progress="none")
        asking = ((PAGE, handle.ui_url), (SCRAPE.replace("(15)", "(1)"), handle.metrics_url))
        processes = [
            subprocess.Popen([sys.executable, "-c", *map(str, each)], stderr=subprocess.DEVNULL)
            for each in asking
        ]
        try:
            time.sleep(5.0)
            found = [_round(handle, processes, seconds) for _ in range(rounds)]
            assert all(each.poll() is None for each in processes), "who asks has failed"
        finally:
            for each in processes:
                each.kill()
                each.wait()
            handle.cancel()
            handle.wait_stopped()
    print("CPU s per million words   alone   watched   throughput left (middle half)")
    for at, name in enumerate(("workers", "workers and driver")):
        alone = [(first[at] + last[at]) / 2 for first, _, _, last in found]
        watched = [(second[at] + third[at]) / 2 for _, second, third, _ in found]
        ratios = [off / on for off, on in zip(alone, watched, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        told = f"{statistics.median(alone):.4f}  {statistics.median(watched):.4f}"
        print(f"{name:24}  {told}    {middle:.3f} ({low:.3f}-{high:.3f})")


def _round(
    handle: JobHandle, processes: Sequence[subprocess.Popen[bytes]], seconds: int
) -> list[tuple[float, float]]:
    """CPU seconds per million words in the four phases: of workers, and with the driver."""
    found = []
    for is_watched in (False, True, True, False):
        for each in processes:
            os.kill(each.pid, signal.SIGCONT if is_watched else signal.SIGSTOP)
        time.sleep(0.3)
        before, driver = handle.statistics(), time.process_time()
        time.sleep(seconds)
        after, driver = handle.statistics(), time.process_time() - driver
        millions = (after.records - before.records) / 1e6
        workers = after.cpu_seconds - before.cpu_seconds
        found.append((workers / millions, (workers + driver) / millions))
    return found


if __name__ == "__main__":
    main()
