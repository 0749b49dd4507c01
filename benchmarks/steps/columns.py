"""Nanoseconds per row between records and columns: `python -m benchmarks.steps.columns`.

Each line is the best of several rounds, in CPU time, over one batch of rows with numbers and texts
in turn; beside Oka's way, what PyArrow takes for the same, in the same rounds.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from engine.columns import columns_of, rows


def main() -> None:
    """Measure batches of several widths and print a line each."""
    rng = random.Random(1)
    words = [f"word {number:04}" for number in range(100)]
    kinds: list[Callable[[], Any]] = [
        lambda: rng.randrange(1 << 40),
        lambda: rng.choice(words),
        rng.random,
    ]
    heads = ("to_records", "to_pylist", "to_columns", "from_pylist")
    print(f"{'ns per row of':16}" + "".join(f"{head:>13}" for head in heads))
    for width in (3, 5, 10):
        fields = [(f"field {at}", kinds[at % len(kinds)]) for at in range(width)]
        records = [{name: draw() for name, draw in fields} for _ in range(ROWS)]
        batch = pa.RecordBatch.from_pylist(records)
        calls: list[Callable[[], Any]] = [
            partial(rows, batch),
            batch.to_pylist,
            partial(columns_of, records),
            partial(pa.RecordBatch.from_pylist, records),
        ]
        best = [float("inf")] * len(calls)
        for _ in range(ROUNDS):
            for at, call in enumerate(calls):
                started = time.process_time_ns()
                call()
                best[at] = min(best[at], time.process_time_ns() - started)
        print(f"{width:<2} fields       " + "".join(f"{each / ROWS:13.1f}" for each in best))


ROWS = 1000
ROUNDS = 50

if __name__ == "__main__":
    main()
