"""The job of the kill loop: everything that keeps state, and outputs that tell of each record once.

Arguments: the folder for files, that of checkpoints, runtime, transport. Beside the first it writes
`job`, a file with the paths of its jobs' folders. The same command goes on where one before it was
killed. It prints what came to the driver as JSON when the job has succeeded.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import engine
from operators import ProcessFunction, Tumbling, ValueState, source
from operators.sinks import Collect, Counts, CsvSink, JsonLines, ParquetSink
from operators.sources import Collection
from tests import jobfolders

KEYS, RECORDS, SECONDS = 37, 24_000, 3.0
MANY = 8_000
"""Other keys, of which few change from one checkpoint to the next."""
WINDOW_US, STEP_US = 250_000, 500
FOLDERS = ("counted", "windows", "answers", "summed", "each", "tally", "parquet", "csv")


class Numbered(ProcessFunction):
    """Each record of a key with its number."""

    seen = ValueState(0)

    def process(self, record: Any, context: Any) -> list[Any]:
        self.seen += 1
        return [(context.key, self.seen)]


async def answer(record: tuple[int, int, int]) -> int:
    """The record's number, after a while that differs."""
    await asyncio.sleep(0.001 * (record[1] % 7))
    return record[1]


def expected() -> dict[str, list[Any]]:
    """The lines or rows of each folder, sorted, whatever happens."""
    counts = Counter(number % KEYS for number in range(RECORDS))
    windows = Counter((n % KEYS, n * STEP_US // WINDOW_US * WINDOW_US) for n in range(RECORDS))
    numbered = sorted([key, i + 1] for key, count in counts.items() for i in range(count))
    return {
        "counted": numbered,
        "each": sorted([n % MANY, 1 + n // MANY] for n in range(RECORDS)),
        "tally": sorted(map(list, Counter(n % MANY for n in range(RECORDS)).items())),
        "windows": sorted([key, n, at, at + WINDOW_US] for (key, at), n in windows.items()),
        "answers": list(range(RECORDS)),
        "summed": numbered,
        "parquet": (rows := sorted([n % 3, n] for n in range(RECORDS))),
        "csv": rows,
        "final": sorted(map(list, counts.items())),
        "counts": sorted(map(list, counts.items())),
    }


def main() -> None:
    """Run the job, or go on with it."""
    folder, out, checkpoints, runtime, transport = sys.argv[1:]
    jobfolders.announce((Path(folder) / "job").open("a"))
    numbers = source(Collection(range(RECORDS), rate=RECORDS / SECONDS))
    records = numbers.map(lambda n: (n % KEYS, n, n * STEP_US))
    keyed = records.key_by(0)
    timed = records.with_event_time(2, out_of_orderness=timedelta(milliseconds=50))
    windows = timed.key_by(0).window(Tumbling(timedelta(microseconds=WINDOW_US))).count()
    summed = records.map(lambda r: (r[0], 1)).key_by(0).reduce(lambda a, b: (a[0], a[1] + b[1]))
    spread = numbers.map(lambda n: (n % MANY, n)).key_by(0)
    rows, names = spread.map_batches(lambda pairs: [(n % 3, n) for _, n in pairs]), ["third", "n"]
    parquet = ParquetSink(
        f"{out}/parquet", names, partition_by="third", max_bytes=20_000, max_open_files=2
    )
    result = engine.execute(
        [
            rows.sink(parquet),
            rows.sink(CsvSink(f"{out}/csv", names, compression="gzip", max_seconds=0.05)),
            keyed.process(Numbered()).sink(JsonLines(f"{out}/counted")),
            windows.sink(JsonLines(f"{out}/windows")),
            records.map_async(answer, max_in_flight=64).sink(JsonLines(f"{out}/answers")),
            summed.sink(JsonLines(f"{out}/summed")),
            spread.process(Numbered()).sink(JsonLines(f"{out}/each")),
            spread.count(emit="final").sink(JsonLines(f"{out}/tally")),
            keyed.count(emit="final").sink(Collect()).named("final"),
            keyed.count().sink(Counts()).named("counts"),
        ],
        runtime=runtime,
        transport=transport,
        placement="parallelism_first",
        resources={"*": {"cpus": 0.1}},  # those of a driver that was killed go by and by
        parallelism=2,
        batch_size=20,
        checkpoints=checkpoints,
        checkpoint_interval_seconds=0.1,
        resume="latest",
        restarts=100,
        reconnect_timeout_seconds=3.0,
    )
    late = sum(operator.late for operator in result.statistics.operators)
    told = {
        "final": sorted(map(list, result.outputs["final"])),
        "counts": sorted(map(list, result.outputs["counts"].items())),
        "late": late,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
