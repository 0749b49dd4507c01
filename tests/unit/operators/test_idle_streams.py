"""Streams that bring nothing hold nobody up, where that was said; being held up is not idleness."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import engine
from engine.graph.watermark import START_OF_TIME
from engine.testing import run
from operators import (
    BatchFunction,
    BatchOperator,
    TaskContext,
    Watermark,
    source,
)
from operators.event_time import TimeSelector, WithEventTime
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.watermarks import SECOND, TellsWatermarks, Told, out

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_a_stream_without_records_is_idle_and_holds_nobody_up() -> None:
    """The first input brings a record, none for 20 s, then more."""

    def slow() -> Iterator[Any]:
        yield from ([("a", time)] for time in (4, 50, 60))

    def fast() -> Iterator[Any]:
        yield from ([("b", time)] for time in range(10, 40))

    def watermarks(idle_after: timedelta | None) -> list[Any]:
        both = [
            source(Function(given, rate=rate)).with_event_time(1, idle_after=idle_after)
            for given, rate in ((slow, 1 / 20), (fast, 1))
        ]
        told = out(both[0].union(both[1]).then(Told()), batch_size=20)
        return [time for name, time in told if name == "W"]

    meanwhile = range(4, 29)
    assert not set(meanwhile) & set(watermarks(None))
    assert set(meanwhile) & set(watermarks(timedelta(seconds=5.5))) == set(range(14, 29))


def test_a_stream_that_never_had_a_record_is_idle_too() -> None:
    def given(context: TaskContext) -> Iterator[Any]:
        if context.index == 0:
            yield from (("a", time) for time in range(1, 20))
        else:
            yield [("b", 0)]
            yield [("b", 0)] * 100
            yield ("b", 0)

    words = source(Function(given, rate=2))
    empty = words.filter(lambda pair: pair[0] == "a").with_event_time(1, idle_after=5.5 * SECOND)
    told = out(empty.rebalance().then(Told()).with_parallelism(1), parallelism=2, batch_size=100)
    assert [time for name, time in told if name == "W"][:3] == [5, 6, 7]


def test_when_all_are_idle_time_goes_on_to_the_last_of_them() -> None:
    def given(context: TaskContext) -> Iterator[Any]:
        yield ("a", 10 * (1 + context.index))
        yield ("a", 99)

    words = source(Function(given, rate=0.2)).with_event_time(1, idle_after=2 * SECOND)
    told = out(words.rebalance().then(Told()).with_parallelism(1), parallelism=2, batch_size=20)
    assert [pair for pair in told if pair[0] == "W"][:2] == [("W", 9), ("W", 19)]


class Clock:
    """A clock that a test sets."""

    now_ns = 0

    def open(self, operator: BatchOperator) -> BatchFunction:
        """The function of a task that has this clock."""
        return operator.open(TaskContext("task[0]", 0, 1, 100, "job", now_ns=lambda: self.now_ns))


def test_the_wait_for_others_is_no_idleness() -> None:
    clock = Clock()
    function = clock.open(WithEventTime(TimeSelector(), idle_after=10 * SECOND))
    for _ in range(3):
        function.process([7])
        function.watermark = None
        clock.now_ns += 3600 * 10**9  # the task is held up, and all its timers are overdue
        function.on_timer(clock.now_ns)
        assert function.watermark is None
    for _ in range(3):  # they are called again and again, and the next record is there
        clock.now_ns += 10**9
        function.on_timer(clock.now_ns)
        assert function.watermark is None
    assert function.next_timer is not None
    clock.now_ns = function.next_timer
    function.on_timer(clock.now_ns)
    assert function.watermark == Watermark(None)
    assert function.next_timer is None
    function.process([3])
    assert function.watermark == Watermark(6), "all are told that it goes on, though time does not"


def test_a_stream_that_wakes_before_it_had_a_time_says_so() -> None:
    clock = Clock()
    function = clock.open(WithEventTime(TimeSelector(), idle_after=10 * SECOND))
    for clock.now_ns in (5 * 10**9, 10 * 10**9):
        assert function.next_timer == clock.now_ns
        function.on_timer(clock.now_ns)
    assert function.watermark == Watermark(None)
    function.process([2**70])
    assert function.watermark == Watermark(START_OF_TIME)
    assert function.metrics() == {"disbelieved_times": 1}


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda words: words.union(words.map(lambda word: word)), "united"),
        (lambda words: words.rebalance(), "dealt out"),
        (lambda words: words.map(str).with_parallelism(3), "in other tasks"),
    ],
)
def test_idleness_is_that_of_a_source(read: Callable[[Any], Any], why: str) -> None:
    stream = read(source(Collection(["a"]))).with_event_time(None, idle_after=SECOND)
    with pytest.raises(engine.GraphError, match="'with_event_time' reads over channels") as caught:
        run(stream.sink(Collect()))
    assert "right behind the source" in str(caught.value), why
    run(read(source(Collection([1]))).map(int).with_event_time(None).sink(Collect()))


went_on = threading.Event()


class GoesOn(Told):
    """Says that time has come to 99."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _GoesOn("W")


class _GoesOn(TellsWatermarks):
    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        if watermark_us == 99:
            went_on.set()
        return ()


def silent() -> Iterator[Any]:
    yield ("a", 1)
    yield ("a", 2) if went_on.wait(60) else ("never", 2)


def busy() -> Iterator[Any]:
    yield ("b", 100)
    yield ("b", 101) if went_on.wait(60) else ("never", 101)


def test_a_source_that_blocks_is_idle() -> None:
    went_on.clear()
    idle = source(Function(silent)).with_event_time(1, idle_after=timedelta(milliseconds=20))
    both = idle.union(source(Function(busy)).with_event_time(1)).then(GoesOn())
    found = run(both.sink(Collect()))["collect"]
    assert sorted(found) == [("a", 1), ("a", 2), ("b", 100), ("b", 101)]
