"""Timers alone: a scripted gate, a clock of the test's, and what happened in which order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.graph.logical import LogicalOperator
from engine.task.chain import Chain
from engine.task.clock import SystemClock
from engine.task.source.prefetch import Prefetch
from engine.task.timers import Timers
from engine.testing.virtual_clock import VirtualClock
from tests.waiting import wait_until

SECOND = 1_000_000_000


class Every(BatchOperator):
    """A timer that is due at these times, one after another."""

    def __init__(self, *times: int) -> None:
        self.times = times

    def open(self, context: TaskContext) -> BatchFunction:
        return _Every([*self.times])


class _Every(BatchFunction):
    def __init__(self, times: list[int]) -> None:
        self._times = times
        self.next_timer = times.pop(0) if times else None

    def process(self, batch: list[Any]) -> list[Any]:
        return batch

    def on_timer(self, now_ns: int) -> Iterable[list[Any]]:
        assert self.next_timer is None
        self.next_timer = self._times.pop(0) if self._times else None
        return [[now_ns]]


class Gate(SystemClock):
    """Elements that arrive at these times, and the clock that they arrive by."""

    def __init__(self, *arrivals: int) -> None:
        self.now = 0
        self.arrivals = [*arrivals]
        self.wakes: list[Callable[[], None]] = []
        """Each is called while somebody waits, and ends that."""

    def now_ns(self) -> int:  # type: ignore[override]
        return self.now

    def receive(self, seconds: float | None = None) -> str | None:
        until = None if seconds is None else self.now + round(seconds * 1e9)
        if self.wakes:
            self.wakes.pop(0)()
            raise InterruptedError
        if not self.arrivals and until is None:
            return None
        if until is not None and (not self.arrivals or self.arrivals[0] > until):
            self.now = until
            raise TimeoutError
        self.now = max(self.now, self.arrivals.pop(0))
        return f"at {self.now // SECOND}"


def happened(gate: Gate, *operators: BatchOperator, chain: Chain | None = None) -> list[Any]:
    chain = chain or Chain()
    declared = [
        LogicalOperator(at, f"operator-{at}", operator, None, {})
        for at, operator in enumerate(operators)
    ]
    chain.open(declared, TaskContext("t[0]", 0, 1, 1, "job"), encoded=False)
    found: list[Any] = []

    def emit(given: Iterator[list[int]]) -> None:
        found.extend(now // SECOND for out in given for now in out)

    receive = Timers(chain, gate, emit).around(gate.receive)
    found.extend(iter(receive, None))
    return found


def test_a_timer_is_called_between_two_elements_and_behind_the_last() -> None:
    gate = Gate(1 * SECOND, 4 * SECOND)
    assert happened(gate, Every(3 * SECOND, 6 * SECOND)) == ["at 1", 3, "at 4", 6]


def test_timers_that_are_due_together_are_called_in_the_order_of_operators() -> None:
    gate = Gate(4 * SECOND)
    timers = [Every(2 * SECOND), Every(1 * SECOND, 2 * SECOND)]
    assert happened(gate, *timers) == [1, 2, 2, "at 4"]


def test_elements_that_are_there_come_between_timers_that_are_due() -> None:
    found = happened(Gate(0, 0, 0), Every(*[0] * 5))
    assert found == [0, "at 0", 0, "at 0", 0, "at 0", 0, 0]


def test_who_is_woken_looks_at_timers_again() -> None:
    gate, chain = Gate(2 * SECOND), Chain()

    def plan(due: int) -> Callable[[], None]:
        return lambda: setattr(chain.functions["operator-0"], "next_timer", due)

    gate.wakes = [plan(0), plan(3 * SECOND), plan(1 * SECOND)]
    assert happened(gate, Every(), chain=chain) == [0, 1, "at 2"]


def test_without_timers_there_is_nothing_around_the_gate() -> None:
    gate = Gate()
    receive = gate.receive
    assert Timers(Chain(), gate, list).around(receive) is receive


@pytest.mark.parametrize(("item", "most"), [(int, 4), (lambda n: [n, n], 2), (lambda n: [], 4)])
def test_what_a_source_is_ahead_is_bounded(item: Callable[[int], Any], most: int) -> None:
    given: list[int] = []

    def items() -> Iterator[tuple[Any, int]]:
        for number in range(1, 100):
            given.append(number)
            yield item(number), number

    ahead = Prefetch(items(), 4, threading.Event())
    wait_until(lambda: len(given) == most)
    assert [ahead.receive(), ahead.receive()] == [(item(1), 1), (item(2), 2)]
    wait_until(lambda: len(given) == most + 2)
    ahead.close()
    wait_until(lambda: not any(each.name == "oka-source" for each in threading.enumerate()))


def test_who_waits_for_a_source_that_is_ahead_is_woken_once() -> None:
    more, woken = threading.Semaphore(0), threading.Event()

    def items() -> Iterator[tuple[int, int]]:
        for number in range(100):
            more.acquire()
            yield number, number

    ahead = Prefetch(items(), 4, woken)
    with ThreadPoolExecutor() as pool:
        for number in range(100):
            receiving = pool.submit(ahead.receive)
            woken.set()
            assert isinstance(receiving.exception(timeout=300), InterruptedError)
            receiving = pool.submit(ahead.receive, 20)
            more.release()
            assert receiving.result() == (number, number)
    assert ahead.receive() is None


def test_virtual_time_jumps_when_all_tasks_wait() -> None:
    clock = VirtualClock()
    event = threading.Event()
    for _ in range(2):
        clock.begin_task()
    at: list[float] = []

    def task() -> None:
        for seconds in (1.0, 2.0):
            clock.wait(seconds, event)
            at.append(clock.now_ns() / SECOND)
        clock.end_task()

    thread = threading.Thread(target=task)
    thread.start()
    assert not at, "the other works"
    clock.wait(2.5, event)
    assert (clock.now_ns(), at) == (2.5 * SECOND, [1.0])
    clock.end_task()
    thread.join()
    assert at == [1.0, 3.0]


def test_of_tasks_that_wait_for_the_same_moment_the_last_in_the_graph_goes_first() -> None:
    clock = VirtualClock()
    event = threading.Event()
    turns: list[tuple[int, float]] = []
    for _ in range(3):
        clock.begin_task()

    def task(number: int) -> None:
        clock.run_task(number)
        for _ in range(20):
            clock.wait(1.0, event)
            turns.append((number, clock.now_ns() / SECOND))
            time.sleep(0.0001 * number)
        clock.end_task()

    threads = [threading.Thread(target=task, args=(number,)) for number in (1, 0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert turns == [(number, float(at)) for at in range(1, 21) for number in (2, 1, 0)]
