"""What a trigger costs: `python -m benchmarks.steps.triggers [runs]`.

Records of 100 keys, in windows of a second with a thousand records each, in this process. A line
has the median, the least and the most of microseconds of CPU per record, without what each run
costs anyway.
"""

from __future__ import annotations

import statistics
import sys
import time
from datetime import timedelta
from typing import Any

from engine.testing import run
from operators import CountTrigger, Trigger, Tumbling, source
from operators.sinks import Discard
from operators.sources import Collection


def main() -> None:
    """Run the cases in turn, and print a line each."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(runs):
        for compute in ("count", "reduce"):
            for name, emit in EMIT.items():
                few, many = (seconds(emit, compute, records) for records in (FEW, MANY))
                cost = (many - few) / (MANY - FEW) * 1e6
                found.setdefault((compute, name), []).append(cost)
    print(f"{'µs of CPU per record':30} median  (least-most)")
    for (compute, name), costs in found.items():
        told = f"({min(costs):.2f}-{max(costs):.2f})"
        print(f"{f'{compute}, {name}':30} {statistics.median(costs):6.2f}  {told}")


def seconds(emit: Any, compute: str, records: int) -> float:
    """The CPU time of a run with so many records."""
    timed = source(Collection(RECORDS[:records])).with_event_time(1, unit="ms")
    windows = timed.key_by(0).window(Tumbling(timedelta(seconds=1)), emit=emit)
    stream = windows.count() if compute == "count" else windows.reduce(later)
    began = time.process_time()
    run(stream.sink(Discard()), parallelism=1)
    return time.process_time() - began


def later(one: tuple[str, int], other: tuple[str, int]) -> tuple[str, int]:
    """The later of two records."""
    return other if other[1] >= one[1] else one


EMIT: dict[str, Any] = {
    "final": "final",
    "Trigger()": Trigger(),
    "CountTrigger(100)": CountTrigger(100),
}
FEW, MANY = 20_000, 200_000
RECORDS = [(f"word number {number % 100:06}", number) for number in range(MANY)]

if __name__ == "__main__":
    main()
