"""A source's loop on a clock of the test's: what leaves when, and which moments markers tell."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.source import SourceOperator
from engine.graph.watermark import Watermark
from engine.network import Control
from engine.task.chain import Chain
from engine.task.clock import SystemClock
from engine.task.source.loop import SourceLoop
from engine.task.source.reading import Position
from engine.task.timers import Timers
from engine.task.window import SteadyWindow
from operators.sources import At, Collection, Function

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
        restored: Mapping[int, Position] | None = None,
        stop_at: int | None = None,
        ask_at: int | None = None,
    ) -> None:
        has_barriers = barriers_at is not None or restored is not None
        self.at_barrier: Mapping[int, Position] | None = None
        """Where it would go on behind a barrier that came when so many records had left."""
        self.clock = LoneClock()
        self.left: list[tuple[float, Any]] = []
        self.markers: list[list[float]] = []
        self.controls: list[Control] = []
        self.loop = SourceLoop(source, Chain(), interval, self.clock, has_barriers=has_barriers)
        if restored:
            self.loop.restore(restored, 1)
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
            if len(self.left) == ask_at:
                self.loop.begin_epoch(1, is_last=True)
            if stop_at is not None and stop_at == sum(len(each) for _, each in self.left):
                self.clock.wakes = [partial(self.loop.begin_epoch, 1)]

        context = TaskContext("t[0]", 0, parallelism, batch_size, "job")
        timers = Timers(self.loop._chain, self.clock, list)
        self.window = window = SteadyWindow(
            warmup, self.clock, lambda: (self.loop.records, 0), list
        )
        self.barriers: list[tuple[float, int | None]] = []

        def pass_on(control: Control) -> None:
            self.controls.append(control)
            self.barriers.append(((self.clock.now - start) / MS, control.epoch))
            if stop_at is not None and control.epoch is not None:
                self.at_barrier = self.loop.positions
                self.clock.wakes = [self.loop.end]
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
    assert [at for at, _ in run.left] == [0, 20, 40, 60]


def lists(position: int | None = None) -> Iterator[At]:
    """Lists that are longer than a batch, and one that is empty."""
    for start, end in ((0, 7), (7, 7), (7, 12)):
        if start >= (position or 0):
            yield At(end, list(range(start, end)))


class Own(SourceOperator[Any]):
    """A source of one's own that knows of no batch size."""

    @property
    def properties(self) -> Properties:
        return Properties(rate=100)

    def open(self, context: TaskContext) -> Iterator[Any]:
        yield [0, 1, 2]
        yield Watermark(2)
        yield 3
        yield list(range(4, 12))


TWELVE = {
    "records": Collection(range(12), rate=100),
    "columns": Collection([pa.RecordBatch.from_pydict({"n": list(range(12))})], rate=100),
    "lists": Function(lambda _, position: lists(position), rate=100),
    "single": Function(lambda: iter(range(12)), rate=100),
    "own": Own(),
}


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("of", TWELVE)
def test_each_record_leaves_when_it_is_due_whatever_batch_it_is_in(of: str, size: int) -> None:
    run = Run(TWELVE[of], batch_size=size, interval=3)
    flat = [(at, n) for at, out in run.left for n in numbers(out)]
    assert flat == [(10 * n, n) for n in range(12)]
    assert [stamp for stamps in run.markers for stamp in stamps] == [20, 50, 80, 110]


def test_what_is_due_by_now_leaves_in_one_batch() -> None:
    run = Run(Collection(range(12), rate=100), batch_size=10, takes_ms=(35,))
    assert run.left[:3] == [(0, [0]), (35, [1, 2, 3]), (40, [4])]
    run = Run(Collection(range(2000), rate=10_000), batch_size=1000)
    assert {len(out) for _, out in run.left} == {2}, "two are due within 250 µs"
    assert run.left[:2] == [(0.1, [0, 1]), (0.3, [2, 3])]


@pytest.mark.parametrize("again", [1, 4, 1000])
@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("of", ["records", "columns", "lists"])
def test_a_source_goes_on_in_the_middle_of_a_batch(of: str, size: int, again: int) -> None:
    """Behind any record, with batches of another size, and once more in what it went on with."""
    for cuts in ((1, 1), (3, 2), (6, 5), (7, 1), (11, 1)):
        left: list[Any] = []
        positions: Mapping[int, Position] = {}
        for count in (*cuts, 12):
            run = Run(TWELVE[of], size if not left else again, restored=positions, stop_at=count)
            left += [n for _, out in run.left for n in numbers(out)]
            positions = run.loop.positions if run.at_barrier is None else run.at_barrier
        assert left == list(range(12)), cuts


def numbers(out: Any) -> list[int]:
    return out if isinstance(out, list) else out["n"].to_pylist()


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
    assert len(run.left) == 1


@pytest.mark.parametrize(
    "source", [Collection(range(4)), Function(lambda _, position: lists(position))]
)
def test_nothing_leaves_behind_the_last_barrier_without_a_rate(source: SourceOperator[Any]) -> None:
    """Whether its own thread or another reads the source."""
    run = Run(source, barriers_at=(), last=1, behind_last=lambda run: run.loop.end(), ask_at=2)
    assert [len(out) for _, out in run.left] == [1, 1]
    assert [epoch for _, epoch in run.barriers] == [1]


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
