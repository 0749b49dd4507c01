"""The job of the tests with pods: a running number of each key, once, whatever pods are lost.

Arguments: the folder for files, that of checkpoints, how many seconds it takes. The same command
goes on where one before it was killed. It prints how often it went on, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import engine
from operators import ProcessFunction, ValueState, source
from operators.sinks import JsonLines
from operators.sources import Collection

KEYS, RATE = 37, 2000
SLOTS = 4
"""What its tasks take of the cluster's `operator_slot`."""
INTERVAL_SECONDS = 1.0


class Numbered(ProcessFunction):
    """Each record of a key with its number."""

    seen = ValueState(0)

    def process(self, record: Any, context: Any) -> list[Any]:
        self.seen += 1
        return [(context.key, self.seen)]


def expected(seconds: int) -> list[list[int]]:
    """The lines of all files, sorted."""
    counts = Counter(number % KEYS for number in range(RATE * seconds))
    return sorted([key, i + 1] for key, count in counts.items() for i in range(count))


def found(out: Path) -> list[list[int]]:
    """The same as it was written."""
    files = [each for each in out.glob("*.jsonl") if not each.name.startswith(".")]
    return sorted(json.loads(line) for each in files for line in each.read_text().splitlines())


def newest(out: Path) -> int:
    """The last epoch that a file which is final is of."""
    return max((int(each.stem.rpartition("-")[2]) for each in out.glob("part-*.jsonl")), default=0)


def main() -> None:
    """Run the job, or go on with it."""
    out, checkpoints, seconds = sys.argv[1:]
    numbers = source(Collection(range(RATE * int(seconds)), rate=RATE))
    numbered = numbers.key_by(lambda number: number % KEYS).process(Numbered())
    result = engine.execute(
        numbered.sink(JsonLines(Path(out))),
        runtime="ray",
        placement="parallelism_first",
        parallelism=SLOTS // 2,
        resources={"*": {"operator_slot": 1, "cpus": 0.1}},
        checkpoints=checkpoints,
        checkpoint_interval_seconds=INTERVAL_SECONDS,
        resume="latest",
    )
    print(json.dumps({"restarts": result.statistics.restarts}))


if __name__ == "__main__":
    main()
