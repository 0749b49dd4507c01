"""Cases of Quix Streams' windowing tests (quixio/quix-streams, test_windows), as data.

18 are here (Apache-2.0, versions 0184ae4d, 56af6e2b and 5295737b): of tumbling and hopping windows
those that close (collect, multiaggregation, expired, partition_expiration), of sessions
timeout_behavior, grace_period and partition_expiration, and of count windows, tumbling and hopping,
those that collect or sum. Tests of single aggregations do the same with another function. The rest
does not apply: names and arguments of its own classes, windows that close for each key by itself,
triggers that the user writes, its store, and aggregations that change between two runs over one
store. Its sliding windows are others: one ends with each record.

Times are milliseconds. A record moves the watermark to its own time less the grace; Quix closes
sessions later, and ends them at their last record.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from operators import Count, CountWindow, First, Last, Session, Sliding, Sum, Tumbling, source
from operators.sources import Collection
from tests.windowing import Tasks


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


ONE_TO_THREE = [("key", 1, 100), ("key", 2, 100), ("key", 3, 101)]
TWO_KEYS = [("key1", 1, 100), ("key1", 3, 105), ("key2", 5, 102), ("key2", 7, 108)]
TWO_OTHERS = [("key1", 1, 100), ("key1", 3, 106), ("key2", 5, 102), ("key2", 7, 108)]

CASES: dict[str, tuple[Any, int, list[Any]]] = {
    "tumblingwindow_collect": (
        Tumbling(ms(10)),
        5,
        [*ONE_TO_THREE, ("key", 4, 200), [("key", [1, 2, 3], 100, 110)]],
    ),
    "tumbling_multiaggregation": (
        Tumbling(ms(10)),
        0,
        [("key", 1, 2), ("key", 4, 4), ("key", 2, 12), [("key", [1, 4], 0, 10)]],
    ),
    "tumbling_window_process_window_expired": (
        Tumbling(ms(10)),
        0,
        [("key", 1, 100), [], ("key", 2, 110), [("key", [1], 100, 110)]],
    ),
    "tumbling_partition_expiration": (
        Tumbling(ms(10)),
        2,
        [
            *TWO_KEYS,
            *(("key1", 2, 110), [], ("key2", 2, 109), [], ("key1", 2, 112)),
            [("key1", [1, 3], 100, 110), ("key2", [5, 7, 2], 100, 110)],
        ],
    ),
    "hoppingwindow_collect": (
        Sliding(ms(10), ms(5)),
        0,
        [
            *ONE_TO_THREE,
            *(("key", 4, 110), [("key", [1, 2, 3], 95, 105), ("key", [1, 2, 3], 100, 110)]),
        ],
    ),
    "hopping_window_process_window_expired": (
        Sliding(ms(10), ms(5)),
        0,
        [
            *(("key", 1, 100), [], ("key", 2, 110)),
            [("key", [1], 95, 105), ("key", [1], 100, 110)],
        ],
    ),
    "hopping_partition_expiration": (
        Sliding(ms(10), ms(5)),
        2,
        [
            *TWO_OTHERS,
            [("key1", [1], 95, 105), ("key2", [5], 95, 105)],
            *(("key1", 2, 110), [], ("key2", 2, 109), [], ("key1", 3, 112)),
            [("key1", [1, 3], 100, 110), ("key2", [5, 7, 2], 100, 110)],
        ],
    ),
    "session_window_process_timeout_behavior": (
        Session(ms(5000)),
        0,
        [
            *(("key", 1, 1000), [], ("key", 2, 4000), [], ("key", 5, 15000)),
            [("key", [1, 2], 1000, 9000)],
        ],
    ),
    "session_window_grace_period": (
        Session(ms(5000)),
        2000,
        [
            *(("key", 1, 1000), [], ("key", 2, 8000)),
            [("key", [1], 1000, 6000)],
            *(("key", 3, 20001), [("key", [2], 8000, 13000)]),
        ],
    ),
    "session_partition_expiration": (
        Session(ms(5000)),
        1000,
        [
            *(("key1", 1, 1000), ("key2", 10, 2000), ("key1", 2, 3000), ("key2", 20, 4000), []),
            ("key1", 3, 15001),
            [("key1", [1, 2], 1000, 8000), ("key2", [10, 20], 2000, 9000)],
        ],
    ),
    "count_collect": (
        CountWindow(3),
        0,
        [("", 1, 100), ("", 2, 100), [], ("", 3, 101), [("", [1, 2, 3], 0, 3)]],
    ),
    "count_window_expired": (
        CountWindow(2),
        0,
        [("", 1, 100), [], ("", 2, 110), [("", [1, 2], 0, 2)]],
    ),
    "count_multiple_keys_{sum,collect}": (
        CountWindow(3),
        0,
        [
            *(("key1", 1, 100), ("key2", 5, 100), ("key1", 2, 110), ("key2", 4, 110), []),
            *(("key1", 3, 120), [("key1", [1, 2, 3], 0, 3)], ("key1", 4, 130), []),
            *(("key2", 3, 120), [("key2", [5, 4, 3], 0, 3)]),
            *(("key2", 2, 130), ("key1", 5, 140), ("key2", 1, 140), []),
            *(("key2", 0, 130), [("key2", [2, 1, 0], 3, 6)]),
            *(("key1", 6, 140), [("key1", [4, 5, 6], 3, 6)]),
        ],
    ),
    "count_hopping_multiaggregation": (
        CountWindow(3, 2),
        0,
        [
            *(("key", 1, 2), ("key", 5, 6), [], ("key", 3, 12), [("key", [1, 5, 3], 0, 3)]),
            *(("key", 1, 16), [], ("key", 4, 22), [("key", [3, 1, 4], 2, 5)]),
        ],
    ),
    "count_hopping_{collect,sum}": (
        CountWindow(4, 2),
        0,
        [
            *(("", 1, 100), ("", 2, 100), ("", 3, 100), [], ("", 4, 100)),
            *([("", [1, 2, 3, 4], 0, 4)], ("", 5, 100), [], ("", 6, 100)),
            [("", [3, 4, 5, 6], 2, 6)],
        ],
    ),
    "count_hopping_unaligned_steps": (
        CountWindow(5, 2),
        0,
        [
            *(("", number, 100) for number in range(1, 6)),
            *([("", [1, 2, 3, 4, 5], 0, 5)], ("", 6, 100), [], ("", 7, 100)),
            *([("", [3, 4, 5, 6, 7], 2, 7)], ("", 8, 100), [], ("", 9, 100)),
            *([("", [5, 6, 7, 8, 9], 4, 9)], ("", 10, 100), [], ("", 11, 100)),
            [("", [7, 8, 9, 10, 11], 6, 11)],
        ],
    ),
}


def all_of(values: list[int]) -> dict[str, Any]:
    """What is computed natively, of the list of a window's values."""
    return {"n": len(values), "sum": sum(values), "first": values[0], "last": values[-1]}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["apply", "native", "columns"])
def test_case(name: str, way: str) -> None:
    assigner, grace, steps = CASES[name]
    columns = ("key", "value", "time") if way == "columns" else ()
    key, value, time = columns or (0, 1, 2)
    windows = source(Collection([])).with_event_time(time, unit="ms").key_by(key).window(assigner)
    if way == "apply":
        stream = windows.apply(lambda key, records, s, e: all_of([r[1] for r in records]))
    else:
        stream = windows.aggregate(n=Count(), sum=Sum(value), first=First(value), last=Last(value))
    tasks = Tasks(stream, columns=columns)
    found: list[Any] = []
    highest = 0
    for step in steps:
        if isinstance(step, list):
            assert found == [(key, all_of(values), *bounds) for key, values, *bounds in step]
            found = []
            continue
        found += [result for given in tasks.take([step]) for result in given]
        highest = max(highest, step[2])
        watermark = (highest - grace) * 1000 - 1
        found += [result for given in tasks.take([watermark]) for result in given]
    assert found == []
    assert tasks.late == []
