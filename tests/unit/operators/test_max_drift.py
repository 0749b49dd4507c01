"""max_drift: a source that is ahead of others in event time waits for them, itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.checkpoint import CheckpointLog, open_storage
from engine.graph import TaskContext
from engine.graph.watermark import Watermark
from engine.job import JobHandle
from engine.plan import Plan
from engine.task.drift import Drift
from engine.testing import VirtualClock, run
from engine.testing.threads import ThreadLauncher
from operators import Pipeline, Stream, Tumbling, source
from operators.event_time import TimeSelector, WithEventTime
from operators.sinks import Collect, Discard
from operators.sources import Collection, Function
from tests.halves import Halves, run_half, run_rest
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")

SECOND = timedelta(seconds=1)

# What threads of a job and the test share: they know this module by its name.
AT: dict[str, int] = {}
"""How far each source has come."""
AHEAD: list[int] = []
"""How far the fast one was ahead of the slow one."""
GO = threading.Event()


@pytest.fixture(autouse=True)
def anew() -> None:
    AT.clear()
    AHEAD.clear()
    GO.clear()


def slow(_: TaskContext) -> Iterator[Any]:
    for step in range(100):
        time.sleep(0.001)
        yield [("slow", step)]


def fast(_: TaskContext) -> Iterator[Any]:
    for step in range(5, 400):
        yield [("fast", step)]


def silent(_: TaskContext) -> Iterator[Any]:
    yield [("silent", 1)]
    if not GO.wait(60):
        raise TimeoutError("nobody went on without it")


def look(record: Any) -> Any:
    name, at = record
    if name == "fast" and AT.get("slow", -1) < 99:
        AHEAD.append(at - AT.get("slow", 0))
    AT[name] = at
    return record


def read(function: Any, drift: int = 20, **settings: Any) -> Stream[Any]:
    """A source of one task; what comes of it is looked at in the task."""
    stream = source(Function(function)).with_parallelism(1).named(function.__name__)
    return stream.with_event_time(1, unit="s", max_drift=drift * SECOND, **settings).map(look)


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("drift", [3, 20])
def test_a_source_that_is_ahead_waits(windows: bool, drift: int) -> None:
    both = read(slow, drift).union(read(fast, drift))
    if windows:
        windowed = both.key_by(0).window(Tumbling(10 * SECOND), time=1, unit="s")
        counts = windowed.apply(lambda k, r, s, e: (k, len(r)))
        both = counts.map(lambda result: result[1])
    out = run(both.sink(Collect()), batch_size=1)["collect"]
    assert AT == {"slow": 99, "fast": 399}
    assert len(out) == 50 if windows else len(out) == 495
    assert AHEAD
    # The batch that is too far ahead is the last; and the slow one tells before it is looked at.
    assert max(AHEAD[1:]) <= drift + 2


def test_processes_wait_for_each_other() -> None:
    result = engine.execute(
        read(slow).union(read(fast)).sink(Collect()), progress="none", batch_size=1
    )
    assert len(result.output) == 495
    operators = {each.name: each for each in result.statistics.operators}
    assert operators["fast"].idle == 0


def test_without_a_drift_nobody_waits() -> None:
    free = source(Function(fast)).with_parallelism(1).with_event_time(1, unit="s").map(look)
    both = read(silent).union(free.map(_let_go_at_the_end))
    run(both.sink(Discard()), batch_size=1)
    assert AT["fast"] == 399


def test_time_that_is_a_tests_own_makes_nobody_wait() -> None:
    paced = source(Collection([("paced", n) for n in range(10)], rate=1 / 3600))
    both = paced.with_event_time(1, unit="s", max_drift=SECOND).union(read(fast))
    out = run(both.sink(Collect()), clock=VirtualClock(), batch_size=1, parallelism=1)["collect"]
    assert len(out) == 405


def test_who_is_idle_holds_up_nobody() -> None:
    idle = read(silent, idle_after=timedelta(milliseconds=20)).filter(_let_go_at_the_end)
    last = read(fast).map(_let_go_at_the_end)
    run(idle.union(last).sink(Discard()), batch_size=1)
    assert AT["fast"] == 399


def _let_go_at_the_end(record: Any) -> Any:
    if record == ("fast", 399):
        GO.set()
    return record


def test_who_has_ended_holds_up_nobody() -> None:
    few = source(Collection([("few", 1)])).with_parallelism(1)
    timed = few.with_event_time(1, unit="s", max_drift=20 * SECOND)
    run(timed.union(read(fast)).sink(Discard()), batch_size=1)
    assert AT["fast"] == 399


def handle(pipeline: Pipeline) -> JobHandle:
    config = engine.JobConfig(name="held", progress="none", batch_size=1)
    return JobHandle(Plan.of(pipeline, config), ThreadLauncher(None))


def is_held(job: JobHandle) -> bool:
    """Whether the fast source has waited most of its time; it is never idle."""
    (held,) = (each for each in job.statistics().operators if each.name == "fast")
    assert held.idle == 0
    return held.waiting > held.busy


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_who_had_ended_before_the_checkpoint_holds_up_nobody(tmp_path: Path, tasks: int) -> None:
    ended: Collection[Any] = Collection([])
    halves = Halves([("a", second) for second in range(100)], 31)

    def job() -> Any:
        both = [
            source(each).with_event_time(1, unit="s", max_drift=10 * SECOND)
            for each in (ended, halves)
        ]
        return (
            both[0].union(both[1]).key_by(0).window(Tumbling(50 * SECOND)).count().sink(Collect())
        )

    run_half(job(), tmp_path, halves, parallelism=2)
    kept = CheckpointLog(open_storage(tmp_path)).find("half")
    assert {task.finished for task in kept.tasks} == {True, False}
    out = run_rest(job(), tmp_path, parallelism=tasks)["collect"]
    assert out == [("a", 50, 0, 50), ("a", 50, 50, 100)]


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_a_job_ends_whose_source_waits(how: str) -> None:
    job = handle(read(silent).union(read(fast)).sink(Collect()))
    wait_until(lambda: AT.get("fast", 0) >= 22)
    wait_until(lambda: is_held(job))
    assert AT["fast"] == 22, "its watermark is a microsecond less than its time"
    getattr(job, how)()
    GO.set()
    if how == "stop":
        out = job.wait_finished().outputs["collect"]
        assert sorted(out)[-1] == ("silent", 1)
        assert AT["fast"] == len(out) + 3 == 22, "it ends behind the batch that it is at"
    else:
        with pytest.raises(engine.JobCancelled):
            job.wait_finished()
    job.wait_stopped()
    assert AT["fast"] <= 23


def test_one_that_waits_is_not_idle() -> None:
    """Its own clock of idleness stands still while it is held, and begins anew behind."""

    class Clock:
        now_ns = 0

    clock, drift = Clock(), Drift(20)
    context = TaskContext(*("task[0]", 0, 1, 100, "job"), now_ns=lambda: clock.now_ns, drift=drift)
    operator = WithEventTime(TimeSelector(), idle_after=10 * SECOND, max_drift=20 * SECOND)
    function = operator.open(context)
    function.process([7])
    function.watermark = None
    assert drift.is_ahead
    drift.is_held = True
    drift.wait(0)
    for clock.now_ns in range(5 * 10**9, 100 * 10**9, 10**9):
        if function.next_timer is not None and function.next_timer <= clock.now_ns:
            function.next_timer = None
            function.on_timer(clock.now_ns)
            assert function.watermark is None
    drift.is_held = False
    due = []
    while function.watermark is None:
        assert function.next_timer is not None
        clock.now_ns = function.next_timer
        due.append(clock.now_ns)
        function.on_timer(clock.now_ns)
    assert function.watermark == Watermark(None)
    assert due[-1] >= 109 * 10**9
    assert not drift.is_ahead, "who is idle is not ahead"


def test_the_order_of_several_waits_is_no_deadlock() -> None:
    """Streams that part and meet again: channels are never held, so nothing waits in a circle."""
    one, two = read(slow, 3), read(fast, 3)
    windowed = one.union(two).key_by(0).window(Tumbling(SECOND), time=1, unit="s")
    met = windowed.apply(lambda k, r, s, e: (k, s))
    windows = met.map(lambda result: result[1])
    again = windows.union(one.rebalance(), two.rebalance()).key_by(0)
    joined = again.map_batches(lambda batch: batch)
    out = run(joined.sink(Collect()), batch_size=1, parallelism=2)["collect"]
    assert len(out) == 2 * 495


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("1 s", "max_drift is '1 s', expected a timedelta"),
        (timedelta(0), "max_drift is .*, expected at least 0:00:00.001"),
    ],
)
def test_what_is_no_drift_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(engine.GraphError, match=message):
        source(Collection([1])).with_event_time(None, max_drift=wrong)


def test_it_stands_beside_its_source() -> None:
    words = source(Collection([1])).rebalance()
    stream = words.with_event_time(None, max_drift=SECOND)
    with pytest.raises(engine.GraphError, match="tells whether that is idle, or holds it"):
        run(stream.sink(Discard()), parallelism=2)
