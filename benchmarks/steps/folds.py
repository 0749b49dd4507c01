"""Cost of a record in `reduce`: `python -m benchmarks.steps.folds`.

The same encoded batches go through the function in Rust and through Python's function, in turn, and
the line has the medians of CPU time per record. The first time, each key is new: it is not counted.
Where Python's function is called, decoding is part of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from engine.config import Native
from engine.graph.context import TaskContext
from engine.network import Batch
from engine.report.tables import table
from operators.reduce import Reduce

CASES: list[tuple[str, Any, Callable[[str, int], Any], Callable[[Any, Any], Any]]] = [
    ("(word, 1)", 0, lambda word, _: (word, 1), lambda a, b: (a[0], a[1] + b[1])),
    ("ints", None, lambda _, number: number, max),
    (
        "dicts",
        "word",
        lambda word, number: {"word": word, "n": 1, "most": number, "at": 7, "by": "me"},
        lambda a, b: {**a, "n": a["n"] + b["n"], "most": max(a["most"], b["most"])},
    ),
]
RECORDS, KEYS, ROUNDS = 200_000, 10_000, 5


def measure(
    batches: list[Batch], key: Any, function: Callable[[Any, Any], Any]
) -> tuple[float, float]:
    """Median CPU nanoseconds per record: in Rust, and by calls."""
    context = TaskContext("reduce[0]", 0, 1, 1000, "job")
    modes: tuple[Native, ...] = ("auto", "off")
    ways = [Reduce(function, key).open(replace(context, native=mode)) for mode in modes]
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):
        for way, taken in zip(ways, times, strict=True):
            begun = time.thread_time()
            for batch in batches:
                way.process(batch)
            taken.append((time.thread_time() - begun) / RECORDS * 1e9)
    lifted, called = (median(taken[1:]) for taken in times)
    return lifted, called


def main() -> None:
    """Print a table."""
    rows = []
    for name, key, make, function in CASES:
        random.seed(1)
        numbers = [random.randrange(KEYS) for _ in range(RECORDS)]
        records = [make(f"word{number}", number) for number in numbers]
        for size in (100, 1000):
            batches = [Batch.from_list(records[at : at + size]) for at in range(0, RECORDS, size)]
            lifted, called = measure(batches, key, function)
            rows.append([name, str(size), f"{lifted:.0f}", f"{called:.0f}"])
    print(table(["records", "batch", "in Rust, ns", "called, ns"], rows))


if __name__ == "__main__":
    main()
