"""The second job of the kill loop: operators over unbounded streams and tables.

Arguments and output are those of `recovery_job`. Records of a key are out of order, and all results
that are written follow from event time, or are changes whose sum does.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import engine
from operators import BitXor, Count, Sliding, Stream, source
from operators.changes import Change
from operators.patterns import FollowedBy, Stage, Then
from operators.sinks import Collect, JsonLines
from operators.sources import Collection
from tests import jobfolders

Record = tuple[int, int, int]
"""Key, number, time."""
KEYS, RECORDS, SECONDS = 23, 9_000, 3.0
STEP_US = 500
SPAN_US, PAUSE_US, SLIDE_US = 150_000, 40_000, 300_000
FOLDERS = ("rolled", "sorted", "apart", "matched", "joined", "latest", "gaps", "top")


def record_of(n: int) -> Record:
    """The n-th record: four after each other have falling times."""
    return n % KEYS, n, (n ^ 3) * STEP_US


def us(count: int) -> timedelta:
    """So many microseconds."""
    return timedelta(microseconds=count)


def expected() -> dict[str, list[Any]]:
    """The lines of each folder, sorted; of changes, what they come to."""
    records = sorted(map(record_of, range(RECORDS)), key=lambda record: record[2])
    of_key: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        of_key[record[0]].append(record)
    each = {name: list[Any]() for name in FOLDERS}
    gaps: dict[tuple[int, int], list[int]] = defaultdict(list)
    for key, own in of_key.items():
        last, tens = None, [n for _, n, _ in own if n % 10 == 0]
        for _, n, at in own:
            each["rolled"].append([n, sum(m for _, m, to in own if at - SPAN_US <= to <= at)])
            if last is None or at - last >= PAUSE_US:
                each["apart"].append([key, n, at])
                last = at
            if at % SLIDE_US < SPAN_US:
                gaps[key, at - at % SLIDE_US].append(n)
        each["sorted"] += map(list, own)
        each["matched"] += [
            [first, second]
            for (_, first, began), (_, second, ended) in _pairs(own)
            if ended - began < SPAN_US
        ]
        each["top"].append([key, sorted((n for _, n, _ in own), reverse=True)[:3]])
        each["joined"] += [[key, n] for _, n, _ in own if tens and key % 3 == 0]
        each["latest"].append([key, own[-1][1]])
    for (key, at), numbers in gaps.items():
        xor = 0
        for n in numbers:
            xor ^= n
        odd = sum(n % 2 for n in numbers)
        each["gaps"].append([key, odd, xor, at, at + SPAN_US])
    return {name: sorted(found) for name, found in each.items()}


def _pairs(own: list[Record]) -> Iterator[tuple[Record, Record]]:
    """Each number that is a multiple of 3, and the next one of its key that is a multiple of 7."""
    for at, record in enumerate(own):
        if record[1] % 3 == 0:
            behind = (other for other in own[at + 1 :] if other[1] % 7 == 0)
            if (other := next(behind, None)) is not None:
                yield record, other


def come_to(changes: list[list[Any]]) -> list[Any]:
    """The rows that are there behind all changes."""
    rows: Counter[str] = Counter()
    for kind, row in changes:
        rows[json.dumps(row)] += 1 if kind in ("+I", "+U") else -1
    assert set(rows.values()) <= {0, 1}, "a row was there twice, or taken back without being there"
    return sorted(json.loads(row) for row, count in rows.items() if count)


def outputs() -> dict[str, Stream[Any]]:
    """What is written to each folder."""
    numbers = source(Collection(range(RECORDS), rate=RECORDS / SECONDS))
    timed = numbers.map(record_of).with_event_time(2, out_of_orderness=us(4 * STEP_US))
    keyed = timed.key_by(0)
    sorted_ = keyed.sort_by_time()
    pattern = Then(
        Stage("first", lambda record: record[1] % 3 == 0),
        FollowedBy("second", lambda record: record[1] % 7 == 0),
    )
    tens = numbers.filter(lambda n: n % 10 == 0).map(record_of).key_by(0)
    thirds = timed.filter(lambda record: record[0] % 3 == 0).key_by(0)
    odd: Callable[[Record], bool] = lambda record: record[1] % 2 == 1  # noqa: E731
    gaps = keyed.window(Sliding(us(SPAN_US), us(SLIDE_US)))
    return {
        "rolled": keyed.over(last=us(SPAN_US)).sum(1).map(lambda pair: (pair[0][1], pair[1])),
        "sorted": sorted_,
        "apart": sorted_.key_by(0).deduplicate(within=us(PAUSE_US)),
        "matched": keyed.pattern(pattern, within=us(SPAN_US)).map(
            lambda found: (found["first"][0][1], found["second"][0][1])
        ),
        "joined": thirds.semi_join(tens).map(lambda record: record[:2]),
        "latest": keyed.latest(by=2).changes().map(_of_change),
        "gaps": gaps.aggregate(odd=Count(where=odd), xor=BitXor(1)).map(_of_window),
        "top": keyed.top_n(3, by=1, emit="final").map(
            lambda top: (top[0], [n for _, n, _ in top[1]])
        ),
    }


def _of_change(change: Change) -> tuple[str, tuple[int, int]]:
    return change.kind, change.record[:2]


def _of_window(result: tuple[int, dict[str, int], int, int]) -> tuple[int, ...]:
    key, found, start, end = result
    return key, found["odd"], found["xor"], start, end


def main() -> None:
    """Run the job, or go on with it."""
    folder, out, checkpoints, runtime, transport = sys.argv[1:]
    jobfolders.announce((Path(folder) / "job").open("a"))
    alone = source(Collection(range(RECORDS), rate=RECORDS / SECONDS))
    result = engine.execute(
        [
            *(stream.sink(JsonLines(f"{out}/{name}")) for name, stream in outputs().items()),
            alone.aggregate(n=Count(), xor=BitXor(None), emit="final").sink(Collect()).named("all"),
        ],
        runtime=runtime,
        transport=transport,
        parallelism=2,
        batch_size=20,
        checkpoints=checkpoints,
        checkpoint_interval_seconds=0.1,
        resume="latest",
        restarts=100,
        reconnect_timeout_seconds=3.0,
    )
    print(json.dumps({"all": result.outputs["all"]}))


if __name__ == "__main__":
    main()
