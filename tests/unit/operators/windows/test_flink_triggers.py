"""Cases of triggers in Flink's WindowOperatorTest (apache/flink, 6da38a6a, Apache-2.0), as data.

Of its tests with triggers other than the event-time trigger, those of event time are here: that
trigger with purges over tumbling windows and sessions, with each allowed lateness, and the count
trigger that purges over sessions, with a snapshot in between. The continuous event-time trigger and
the count trigger are tested over a global window there, which is one large window here. Tests of
processing time and of evictors do not apply.

Times are milliseconds. A number between records is a watermark. A list has what came of all since
the list before, as (key, sum, start, end), with the late records at the end of each case.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from operators import (
    CountTrigger,
    Purging,
    Session,
    Trigger,
    TriggerWindow,
    Tumbling,
    WindowedStream,
    source,
)
from operators.sources import Collection
from operators.windows.trigger import Decision
from tests.windowing import Tasks

SNAPSHOT = "snapshot"


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


class FlinkCountTrigger(CountTrigger):
    """Gives nothing at the end of a window."""

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        return "continue"


class ContinuousEventTime(Trigger):
    """Flink's ContinuousEventTimeTrigger: at each multiple of a period, and at the end."""

    def __init__(self, period: timedelta) -> None:
        self.us = period // timedelta(microseconds=1)

    def on_record(self, record: Any, time: int, window: TriggerWindow) -> Decision:
        if window.is_complete:
            return "fire"
        if not window.state.get("timer"):
            self.plan(time - time % self.us + self.us, window)
        return "continue"

    def on_event_time(self, time: int, window: TriggerWindow) -> Decision:
        if time == window.last:
            return "fire"
        self.plan(time + self.us, window)
        return "fire"

    def plan(self, time: int, window: TriggerWindow) -> None:
        window.state["timer"] = time
        window.add_timer(time)


MERGED: list[Any] = [
    *(("key2", 1, 1000), 1999, [], ("key2", 1, 2000), 4998, []),
    *(("key2", 1, 4500), ("key2", 1, 8500), 7400, []),
    *(("key2", 1, 7000), 11501, [("key2", 5, 1000, 11500)]),
    *(("key2", 1, 11600), 14600, [("key2", 1, 11600, 14600)]),
]
GLOBAL = 1 << 42
"""The length of a window that has all."""
ALL = [
    *(("key1", 1, 0), ("key2", 1, 3000), ("key2", 1, 3999), ("key1", 1, 20), ("key1", 1, 999)),
    *(("key2", 1, 1998), ("key2", 1, 1999), ("key2", 1, 1000)),
]
AT_END = Purging(Trigger())
CASES: dict[str, tuple[Any, Any, int, list[Any], list[Any]]] = {
    "Lateness": (
        Tumbling(ms(2000)),
        AT_END,
        500,
        [
            *(("key2", 1, 500), 1500, [], ("key2", 1, 1300), 2300, [("key2", 2, 0, 2000)]),
            *(("key2", 1, 1997), 6000, [("key2", 1, 0, 2000)]),
            *(("key2", 1, 1998), 7000, []),
        ],
        [("key2", 1, 1998)],
    ),
    "SideOutputDueToLatenessSessionZeroLatenessPurgingTrigger": (
        Session(ms(3000)),
        AT_END,
        0,
        [
            *(*MERGED, ("key2", 1, 10000), ("key2", 1, 14500)),
            *(20000, [("key2", 1, 14500, 17500)], 100000, []),
        ],
        [("key2", 1, 10000)],
    ),
    "SideOutputDueToLatenessSessionWithLatenessPurgingTrigger": (
        Session(ms(3000)),
        AT_END,
        10,
        [
            *(*MERGED, ("key2", 1, 10000), [("key2", 1, 10000, 14600)]),
            *(("key2", 1, 14500), 20000, [("key2", 1, 10000, 17500)], 100000, []),
        ],
        [],
    ),
    "NotSideOutputDueToLatenessSessionWithHugeLatenessPurgingTrigger": (
        Session(ms(3000)),
        AT_END,
        10000,
        [
            *(*MERGED, ("key2", 1, 10000), [("key2", 1, 1000, 14600)]),
            *(("key2", 1, 14500), 20000, [("key2", 1, 1000, 17500)], 100000, []),
        ],
        [],
    ),
    "SessionWindowsWithCountTrigger": (
        Session(ms(3000)),
        Purging(FlinkCountTrigger(4)),
        0,
        [
            *(("key2", 1, 0), ("key2", 2, 1000), ("key2", 3, 2500), ("key2", 4, 3500)),
            *(("key1", 1, 10), ("key1", 2, 1000), SNAPSHOT, ("key1", 3, 2500)),
            *(("key1", 1, 6000), ("key1", 2, 6500), ("key1", 3, 7000)),
            [("key2", 10, 0, 6500)],
            *(("key1", 10, 4500), [("key1", 22, 10, 10000)]),
        ],
        [],
    ),
    "ContinuousWatermarkTrigger": (
        Tumbling(ms(GLOBAL)),
        ContinuousEventTime(ms(3000)),
        0,
        [
            *(*ALL, 1000, [], 2000, [], 3000, [("key1", 3, 0, GLOBAL)], 4000, [], 5000, []),
            *(6000, [("key1", 3, 0, GLOBAL), ("key2", 5, 0, GLOBAL)], 7000, [], 8000, []),
        ],
        [],
    ),
    "CountTrigger": (
        Tumbling(ms(GLOBAL)),
        Purging(FlinkCountTrigger(4)),
        0,
        [
            *(("key2", 1, 3000), ("key2", 1, 3999), ("key1", 1, 20), ("key1", 1, 0)),
            *(("key1", 1, 999), ("key2", 1, 1998), ("key2", 1, 1999), SNAPSHOT),
            *(("key2", 1, 1000), [("key2", 4, 0, GLOBAL)], ("key1", 1, 10999)),
            *(("key2", 1, 1000), ("key2", 1, 1000), ("key2", 1, 1000)),
            [("key1", 4, 0, GLOBAL), ("key2", 4, 0, GLOBAL)],
        ],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["reduce", "apply", "native"])
def test_case(name: str, way: str) -> None:
    assigner, trigger, lateness, steps, late = CASES[name]
    keyed = source(Collection([])).with_event_time(2, unit="ms").key_by(0)
    windows: WindowedStream[Any, Any] = keyed.window(
        assigner, allowed_lateness=ms(lateness), emit=trigger
    )
    if way == "reduce":
        stream: Any = windows.reduce(lambda a, b: (b[0], a[1] + b[1], b[2]))
    elif way == "apply":
        stream = windows.apply(lambda key, records, start, end: (key, sum(r[1] for r in records)))
    else:
        stream = windows.sum(1)
    tasks = Tasks(stream)
    found: list[Any] = []
    for step in steps:
        if isinstance(step, list):
            results = [
                (key, value if way == "native" else value[1], start, end)
                for key, value, start, end in found
            ]
            assert sorted(results) == sorted(step)
            found = []
        elif step == SNAPSHOT:
            tasks = Tasks(stream, 1, tasks.snapshot())
        else:
            # Records have whole milliseconds; those that follow a watermark are later.
            event = step * 1000 + 999 if isinstance(step, int) else step
            found += [result for given in tasks.take([event]) for result in given]
    assert found == []
    assert tasks.late == late
    assert sum(function.late for function in tasks.functions) == len(late)
    if isinstance(trigger, ContinuousEventTime):
        return  # it would be called for each of its periods until the end
    tasks.take([GLOBAL * 4000])
    assert not any(state.entries for state in tasks.snapshot())
