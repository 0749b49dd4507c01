"""Cases of Flink's WindowOperatorTest (apache/flink, 0133e694, Apache-2.0), as data.

Of its 36 tests, 23 are here: tumbling, sliding and session windows of event time, with offsets,
late records and allowed lateness, with what is left of a window, with a snapshot in between, and
the count trigger that purges, which is a count window. Tests that differ in the kind of state alone
have one row. Those of other triggers, five of the other 13, are in `test_flink_triggers.py`. Eight
do not apply: five are of processing time, one of its timers' snapshots, and there are no evictors
and no windows without a length. (Of the tests that purge, one has the results of its twin and is
here.)

Times are milliseconds. A number between records is a watermark. A list has what came of all since
the list before, as (key, sum, start, end); where ends are equal, in any order, as Flink's does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from operators import CountWindow, Session, Sliding, Tumbling, source
from operators.sources import Collection
from tests.windowing import Tasks

SNAPSHOT = "snapshot"


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


DISORDERED: list[Any] = [
    *(("key2", 1, 3999), ("key2", 1, 3000), ("key1", 1, 20), ("key1", 1, 0), ("key1", 1, 999)),
    *(("key2", 1, 1998), ("key2", 1, 1999), ("key2", 1, 1000)),
]

MERGED: list[Any] = [
    *(("key2", 1, 1000), 1999, [], ("key2", 1, 2000), 4998, []),
    *(("key2", 1, 4500), ("key2", 1, 8500), 7400, []),
    *(("key2", 1, 7000), 11501, [("key2", 5, 1000, 11500)]),
    *(("key2", 1, 11600), 14600, [("key2", 1, 11600, 14600)]),
]

BIGGEST = 2**63 - 1
LAST = (BIGGEST - 1750) // 1000 * 1000
"""The start of the window of that time."""

CASES: dict[str, tuple[Any, int, list[Any]]] = {
    "SlidingEventTimeWindows{Reduce,Apply}": (
        Sliding(ms(3000), ms(1000)),
        0,
        [
            *DISORDERED,
            *(999, [("key1", 3, -2000, 1000)]),
            *(1999, [("key1", 3, -1000, 2000), ("key2", 3, -1000, 2000)]),
            *(2999, [("key1", 3, 0, 3000), ("key2", 3, 0, 3000)]),
            SNAPSHOT,
            *(3999, [("key2", 5, 1000, 4000)]),
            *(4999, [("key2", 2, 2000, 5000)]),
            *(5999, [("key2", 2, 3000, 6000)]),
            *(6999, [], 7999, []),
        ],
    ),
    "TumblingEventTimeWindows{Reduce,Apply}": (
        Tumbling(ms(3000)),
        0,
        [
            *DISORDERED,
            *(999, [], 1999, []),
            SNAPSHOT,
            *(2999, [("key1", 3, 0, 3000), ("key2", 3, 0, 3000)]),
            *(3999, [], 4999, []),
            *(5999, [("key2", 2, 3000, 6000)]),
            *(6999, [], 7999, []),
        ],
    ),
    "{,Reduce}SessionWindows": (
        Session(ms(3000)),
        0,
        [
            *(("key2", 1, 0), ("key2", 2, 1000), ("key2", 3, 2500), ("key1", 1, 10)),
            ("key1", 2, 1000),
            SNAPSHOT,
            *(("key1", 3, 2500), ("key2", 4, 5501), ("key2", 5, 6000), ("key2", 5, 6000)),
            ("key2", 6, 6050),
            12000,
            [("key1", 6, 10, 5500), ("key2", 6, 0, 5500), ("key2", 20, 5501, 9050)],
            *(("key2", 10, 15000), ("key2", 20, 15000)),
            *(17999, [("key2", 30, 15000, 18000)]),
        ],
    ),
    "CountTrigger": (
        CountWindow(4),
        0,
        [
            *DISORDERED[:-1],
            SNAPSHOT,
            *(("key2", 1, 1000), [("key2", 4, 0, 4)]),
            *(("key1", 1, 10999), ("key2", 1, 1000), ("key2", 1, 1000), ("key2", 1, 1000)),
            [("key1", 4, 0, 4), ("key2", 4, 4, 8)],
        ],
    ),
    "CleanupTimeOverflow": (
        Tumbling(ms(1000)),
        2000,
        [
            *(("key2", 1, BIGGEST - 1750), BIGGEST - 1500, []),
            *(LAST + 999, [("key2", 1, LAST, LAST + 1000)]),
        ],
    ),
    "DropDueToLatenessTumbling": (
        Tumbling(ms(2000)),
        0,
        [
            *(("key2", 1, 1000), 1985, []),
            *(("key2", 1, 1980), 1999, [("key2", 2, 0, 2000)]),
            *(("key2", 1, 1998), ("key2", 1, 2001), 2999, []),
            *(3999, [("key2", 1, 2000, 4000)]),
        ],
    ),
    "DropDueToLatenessSliding": (
        Sliding(ms(3000), ms(1000)),
        0,
        [
            *(("key2", 1, 1000), 1999, [("key2", 1, -1000, 2000)]),
            *(("key2", 1, 2000), 3000, [("key2", 2, 0, 3000)]),
            *(("key1", 1, 3001), ("key2", 1, 2400), ("key2", 1, 2400), ("key1", 1, 3001)),
            ("key2", 1, 3900),
            6000,
            [
                *(("key2", 5, 1000, 4000), ("key1", 2, 1000, 4000)),
                *(("key2", 4, 2000, 5000), ("key1", 2, 2000, 5000)),
                *(("key2", 1, 3000, 6000), ("key1", 2, 3000, 6000)),
            ],
            *(("key1", 1, 3001), 25000, []),
        ],
    ),
    "DropDueToLatenessSessionZeroLateness{,PurgingTrigger}": (
        Session(ms(3000)),
        0,
        [
            *MERGED,
            *(("key2", 1, 10000), ("key2", 1, 10100)),
            *(("key2", 1, 14500), 20000, [("key2", 1, 14500, 17500)]),
            *(100000, []),
        ],
    ),
    "DropDueToLatenessSessionWithLateness": (
        Session(ms(3000)),
        10,
        [
            *MERGED,
            *(("key2", 1, 10000), [("key2", 2, 10000, 14600)]),
            *(("key2", 1, 14500), 20000, [("key2", 3, 10000, 17500)]),
            *(100000, []),
        ],
    ),
    "DropDueToLatenessSessionWithHugeLateness": (
        Session(ms(3000)),
        10000,
        [
            *MERGED,
            *(("key2", 1, 10000), [("key2", 7, 1000, 14600)]),
            *(("key2", 1, 14500), 20000, [("key2", 8, 1000, 17500)]),
            *(100000, []),
        ],
    ),
    "CleanupTimerWithEmptyListStateForTumblingWindows2": (
        Tumbling(ms(2000)),
        100,
        [("key2", 1, 1000), 1599, [], 1999, [("key2", 1, 0, 2000)], 2100, [], 5000, []],
    ),
    "CleanupTimerWithEmpty{List,Reduce,Folding}StateForTumblingWindows": (
        Tumbling(ms(2000)),
        1,
        [("key2", 1, 1000), 1599, [], 1999, [("key2", 1, 0, 2000)], 2000, [], 5000, []],
    ),
    "CleanupTimerWithEmpty{List,Reduce,Folding}StateForSessionWindows": (
        Session(ms(3000)),
        10,
        [("key2", 1, 1000), 4998, [("key2", 1, 1000, 4000)], 14600, []],
    ),
    "EventTimeTumblingWindowsWithOffset": (
        Tumbling(ms(2000), ms(100)),
        0,
        [
            *(("key2", 1, 1000), 1985, []),
            *(("key2", 2, 1980), ("key2", 3, 1998), ("key2", 4, 2001)),
            *(2010, [], 2999, [("key2", 10, 100, 2100)], 3999, []),
        ],
    ),
    "EventTimeSlidingWindowsWithOffset": (
        Sliding(ms(2000), ms(500), ms(10)),
        0,
        [
            ("key2", 1, 333),
            6666,
            [("key2", 1, end - 2000, end) for end in (510, 1010, 1510, 2010)],
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["reduce", "apply", "native", "columns"])
def test_case(name: str, way: str) -> None:
    is_native = way in ("native", "columns")
    if name == "CleanupTimeOverflow" and is_native:
        pytest.skip("times in Rust are at most 146,000 years from 1970")
    assigner, lateness, steps = CASES[name]
    columns = ("key", "value", "time") if way == "columns" else ()
    key, value, time = columns or (0, 1, 2)
    keyed = source(Collection([])).with_event_time(time, unit="ms").key_by(key)
    windows = keyed.window(assigner, allowed_lateness=ms(lateness))
    if way == "reduce":
        stream = windows.reduce(lambda a, b: (b[0], a[1] + b[1], b[2]))
    elif way == "apply":
        stream = windows.apply(lambda key, records, start, end: (key, sum(r[1] for r in records)))
    else:
        stream = windows.sum(value)
    tasks = Tasks(stream, columns=columns)
    found: list[Any] = []
    for step in steps:
        if isinstance(step, list):
            results = [
                (key, value if is_native else value[1], start, end)
                for key, value, start, end in found
            ]
            assert sorted(results, key=lambda each: (each[3], each[0])) == sorted(
                step, key=lambda each: (each[3], each[0])
            )
            assert [end for *_, end in results] == [end for *_, end in step]
            found = []
        elif step == SNAPSHOT:
            tasks = Tasks(stream, 1, tasks.snapshot(), columns)
        else:
            # Records have whole milliseconds; those that follow a watermark are later.
            event = step * 1000 + 999 if isinstance(step, int) else step
            found += [result for given in tasks.take([event]) for result in given]
    assert found == []
    if not isinstance(assigner, CountWindow):
        assert tasks.take([BIGGEST if is_native else BIGGEST * 2000]) == []
        assert not any(state.entries for state in tasks.snapshot())
