"""Cost of a record between two tasks, by its class: `python -m benchmarks.steps.records`.

One process sends itself records over a channel in shared memory: the cost is that of encoding,
channel, decoding, and freeing the objects that arrived. Every object is new and travels once, as in
a pipeline; making it is not measured. All classes run in turn with the tuple of the same fields;
the line has the medians of times and ratios. The garbage collector has the settings of a worker.
"""

from __future__ import annotations

import enum
import gc
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from engine.network import Batch, Network, open_output_gate
from engine.partitioner import Forward
from engine.record import registry as record_registry
from engine.report.tables import table


@dataclass
class Plain:
    """An ordinary dataclass."""

    word: str
    number: int
    weight: float


@dataclass(frozen=True)
class Frozen:
    """A dataclass that may be a key."""

    word: str
    number: int
    weight: float


@dataclass(slots=True)
class Slots:
    """A dataclass without a dict."""

    word: str
    number: int
    weight: float


class Named(NamedTuple):
    """A named tuple."""

    word: str
    number: int
    weight: float


class Color(enum.Enum):
    """A few objects, each of which exists once."""

    RED = 1
    BLUE = 2


def main() -> None:
    """Measure all classes in turn and print a line for each."""
    gc.set_threshold(50_000)
    classes: dict[str, Callable[[str, int, float], Any]] = {
        "tuple of 3": lambda word, number, weight: (word, number, weight),
        "dataclass": Plain,
        "dataclass, frozen": Frozen,
        "dataclass, slots": Slots,
        "named tuple": Named,
        "dict of 3": lambda word, number, weight: {
            "word": word,
            "number": number,
            "weight": weight,
        },
        "enum": lambda _word, number, _weight: Color(1 + number % 2),
    }
    record_registry.announce([Plain, Frozen, Slots, Named, Color])  # as a job does
    print(f"{TURNS} turns of {BATCHES} batches of {BATCH} records; medians, ns per record")
    for name, fields in {"all different": _different, "100 different": _repeated}.items():
        turns = [_turn(classes, fields) for _ in range(TURNS)]
        rows = []
        for label in classes:
            wall = median(turn[label][0] for turn in turns)
            cpu = median(turn[label][1] for turn in turns)
            ratio = median(turn[label][1] / turn["tuple of 3"][1] for turn in turns)
            rows.append((name, label, f"{wall:.0f}", f"{cpu:.0f}", f"{ratio:.2f}"))
        print(table(("fields", "record", "wall", "CPU", "CPU : tuple"), rows))


def _turn(
    classes: dict[str, Callable[[str, int, float], Any]],
    fields: Callable[[random.Random], tuple[str, int, float]],
) -> dict[str, tuple[float, float]]:
    """Nanoseconds per record, wall and CPU, of each class."""
    costs = {}
    for label, make in classes.items():
        rng = random.Random(1)
        batches = [[make(*fields(rng)) for _ in range(BATCH)] for _ in range(BATCHES)]
        with tempfile.TemporaryDirectory() as folder:
            costs[label] = _sent(batches, folder)
    return costs


def _sent(batches: list[list[Any]], folder: str) -> tuple[float, float]:
    sender, receiver = Network([f"shm://{folder}/sender"]), Network([f"shm://{folder}/receiver"])
    try:
        sender.connect([(0, receiver.endpoints[0])], [])
        receiver.connect([], [(0, sender.endpoints[0])])
        gate = open_output_gate(sender, Forward(), [0])
        gc.collect()
        arrived = 0
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        for batch in batches:
            gate.emit(batch)
            expected = arrived + BATCH
            while arrived < expected:
                received = receiver.receive()
                assert isinstance(received, Batch), "the channel has not ended"
                arrived += len(received.to_list())
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    finally:
        sender.close()
        receiver.close()
    return wall / arrived, cpu / arrived


def _different(rng: random.Random) -> tuple[str, int, float]:
    return f"w{rng.randrange(100):07}", rng.randrange(1 << 30), rng.random()


def _repeated(rng: random.Random) -> tuple[str, int, float]:
    return f"w{rng.randrange(100):07}", 1, 0.5


BATCH = 1000
BATCHES = 50
TURNS = 15

if __name__ == "__main__":
    main()
