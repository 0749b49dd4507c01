"""Nanoseconds per record between Python and the Rust core: `python -m benchmarks.steps.codec`.

Each line is the best of several rounds over one list of records, without a channel: encoding,
decoding, choosing one of 8 channels, aggregating. There are 100 words of 32 ASCII characters. It is
the best, not the median, since other work of the machine can only add time.
"""

import random
import string
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.network import Aggregate, Batch, partition


@dataclass
class Weighted:
    """The fields of the dict of 3."""

    word: str
    count: int
    weight: float


def main() -> None:
    """Measure every shape of record and print one line each."""
    rng = random.Random(1)
    words = ["".join(rng.choices(string.ascii_lowercase, k=32)) for _ in range(100)]
    drawn = rng.choices(words, k=RECORDS)
    # All different: equal tuples of one batch are decoded once.
    weighted = [(word, rng.randrange(1 << 40), rng.random()) for word in drawn]
    shapes: dict[str, list[Any]] = {
        "str, 100 different": drawn,
        "str, all different": [f"{number:032}" for number in range(RECORDS)],
        "(str, int)": [(word, 1) for word in drawn],
        "(str, int, float)": weighted,
        "dataclass of 3": [Weighted(*record) for record in weighted],
        "(str, float)": [(word, rng.random()) for word in drawn],
        "int": [rng.randrange(1 << 40) for _ in range(RECORDS)],
        "dict of 3": [{"word": word, "count": 1, "weight": 0.5} for word in drawn],
        "dict of 10": [
            {"word": word} | dict.fromkeys(("a", "b", "c", "d", "e", "f", "g", "h", "i"), 1)
            for word in drawn
        ],
        "[str, int]": [[word, 1] for word in drawn],
    }
    print(f"{'ns per record':24}{'encode':>10}{'decode':>10}{'partition':>12}{'count':>10}")
    for name, records in shapes.items():
        batch = Batch.from_list(records)
        key = _KEYS.get(name[0], [])
        update = Aggregate([key], [("count", [])]).update
        costs = [
            _best(partial(Batch.from_list, records)),
            _best(batch.to_list),
            _best(partial(partition, records, 8)) if not key else None,
            _best(partial(update, batch)),
        ]
        cells = ["" if cost is None else f"{cost:.1f}" for cost in costs]
        print(f"{name:24}{cells[0]:>10}{cells[1]:>10}{cells[2]:>12}{cells[3]:>10}")
    one, batch = ["word"], Batch.from_list(["word"])
    calls: dict[str, Callable[[], Any]] = {
        "Batch.from_list of one": partial(Batch.from_list, one),
        "Batch.to_list of one": batch.to_list,
    }
    for name, call in calls.items():
        print(f"{name:24}{_best(partial(_repeat, call, RECORDS)):>10.1f}")


def _best(call: Callable[[], Any]) -> float:
    """The least time of a call, per record."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter_ns()
        call()
        best = min(best, time.perf_counter_ns() - started)
    return best / RECORDS


def _repeat(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()


RECORDS = 1000
ROUNDS = 300
_KEYS: dict[str, list[int | str]] = {"(": [0], "[": [0], "d": ["word"]}

if __name__ == "__main__":
    main()
