"""The job of the hour of mixed faults: numbers come at a steady pace, and each leaves twice.

Its argument is `Work` as JSON. The same command goes on where one before it was killed. Running
totals by key, and sums by key and window of event time, go to files in S3.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import engine
from engine.graph.context import TaskContext
from operators import ProcessFunction, Tumbling, ValueState, source
from operators.sinks import JsonLines
from operators.sources import At, Function
from tests import jobfolders

Line = list[Any]


@dataclass(frozen=True)
class Work:
    """What a job is to do: the same in each of its lives."""

    seed: int
    total: int
    began: float
    """When the first number was due, in seconds since 1970: a job that was away catches up."""
    url: str
    """Below it are files and checkpoints."""
    hold: str
    """As long as there is such a file, the last numbers do not come."""

    def numbers(self, context: TaskContext, position: int | None) -> Iterator[At]:
        """Those of this task, by which all of a key are in one task."""
        here = context.index if position is None else position
        step = context.parallelism
        while here < self.total:
            due = min(self.total, int((time.time() - self.began) * RATE))
            if Path(self.hold).exists():
                due = min(due, self.total - KEYS)
            batch = list(range(here, due, step))
            here += step * len(batch)
            yield At(here, batch)
            if not batch:
                time.sleep(_TICK_SECONDS)

    def value(self, number: int) -> int:
        """What is summed up of a number."""
        return (number * 2_654_435_761 ^ self.seed) % 1000

    def expected(self) -> dict[str, list[Line]]:
        """All lines of each sink, sorted."""
        seen: dict[int, int] = defaultdict(int)
        sums: dict[int, int] = defaultdict(int)
        windows: dict[tuple[int, int], int] = defaultdict(int)
        running = []
        for number in range(self.total):
            key, value = number % KEYS, self.value(number)
            seen[key] += 1
            sums[key] += value
            running.append([key, seen[key], sums[key]])
            windows[key, number // RATE // WINDOW_SECONDS] += value
        ends = [
            [key, total, *(WINDOW_SECONDS * 1_000_000 * each for each in (window, window + 1))]
            for (key, window), total in windows.items()
        ]
        return {"running": sorted(running), "windows": sorted(ends)}


class Running(ProcessFunction):
    """How many records a key has had, and what they come to."""

    seen = ValueState(0)
    total = ValueState(0)

    def process(self, record: Any, context: Any) -> list[Any]:
        self.seen += 1
        self.total += record[1]
        return [(context.key, self.seen, self.total)]


def main(work: Work) -> None:
    """Run the job, or go on with it."""
    jobfolders.announce(Path(work.hold).with_name(FOLDERS).open("a"))
    numbers = source(Function(work.numbers)).map(
        lambda n: (n % KEYS, work.value(n), n * 1_000_000 // RATE)
    )
    keyed = numbers.with_event_time(2, max_jump=None).key_by(0)
    windows = keyed.window(Tumbling(timedelta(seconds=WINDOW_SECONDS)))
    engine.execute(
        [
            keyed.process(Running()).sink(JsonLines(f"{work.url}/running")),
            windows.sum(1).sink(JsonLines(f"{work.url}/windows")),
        ],
        runtime="ray",
        parallelism=2,
        resources={"*": {"slot": 1, "cpus": 0}},
        checkpoints=f"{work.url}/checkpoints",
        checkpoint_interval_seconds=2.0,
        resume="latest",
    )


TASKS = 6
FOLDERS = "folders"
"""A file beside `hold`, with the path of the job's folder in each life."""
RATE, KEYS, WINDOW_SECONDS = 200, 40, 10
_TICK_SECONDS = 0.05

if __name__ == "__main__":
    logging.basicConfig(format="%(created).3f %(name)s: %(message)s", level=logging.INFO)
    main(Work(**json.loads(sys.argv[1])))
