"""How an operator finds where records have their time: what survives, and what is said if not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import engine
from operators import CountWindow, Stream, Tumbling, source
from operators.event_time import TimeSelector, time_of
from operators.sources import Collection


def words() -> Stream[Any]:
    return source(Collection([{"word": "to", "ts": 1}]))


def first(record: Any) -> Any:
    return record["word"]


TIMED = words().with_event_time("ts", unit="ms")
MS = TimeSelector("ts", "ms")
MINUTE = Tumbling(timedelta(minutes=1))
WINDOWS = TIMED.key_by("word").window(MINUTE)
LAST = TimeSelector(3, "ms", column="window_end", before_us=1)
"""A microsecond before the end of the window."""


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (TIMED, MS),
        (TIMED.key_by("word"), MS),
        (TIMED.key_by("word", "ts"), MS),
        (TIMED.key_by("word", on_error="skip"), MS),
        (TIMED.key_by(first), TimeSelector("ts", "ms", paired=True)),
        (TIMED.filter(first).rebalance().take(3).broadcast(), MS),
        (TIMED.named("timed").with_parallelism(2).key_by("word"), MS),
        (TIMED.to_columns().key_by("word"), MS),
        (TIMED.to_columns().to_records().filter(first), MS),
        (TIMED.union(TIMED.filter(first)).key_by("word"), MS),
        (TIMED.union(words().with_event_time("ts", unit="ms")), MS),
        (TIMED.map(first).with_event_time(None), TimeSelector()),
        (words().with_event_time(first).key_by("word"), TimeSelector(first)),
        (words().union(TIMED).with_event_time(0), TimeSelector(0)),
        (WINDOWS.count(), LAST),
        (WINDOWS.collect().key_by(0), LAST),
        (WINDOWS.count().filter(first).key_by(first), replace(LAST, paired=True)),
        (WINDOWS.reduce(max).union(WINDOWS.count()), LAST),
        (WINDOWS.count().to_records(), replace(LAST, item="window_end")),
        (TIMED.key_by("word").window(MINUTE, time="at").count(), replace(LAST, unit="us")),
    ],
)
def test_it_is_known_behind_what_keeps_records(stream: Any, expected: TimeSelector) -> None:
    assert time_of(stream.inputs, "window") == expected


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (
            TIMED.map(dict).key_by("word"),
            "window\\(\\) follows 'map', behind which it is not known",
        ),
        (TIMED.flat_map(list).filter(first), "window\\(\\) follows 'flat_map'"),
        (TIMED.map_batches(list).named("parse").key_by(0), "window\\(\\) follows 'parse'"),
        (TIMED.key_by("word").count(), "window\\(\\) follows 'count'"),
        (TIMED.key_by("word").window(CountWindow(3)).count(), "window\\(\\) follows 'count'"),
        (WINDOWS.count().map(list), "window\\(\\) follows 'map'"),
        (TIMED.map(dict, on_error="side").side("errors"), r"follows \"map.side\('errors'\)\""),
        (TIMED.union(TIMED.map(dict)), "window\\(\\) follows 'map'"),
        (words().with_event_time(first).to_columns(), "window\\(\\) follows 'to_columns'"),
        (words().key_by("word"), "window\\(\\) needs the time of each record.* 'collection'"),
        (words().map(dict), "window\\(\\) needs the time of each record"),
        (TIMED.union(words()), "window\\(\\) needs the time of each record.* 'collection'"),
        (
            TIMED.union(words().with_event_time("ts", unit="s")),
            r"times in item 'ts' \(ms\) and item 'ts' \(s\), expected one place",
        ),
    ],
)
def test_where_it_is_not_known_the_user_is_told_what_to_say(stream: Any, message: str) -> None:
    with pytest.raises(engine.GraphError, match=message) as caught:
        time_of(stream.inputs, "window")
    assert "hint: " in str(caught.value)
    given = time_of(stream.inputs, "window", "at", "s")
    assert given == TimeSelector("at", "s", paired=False)


def test_what_is_said_there_goes_first() -> None:
    assert time_of(TIMED.inputs, "window", 1) == TimeSelector(1, "us")
    paired = time_of(TIMED.map(dict).key_by(first).inputs, "window", "at", "s")
    assert paired == TimeSelector("at", "s", paired=True)
    assert paired.microseconds(("key", {"at": 2})) == 2_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"time": -1}, r"with_event_time\(\) got -1, expected an index >= 0"),
        ({"time": True}, r"with_event_time\(\) got True"),
        ({"time": 1.5}, r"with_event_time\(\) got float 1.5, expected an index >= 0, a field name"),
        ({"time": lambda: 1}, "expected a function of 1 argument"),
        ({"time": 0, "unit": "minutes"}, "got unit='minutes', expected one of 's', 'ms'"),
        ({"time": 0, "out_of_orderness": 5}, "out_of_orderness is 5, expected a timedelta"),
        ({"time": 0, "out_of_orderness": timedelta(-1)}, "expected at least 0:00:00"),
        (
            {"time": 0, "idle_after": timedelta(0)},
            "idle_after is datetime.timedelta.*, expected at least 0:00:00.001",
        ),
        ({"time": 0, "idle_after": "1 s"}, "idle_after is '1 s', expected a timedelta"),
        (
            {"time": 0, "max_jump": timedelta(-1)},
            "max_jump is datetime.timedelta.*, expected at least 0:00:00",
        ),
    ],
)
def test_nonsense_is_refused_where_it_is_said(arguments: Any, message: str) -> None:
    with pytest.raises(engine.GraphError, match=message):
        words().with_event_time(**arguments)


@pytest.mark.parametrize(
    "behind",
    [
        lambda: words().key_by("word").count(),
        lambda: words().key_by("word").count().filter(first).rebalance(),
        lambda: words().union(words().key_by(first).reduce(max)),
    ],
)
def test_watermarks_are_made_before_records_are_divided_by_key(
    behind: Callable[[], Stream[Any]],
) -> None:
    with pytest.raises(engine.GraphError, match=r"\.with_event_time\(\) follows \.key_by\(\)"):
        behind().with_event_time(1)


def test_a_keyed_stream_has_no_event_time_to_give() -> None:
    with pytest.raises(engine.GraphError, match=r"\.with_event_time\(\) follows \.key_by\(\)"):
        words().key_by("word").with_event_time("ts")  # type: ignore[attr-defined]
