"""Batches of columns are looked at together for their times; what is told of them is the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from operators import BatchFunction, TaskContext, Watermark
from operators.event_time import TimeSelector, WithEventTime


class Opened:
    """A function that makes watermarks, on a clock that a test sets."""

    def __init__(self, late: timedelta = timedelta(0), **declared: Any) -> None:
        self.now_ns = 0
        context = TaskContext("task[0]", 0, 1, 100, "job", now_ns=lambda: self.now_ns)
        operator = WithEventTime(TimeSelector("at", "us"), late, **declared)
        self.function: BatchFunction = operator.open(context)

    def told(self) -> Any:
        """The watermark that was made since, and what the timer makes when it is due."""
        watermark, self.function.watermark = self.function.watermark, None
        return watermark


def column(*times: Any, kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(times, kind or pa.int64())], names=["at"])


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.timestamp("us"), pa.float64(), pa.float32(), pa.uint32()]
)
def test_the_highest_of_all_batches_in_between_counts(kind: pa.DataType) -> None:
    opened = Opened()
    for times in ([5], [90, 20], [30], [40]):
        opened.function.process(column(*times, kind=kind))
    assert opened.told() == Watermark(4), "the first batch is looked at when it comes"
    assert opened.function.next_timer is not None
    opened.now_ns = opened.function.next_timer
    opened.function.on_timer(opened.now_ns)
    assert opened.told() == Watermark(89)
    assert opened.function.next_timer is None


def test_batches_of_several_schemas_are_looked_at_one_by_one() -> None:
    opened = Opened()
    others = pa.record_batch({"more": ["x"], "at": [70]})
    for batch in (column(5), column(60), others, column(10)):
        opened.function.process(batch)
    opened.now_ns = 10**9
    opened.function.process(column(20))
    assert opened.told() == Watermark(69)


def test_a_time_that_is_too_far_ahead_is_not_believed_among_others() -> None:
    opened = Opened(max_jump=timedelta(microseconds=50))
    for time in (5, 30, 10**15, 40):
        opened.function.process(column(time))
    opened.now_ns = 10**9
    opened.function.process(column(41))
    assert opened.told() == Watermark(40)
    assert opened.function.metrics() == {"disbelieved_times": 1}


def test_what_waits_is_in_a_snapshot() -> None:
    opened, other = Opened(), Opened()
    for time in (5, 80):
        opened.function.process(column(time))
    state = opened.function.snapshot()
    assert state is not None
    other.function.restore(state)
    other.function.process(column(7))
    assert other.told() == Watermark(79)


def test_a_batch_without_times_is_refused_though_nobody_waited_for_them() -> None:
    opened = Opened()
    opened.function.process(column(5))
    opened.function.process(column(None))
    with pytest.raises(ValueError, match="has none in 1 of 1 rows"):
        list(opened.function.on_end())


@pytest.mark.parametrize(
    ("kind", "times", "told"),
    [
        *(
            (kind, [5, far], "the column 'at' of times has none in 1 of 2 rows, expected one")
            for kind in (pa.float32(), pa.float64())
            for far in (float("inf"), float("-inf"), float("nan"), None)
        ),
        (pa.float16(), [5, 6], "the column 'at' of times is of type halffloat, expected numbers"),
    ],
)
def test_floats_that_are_no_times_are_refused(kind: Any, times: list[Any], told: str) -> None:
    opened = Opened()
    with pytest.raises(ValueError, match=told) as caught:
        opened.function.process(column(*times, kind=kind))
    assert "\n\nhint: " in str(caught.value)
