"""A source's loop on a clock of the test's: what leaves when, and which moments markers tell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine.graph.operator import SourceOperator, TaskContext
from engine.network import Control
from engine.runtime.chain import Chain
from engine.runtime.clock import SystemClock
from engine.runtime.source import SourceLoop
from engine.runtime.timers import Timers
from engine.runtime.window import SteadyWindow
from operators.sources import Collection

MS = 1_000_000


class LoneClock(SystemClock):
    """Stands still but for those who wait, and what the test adds."""

    is_virtual = True

    def __init__(self) -> None:
        self.now = 5_000 * MS
        self.waits: list[float] = []
        self.wakes: list[Callable[[], None]] = []
        """Each is called while somebody waits, half of the time."""

    def now_ns(self) -> int:  # type: ignore[override]
        return self.now

    def wait(self, seconds: float, event: threading.Event, exact_seconds: float) -> None:
        self.waits.append(seconds)
        if self.wakes and seconds >= exact_seconds:
            seconds /= 2
            self.wakes.pop(0)()
            assert event.is_set()
        else:
            assert not event.is_set()
        self.now += round(seconds * 1e9)


class Run:
    """What left a source, when, and its markers; `takes_ms` is how long each batch is held up."""

    def __init__(
        self,
        source: SourceOperator[Any],
        batch_size: int = 1,
        interval: int = 1,
        parallelism: int = 1,
        takes_ms: tuple[int, ...] = (),
        end_at: int | None = None,
        hurry: bool = False,
        warmup: float = 0.0,
        barriers_at: tuple[int, ...] | None = None,
        last: int = 0,
        behind_last: Callable[[Run], None] | None = None,
    ) -> None:
        self.clock = LoneClock()
        self.left: list[tuple[float, Any]] = []
        self.markers: list[list[float]] = []
        self.controls: list[Control] = []
        self.loop = SourceLoop(
            source, Chain(), interval, self.clock, has_barriers=barriers_at is not None
        )
        self.clock.wakes = [
            partial(self.loop.begin_epoch, at, at == last) for at in barriers_at or ()
        ]
        if hurry:
            self.loop.hurry()
        start, takes = self.clock.now, list(takes_ms)

        def deliver(out: Any, stamps: list[int] | None = None) -> None:
            self.left.append(((self.clock.now - start) / MS, out))
            self.markers.append([(stamp - start) / MS for stamp in stamps or []])
            self.clock.now += (takes.pop(0) if takes else 0) * MS
            if len(self.left) == end_at:
                self.loop.end()

        context = TaskContext("t[0]", 0, parallelism, batch_size, "job")
        timers = Timers(self.loop._chain, self.clock, list)
        self.window = window = SteadyWindow(
            warmup, self.clock, lambda: (self.loop.records, 0), list
        )
        self.barriers: list[tuple[float, int | None]] = []

        def pass_on(control: Control) -> None:
            self.controls.append(control)
            self.barriers.append(((self.clock.now - start) / MS, control.epoch))
            if behind_last is not None and control.epoch == last:
                threading.Timer(0.3, behind_last, (self,)).start()

        self.loop.run(context, deliver, window, timers, pass_on)


def test_batches_leave_when_the_rate_intends() -> None:
    run = Run(Collection(range(4), rate=100))
    assert run.left == [(0, [0]), (10, [1]), (20, [2]), (30, [3])]
    assert run.markers == [[0], [10], [20], [30]]
    assert run.clock.waits == pytest.approx([0.01] * 3)
    assert (run.loop.records, run.loop.waited_seconds) == (4, pytest.approx(0.03))


def test_the_tasks_of_a_source_share_its_rate() -> None:
    run = Run(Collection(range(8), rate=100), batch_size=2, parallelism=2)
    assert [at for at, _ in run.left] == [0, 40]


def test_what_is_late_leaves_at_once_and_its_marker_says_when_it_was_due() -> None:
    run = Run(Collection(range(5), rate=100), takes_ms=(35,))
    assert [at for at, _ in run.left] == [0, 35, 35, 35, 40]
    assert run.markers == [[0], [10], [20], [30], [40]]


def test_batches_that_are_due_soon_leave_together() -> None:
    run = Run(Collection(range(200), rate=1_000_000))
    assert min(run.clock.waits) >= 50e-6
    assert len(run.clock.waits) == 4
    assert run.loop.records == 200


def test_markers_come_once_for_so_many_records() -> None:
    run = Run(Collection(range(25)), batch_size=4, interval=10)
    assert [len(stamps) for stamps in run.markers] == [0, 0, 1, 0, 1, 0, 0]
    assert run.loop.records == 25
    assert [len(stamps) for stamps in Run(Collection(range(35)), 35, 10).markers] == [3]
    assert run.clock.waits == []


@pytest.mark.parametrize("rate", [None, 100])
def test_a_source_that_is_ended_emits_no_more(rate: float | None) -> None:
    run = Run(Collection(range(10), rate=rate), end_at=3)
    assert [out for _, out in run.left] == [[0], [1], [2]]
    assert run.loop.records == 3


def test_a_barrier_ends_a_wait_and_leaves_at_once() -> None:
    run = Run(Collection(range(4), rate=100), barriers_at=(1, 2, 3))
    assert run.left == [(0, [0]), (10, [1]), (20, [2]), (30, [3])]
    assert run.barriers == [(5, 1), (7.5, 2), (8.75, 3)]
    assert run.loop.waited_seconds == pytest.approx(0.03)
    run = Run(Collection(range(4), rate=2000), barriers_at=(1,))
    assert run.barriers == [], "short waits are exact"
    assert len(run.clock.waits) == 3


def test_nothing_leaves_behind_the_last_barrier() -> None:
    """Until the job is over, or that epoch could not be kept and another is asked for."""
    left_by_then: list[int] = []

    def another(run: Run) -> None:
        left_by_then.append(len(run.left))
        run.loop.begin_epoch(2)

    def end(run: Run) -> None:
        left_by_then.append(len(run.left))
        run.loop.end()

    source = Collection(range(4), rate=100)
    run = Run(source, barriers_at=(1,), last=1, behind_last=another)
    assert [out for _, out in run.left] == [[0], [1], [2], [3]]
    assert [epoch for _, epoch in run.barriers] == [1, 2]
    run = Run(source, barriers_at=(1,), last=1, behind_last=end)
    assert [epoch for _, epoch in run.barriers] == [1]
    assert left_by_then == [1, 1]


def test_in_a_hurry_no_moment_is_waited_for() -> None:
    run = Run(Collection(range(3), rate=0.001), hurry=True)
    assert run.left == [(0, [0]), (0, [1]), (0, [2])]


@pytest.mark.parametrize("rate", [100, None])
def test_the_window_begins_with_a_marker_behind_the_warm_up(rate: float | None) -> None:
    run = Run(Collection(range(40), rate=rate), interval=10, warmup=0.15, takes_ms=(10,) * 40)
    run.window.end()
    bounds = run.window.bounds()
    assert bounds is not None
    assert bounds.records_in == 40 - 20  # the second marker is the first behind 150 ms
    assert bounds.last_ns - bounds.first_ns == 200 * MS
    run = Run(Collection(range(40), rate=rate), interval=10, warmup=5.0)
    run.window.end()
    assert (bounds := run.window.bounds()) is not None
    assert bounds.records_in == 40
