"""Latencies are from the source to the sink, whatever is chained to what and holds records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from engine.config import JobConfig
from engine.deployment.description import OperatorStatistics, TaskStatistics, Window
from engine.graph.context import TaskContext
from engine.job import JobHandle
from engine.network import LatencyHistogram
from engine.plan import Plan
from engine.report.result import JobResult
from engine.report.statistics import JobStatistics
from engine.testing.threads import ThreadLauncher
from operators import Stream, source
from operators.map_async import MapAsync
from operators.sinks import Callback, Discard
from operators.sources import Collection, Function
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")

SLOW = 0.04
COUNT = 6


def slow(n: int) -> int:
    time.sleep(SLOW)
    return n


async def slow_call(n: int) -> int:
    await asyncio.sleep(SLOW)
    return n


async def slow_calls(batch: list[int]) -> list[int]:
    await asyncio.sleep(SLOW)
    return batch


async def failing_call(n: int) -> int:
    await asyncio.sleep(SLOW)
    raise ValueError(n)


def numbers() -> Iterator[int]:
    yield from range(COUNT)


SOURCES: dict[str, Callable[[], Any]] = {
    "collection": lambda: Collection(range(COUNT)),
    "rate": lambda: Collection(range(COUNT), rate=1000),
    "function": lambda: Function(numbers),
}
STEPS: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "map": lambda stream: stream.map(slow),
    "map_async": lambda stream: stream.map_async(slow_call),
    "unordered": lambda stream: stream.map_async(slow_call, ordered=False),
    "batches": lambda stream: stream.map_batches_async(slow_calls, max_records=2),
    "skipped": lambda stream: stream.map_async(failing_call, on_error="skip"),
    "twice": lambda stream: stream.map_async(slow_call).map(slow),
}
SHAPES: dict[str, Callable[[Stream[Any], Callable[[Stream[Any]], Stream[Any]]], Stream[Any]]] = {
    "one task": lambda stream, step: step(stream),
    "before a channel": lambda stream, step: step(stream).rebalance(),
    "behind a channel": lambda stream, step: step(stream.rebalance()),
}


def finished(stream: Any) -> JobResult:
    config = JobConfig(progress="none", batch_size=2, marker_interval=1)
    handle = JobHandle(Plan.of(stream, config), ThreadLauncher())
    try:
        return handle.wait_finished()
    finally:
        handle.cancel()
        handle.wait_stopped()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("of", SOURCES)
def test_what_holds_records_is_part_of_their_latency(of: str, step: str, shape: str) -> None:
    result = finished(SHAPES[shape](source(SOURCES[of]()), STEPS[step]).sink(Discard()))
    times = 2 if step == "twice" else 1
    assert result.latency.count == COUNT
    assert result.latency.p50 >= 0.999 * times * SLOW * 1e6


@pytest.mark.parametrize("of", SOURCES)
def test_so_is_the_sink(of: str) -> None:
    result = finished(source(SOURCES[of]()).sink(Callback(slow)))
    assert result.latency.count == COUNT
    assert result.latency.p50 >= 0.999 * SLOW * 1e6


@pytest.mark.parametrize("ordered", [True, False])
def test_markers_leave_with_the_result_of_their_record(ordered: bool) -> None:
    gates = {n: asyncio.Event() for n in range(4)}
    loops = []

    async def gated(n: int) -> int:
        loops.append(asyncio.get_running_loop())
        await gates[n].wait()
        return n

    function = MapAsync(gated, ordered=ordered).open(TaskContext("t[0]", 0, 1, 10, "job"))
    left: list[tuple[list[int], list[int]]] = []

    def look() -> bool:
        for out in function.on_timer(0) or ():
            left.append((out, function.hold_markers([])))
        return bool(left)

    def done(n: int) -> list[tuple[list[int], list[int]]]:
        left.clear()
        loops[0].call_soon_threadsafe(gates[n].set)
        wait_until(look)
        return list(left)

    try:
        for batch, stamps in (([0, 1], [10]), ([2], []), ([3], [30, 31])):
            assert function.process(batch) == []
            assert function.hold_markers(stamps) == []
        wait_until(lambda: len(loops) == 4)
        if not ordered:
            assert done(3) == [([3], [30, 31])]
        assert done(0) == [([0], [])]
        assert done(1) == [([1], [10])]
        assert done(2) == [([2], [])]
        if ordered:
            assert done(3) == [([3], [30, 31])]
        assert function.hold_markers([40]) == [40], "nothing is under way"
    finally:
        function.close()


def task(vertex: str, seconds: float, blocked: float, busy: float) -> TaskStatistics:
    return TaskStatistics(
        vertex=vertex,
        index=0,
        operators=(OperatorStatistics(vertex, 100, 100),),
        elapsed_seconds=seconds,
        busy_seconds=busy,
        waiting_seconds=0.0,
        idle_seconds=seconds - blocked - busy,
        blocked_seconds=blocked,
        source_window=None,
        sink_window=Window(0, 1, 100, 100) if vertex == "sink" else None,
        latency=LatencyHistogram().to_bytes() if vertex == "sink" else None,
    )


def test_an_idle_job_shows_no_backpressure_of_before() -> None:
    before = [task("map", 10, 8, 1), task("sink", 10, 0, 9)]
    idle = [task("map", 20, 8, 1), task("sink", 20, 0, 9)]
    assert JobStatistics.of(idle).bottleneck == "sink"
    recent = JobStatistics.of(idle, before)
    assert recent.bottleneck is None
    assert [each.idle for each in recent.operators] == [1, 1]
    assert (recent.elapsed_seconds, recent.records) == (20, 100)
    again = [replace(each, elapsed_seconds=5.0) for each in before]  # behind a restart
    assert JobStatistics.of(again, before).operators == JobStatistics.of(again).operators
