"""Cost of a lifted function per record: `python -m benchmarks.steps.programs`.

Each function runs as a program over encoded records and over a list, and as Python calls it with
what an encoded record is decoded to, its results encoded; all in turn, CPU time, medians.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from engine.expression.lift import Lifted, lift
from engine.network import Batch, Program
from engine.report.tables import table


def main() -> None:
    """Measure all functions in turn and print a line for each."""
    print(f"{TURNS} turns of {REPEATS} batches of {BATCH} records; medians, CPU ns per record")
    rows = []
    for name, (stage, function, make) in CASES.items():
        rng = random.Random(1)
        records = [make(rng) for _ in range(BATCH)]
        encoded = Batch.from_list(records)
        lifted = lift(function, 1)
        assert isinstance(lifted, Lifted), lifted
        program = Program([(stage, lifted.expression.to_data())])

        def python(
            encoded: Batch = encoded, function: Callable[[Any], Any] = function, stage: str = stage
        ) -> None:
            decoded = encoded.decode()
            if stage == "filter":
                Batch.from_list(list(filter(function, decoded)))
            else:
                Batch.from_list(list(map(function, decoded)))

        assert isinstance(program.run(encoded), Batch)
        ways: list[Callable[[], Any]] = [
            partial(program.run, encoded),
            partial(program.run, records),
            python,
        ]
        turns = [[_cost(way) for way in ways] for _ in range(TURNS)]
        rows.append((name, *(f"{median(costs):.0f}" for costs in zip(*turns, strict=True))))
    print(table(("function", "encoded", "list", "decoded, called, encoded"), rows))


def _cost(way: Callable[[], Any]) -> float:
    start = time.process_time_ns()
    for _ in range(REPEATS):
        way()
    return (time.process_time_ns() - start) / (REPEATS * BATCH)


def _word(rng: random.Random) -> str:
    return f"w{rng.randrange(1000):05}"


def _bid(rng: random.Random) -> dict[str, Any]:
    return {
        "auction": rng.randrange(1 << 20),
        "bidder": rng.randrange(1 << 20),
        "price": rng.random() * 1000,
        "channel": _word(rng),
        "time": 1_700_000_000_000 + rng.randrange(1 << 30),
    }


def _wide(rng: random.Random) -> dict[str, Any]:
    return {**_bid(rng), **{f"other_{n}": rng.randrange(1 << 30) for n in range(5)}}


def _four(bid: dict[str, Any]) -> dict[str, Any]:
    return {
        "auction": bid["auction"],
        "bidder": bid["bidder"],
        "price": 0.908 * bid["price"],
        "time": bid["time"],
    }


CASES: dict[str, tuple[str, Callable[[Any], Any], Callable[[random.Random], Any]]] = {
    "(word, 1)": ("map", lambda word: (word, 1), _word),
    "lower": ("map", lambda word: word.lower(), _word),
    "dict of 5 to 4": ("map", _four, _bid),
    "dict of 10 to 4": ("map", _four, _wide),
    "field > limit": ("filter", lambda bid: bid["price"] > 999, _bid),
    "field > limit, all stay": ("filter", lambda bid: bid["price"] >= 0, _bid),
    "key of a tuple": ("map", lambda pair: pair[0], lambda rng: (_word(rng), 1)),
    "f-string": ("map", lambda bid: f"{bid['channel']}:{bid['price']:.2f}", _bid),
}
BATCH = 1000
REPEATS = 20
TURNS = 7

if __name__ == "__main__":
    main()
