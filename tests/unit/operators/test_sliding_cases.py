"""Sliding windows of Kafka Streams, Quix Streams and Volga, as data: what `over(last=…)` must give.

Their windows end with a record, as a span does; Kafka has others beside, which begin behind a
record, and no record of Oka asks for those. The expected values are the last of each such window.

- apache/kafka, KStreamSlidingWindowAggregateTest (Apache-2.0, 0123de42): 11 of 14 tests, those that
  aggregate; of large input each key is a case. Windows that end between two records are left out,
  and so are those without grace that a record came too late for: in Oka a late record counts for no
  result at all, and goes to `.side("late")`. The other tests are of a join of two such tables, and
  of metrics of null keys and late records.
- quixio/quix-streams, test_sliding.py (Apache-2.0, 008e5765): 12 of 14. The two of expiration have
  late records that count for later windows.
- volga-project/volga, runtime/operators/window/tests/semantics.rs (Apache-2.0, 10687627): 5 of 11.
  One case differs: Volga orders records of one time by their arrival, and Oka sees them together,
  as SQL's RANGE does. The others ask its window store for values from outside.

In the first two, a record is its number and its time in milliseconds. Numbers become powers of two,
so that a sum tells which records it is of.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import engine.testing
from operators import Sum, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.rolling import NAMES, RollingTasks, over

Numbered = list[tuple[int, int]]
Windows = dict[int, set[int]]
"""By end: the numbers of the records."""


def members(letters: str) -> set[int]:
    return {ord(letter) - ord("A") for letter in letters}


TIMES = (10, 15, 16, 18, 30, 40, 55, 56, 58, 58, 62, 63, 63, 63, 76, 77, 80, 2, 3, 5, 8)
SHUFFLED = [*random.Random(7).sample([*enumerate(TIMES)], len(TIMES)), (21, 181)]

KAFKA: dict[str, tuple[int, Numbered, Windows]] = {
    "aggregate small input": (
        10,
        [(1, 10), (2, 10), (3, 14), (4, 15), (5, 20), (6, 22), (7, 30)],
        {
            10: {1, 2},
            14: {1, 2, 3},
            15: {1, 2, 3, 4},
            20: {1, 2, 3, 4, 5},
            22: {3, 4, 5, 6},
            30: {5, 6, 7},
        },
    ),
    "reduce small input": (
        10,
        [(1, 10), (2, 14), (3, 15), (4, 22), (5, 26), (6, 30)],
        {10: {1}, 14: {1, 2}, 15: {1, 2, 3}, 22: {2, 3, 4}, 26: {4, 5}, 30: {4, 5, 6}},
    ),
    "aggregate large input, A": (
        10,
        [(1, 10), (2, 20), (3, 22), (4, 15)],
        {10: {1}, 15: {1, 4}, 20: {1, 2, 4}, 22: {2, 3, 4}},
    ),
    "aggregate large input, B": (
        10,
        [(1, 12), (2, 13), (3, 18), (4, 19), (5, 25), (6, 14)],
        {
            12: {1},
            13: {1, 2},
            14: {1, 2, 6},
            18: {1, 2, 3, 6},
            19: {1, 2, 3, 4, 6},
            25: {3, 4, 5},
        },
    ),
    "aggregate large input, C": (
        10,
        [(1, 11), (2, 15), (3, 16), (4, 21), (5, 23)],
        {11: {1}, 15: {1, 2}, 16: {1, 2, 3}, 21: {1, 2, 3, 4}, 23: {2, 3, 4, 5}},
    ),
    "aggregate large input, D": (
        10,
        [(4, 11), (2, 12), (3, 29), (5, 16)],
        {11: {4}, 12: {4, 2}, 16: {4, 2, 5}, 29: {3}},
    ),
    "early records, small input": (
        50,
        [(1, 0), (2, 5), (3, 6), (4, 3), (5, 13), (6, 10), (7, 70)],
        {70: {7}},
    ),
    "early records, repeated input": (
        5,
        [(1, 0), (2, 2), (3, 4), (4, 0), (5, 2), (6, 2), (7, 0), (8, 7)],
        {7: {2, 3, 5, 6, 8}},
    ),
    "early records, large input": (
        10,
        [(1, 0), (3, 5), (4, 6), (2, 3), (6, 13), (5, 10), (7, 4), (8, 2), (9, 15)],
        {10: {1, 3, 4, 2, 5, 7, 8}, 13: {3, 4, 2, 6, 5, 7}, 15: {3, 4, 6, 5, 9}},
    ),
    "early records, no grace, small input": (
        50,
        [(1, 0), (2, 5), (3, 6), (4, 3), (5, 13), (6, 10), (6, 70)],
        {70: {6}},
    ),
    "no grace, small input": (
        50,
        [(1, 100), (2, 105), (3, 106), (4, 103), (5, 113), (6, 110)],
        {100: {1}, 106: {1, 2, 3, 4}, 113: {1, 2, 3, 4, 5, 6}},
    ),
    "early records, no grace, large input": (
        10,
        [(1, 0), (3, 5), (4, 6), (2, 3), (6, 13), (5, 10), (7, 4), (8, 2), (9, 15)],
        {13: {3, 4, 2, 6, 5, 7}, 15: {3, 4, 6, 5, 9}},
    ),
    "no grace, large input": (
        10,
        [(1, 100), (3, 105), (4, 106), (2, 103), (6, 113), (5, 110), (7, 104), (8, 102), (9, 115)],
        {100: {1}, 113: {3, 4, 2, 6, 5, 7}, 115: {3, 4, 6, 5, 9}},
    ),
    "random input": (
        10,
        SHUFFLED,
        {
            10: members("ARSTU"),
            15: members("ABTU"),
            16: members("ABCU"),
            18: members("ABCDU"),
            30: members("E"),
            40: members("EF"),
            55: members("G"),
            56: members("GH"),
            58: members("GHIJ"),
            62: members("GHIJK"),
            63: members("GHIJKLMN"),
            76: members("O"),
            77: members("OP"),
            80: members("OPQ"),
            181: members("V"),
        },
    ),
}
QUIX: dict[str, tuple[int, Numbered, Windows]] = {
    "right window exists": (10, [(1, 23), (2, 12)], {23: {1}, 12: {2}}),
    "right window created": (10, [(1, 23), (2, 20)], {20: {2}, 23: {1, 2}}),
    "right window updated": (
        10,
        [(1, 23), (2, 20), (3, 27)],
        {20: {2}, 23: {1, 2}, 27: {1, 2, 3}},
    ),
    "left window exists": (10, [(1, 17), (2, 17)], {17: {1, 2}}),
    "right window becomes left window": (
        10,
        [(1, 23), (2, 20), (3, 31), (4, 31)],
        {20: {2}, 23: {1, 2}, 31: {1, 3, 4}},
    ),
    "right window for previous message created": (10, [(1, 11), (2, 19)], {11: {1}, 19: {1, 2}}),
    "deletion watermark below last iterated window": (
        10,
        [(1, 16), (2, 24), (3, 25)],
        {16: {1}, 24: {1, 2}, 25: {1, 2, 3}},
    ),
    "deletion watermark is expiration watermark": (
        10,
        [(1, 16), (2, 24), (3, 25)],
        {16: {1}, 24: {1, 2}, 25: {1, 2, 3}},
    ),
    "aggregation from min eligible window": (10, [(1, 11), (2, 21)], {11: {1}, 21: {1, 2}}),
    "aggregation not found": (10, [(1, 11), (2, 22)], {11: {1}, 22: {2}}),
    "prevent negative start time": (10, [(1, 3)], {3: {1}}),
    "default aggregation used": (
        10,
        [(1, 29), (2, 26), (3, 41)],
        {26: {2}, 29: {1, 2}, 41: {3}},
    ),
}


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize(
    ("span", "numbered", "windows"),
    [
        pytest.param(*case, id=f"{system}: {name}")
        for system, cases in (("kafka", KAFKA), ("quix", QUIX))
        for name, case in cases.items()
    ],
)
def test_spans_are_windows_that_end_with_a_record(
    span: int, numbered: Numbered, windows: Windows, form: str
) -> None:
    rows = [{"key": "k", "time": time, "number": 1 << number} for number, time in numbered]
    came: Any = [tuple(row.values()) for row in rows]
    names: Any = (0, 1, 2)
    if form == "columns":
        came, names = pa.Table.from_pylist(rows).to_batches(), ("key", "time", "number")
    key, time, number = names
    disorder = timedelta(milliseconds=100)
    timed = source(Collection(came)).with_event_time(time, unit="ms", out_of_orderness=disorder)
    sums = timed.key_by(key).over(timedelta(milliseconds=span)).sum(number).sink(Collect())
    found: dict[int, int] = {}
    for result in engine.testing.run(sums)["collect"]:
        if form == "columns":
            pairs = [(row["time"], row["sum"]) for row in result.to_pylist()]
        else:
            pairs = [(result[0][1], result[1])]
        for end, value in pairs:
            assert found.setdefault(end, value) == value, "records of one time have one result"
    assert windows.keys() <= found.keys() == {time for _, time in numbered}
    wanted = {end: sum(1 << each for each in members) for end, members in windows.items()}
    assert {end: found[end] for end in wanted} == wanted


VOLGA: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "a partial watermark keeps the key pending without more records": (
        [("A", 1000, 1), ("A", 5000, 5), 2000, 5000],
        [(("A", 1000, 1), 1), (("A", 5000, 5), 6)],
        [],
    ),
    "a watermark without records": ([1000], [], []),
    "late records of an unseen key": ([10_000, ("B", 9_000, 1)], [], [("B", 9_000, 1)]),
    "keys are isolated": (
        [("A", 1000, 1), ("B", 1000, 2), 1000],
        [(("A", 1000, 1), 1), (("B", 1000, 2), 2)],
        [],
    ),
    "pending records survive a restore": (
        [("A", 1000, 1), ("A", 2000, 2), "restore", 2000],
        [(("A", 1000, 1), 1), (("A", 2000, 2), 3)],
        [],
    ),
}


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize("name", VOLGA)
def test_sums_of_volga_over_five_seconds(name: str, form: str) -> None:
    events, wanted, late = VOLGA[name]
    columns = NAMES if form == "columns" else ()
    stream = over({"last": timedelta(milliseconds=5)}).aggregate(sum=Sum(2))
    tasks = RollingTasks(stream, columns=columns)
    found: list[Any] = []
    for event in events:
        if event == "restore":
            tasks = RollingTasks(stream, 2, tasks.snapshot(), columns)
        else:
            found += [each for given in tasks.take([event]) for each in given]
    assert [(record, next(iter(values.values()))) for record, values in found] == wanted
    assert tasks.late == late
