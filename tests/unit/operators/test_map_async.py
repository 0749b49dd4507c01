"""map_async: order, bounds, failures, time; and what is left of calls that nobody waits for."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.config import JobConfig
from engine.graph import TaskContext
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing import VirtualClock, run
from engine.testing.threads import ThreadLauncher
from operators import BatchFunction, BatchOperator, Pipeline, Stream, Tumbling, Watermark, source
from operators.map_async import MapAsync
from operators.map_async.pace import Pace
from operators.sinks import Collect, Discard
from operators.sources import Collection, Function
from tests.part import examples
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left", "no_thread_left")

parallelism = pytest.mark.parametrize("parallelism", [1, 2, 3])
batch_size = pytest.mark.parametrize("batch_size", [1, 7, 100])
shuffled = pytest.mark.parametrize("shuffled", [False, True])


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    yield
    wait_until(lambda: not threads_left())


def threads_left() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "oka-async"]


def collected(stream: Stream[Any], **settings: Any) -> list[Any]:
    return list(run(stream.sink(Collect()), **settings)["collect"])


def submitted(pipeline: Pipeline, **settings: Any) -> JobHandle:
    config = JobConfig.of({"progress": "none", **settings})
    return JobHandle(Plan.of([pipeline], config), ThreadLauncher())


async def doubled(n: int) -> int:
    await asyncio.sleep((n * 7 % 5) / 1000)
    return 2 * n


@batch_size
@shuffled
@pytest.mark.parametrize("max_in_flight", [1, 3, 1000])
def test_results_leave_in_the_order_of_records(
    batch_size: int, shuffled: bool, max_in_flight: int
) -> None:
    numbers: Stream[int] = source(Collection(range(100)))
    numbers = numbers.rebalance() if shuffled else numbers
    out = numbers.map_async(doubled, max_in_flight=max_in_flight)
    assert collected(out, batch_size=batch_size) == [2 * n for n in range(100)]


@parallelism
@batch_size
@pytest.mark.parametrize("ordered", [True, False])
def test_every_record_has_one_result(parallelism: int, batch_size: int, ordered: bool) -> None:
    out = source(Collection(range(200))).rebalance().map_async(doubled, ordered=ordered)
    found = collected(out.map(str), parallelism=parallelism, batch_size=batch_size)
    assert sorted(map(int, found)) == [2 * n for n in range(200)]


@pytest.mark.parametrize(("max_in_flight", "expected"), [(100, [0, 3, 6, 9]), (2, [3, 0, 6, 9])])
def test_results_leave_as_they_come(max_in_flight: int, expected: list[int]) -> None:
    """As soon as so many calls are under way as there may be, the one of the least record ends."""
    begun: set[int] = set()
    ended: set[int] = set()

    async def least(n: int) -> int:
        begun.add(n)
        await asyncio.sleep(0)  # others may begin, also such as may not
        while len(begun) < min(4, len(ended) + max_in_flight) or n > min(begun - ended):
            await asyncio.sleep(0.001)
        ended.add(n)
        return n

    numbers = source(Collection([9, 3, 0, 6]))
    out = numbers.map_async(least, ordered=False, max_in_flight=max_in_flight)
    assert collected(out) == expected


def test_an_empty_stream_makes_no_call() -> None:
    assert collected(source(Collection([])).map_async(doubled)) == []


@shuffled
@pytest.mark.parametrize("ordered", [True, False])
def test_no_more_calls_are_under_way_than_may_be(shuffled: bool, ordered: bool) -> None:
    numbers: Stream[int] = source(Collection(range(300)))
    numbers = numbers.rebalance() if shuffled else numbers
    MOST.clear()
    assert len(collected(numbers.map_async(tracked, max_in_flight=7, ordered=ordered))) == 300
    assert MOST
    assert max(MOST) == 7


MOST: list[int] = []
UNDER_WAY: set[int] = set()


async def tracked(n: int) -> int:
    UNDER_WAY.add(n)
    MOST.append(len(UNDER_WAY))
    await asyncio.sleep(0.001)
    UNDER_WAY.discard(n)
    return n


TAKEN: list[int] = []


def endless() -> Iterator[int]:
    for n in itertools.count():
        TAKEN.append(n)
        yield n


def are_enough() -> bool:
    """Whether no record was taken for ten looks."""
    taken = []
    for _ in range(10):
        taken.append(len(TAKEN))
        time.sleep(0.03)
    return len(set(taken)) == 1


async def never(n: Any) -> None:
    await asyncio.Event().wait()


@shuffled
def test_a_task_with_enough_calls_takes_no_records(shuffled: bool) -> None:
    TAKEN.clear()
    numbers: Stream[int] = source(Function(endless))
    numbers = numbers.rebalance() if shuffled else numbers
    pipeline = numbers.map_async(never, max_in_flight=10).sink(Discard())
    job = submitted(pipeline, batch_size=10, channel_window_bytes=65536)
    try:
        wait_until(lambda: len(TAKEN) >= 10)
        wait_until(are_enough)  # of the first channel, which is full, or of the first batches
        assert shuffled or len(TAKEN) <= 40
    finally:
        job.cancel()
        job.wait_stopped()


@shuffled
def test_results_leave_while_no_record_comes(shuffled: bool) -> None:
    """The source ends when it hears of the result of its first record."""
    CAME.clear()
    words: Stream[str] = source(Function(first_came))
    words = words.rebalance() if shuffled else words
    assert collected(words.map_async(echo).map(came), batch_size=1) == ["first", "came"]


@shuffled
def test_results_leave_while_others_of_the_batch_wait(shuffled: bool) -> None:
    CAME.clear()
    words: Stream[str] = source(Collection(["first", *(["wait"] * 5)]))
    words = words.rebalance() if shuffled else words
    out = collected(words.map_async(echo, max_in_flight=2).map(came))
    assert out == ["first", *(["wait"] * 5)]


CAME = threading.Event()


def first_came() -> Iterator[str]:
    yield "first"
    yield "came" if CAME.wait(60) else "never"


async def echo(word: str) -> str:
    await asyncio.sleep(0.02)
    while word == "wait" and not CAME.is_set():
        await asyncio.sleep(0.001)
    return word


def came(word: str) -> str:
    CAME.set()
    return word


class Bursts(BatchOperator):
    """Gives all at its end, in many batches, which come without a timer between them."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Bursts()


class _Bursts(BatchFunction):
    def __init__(self) -> None:
        self._records: list[Any] = []

    def process(self, batch: list[Any]) -> list[Any]:
        self._records += batch
        return []

    def on_end(self) -> Iterable[list[Any]]:
        for n in self._records:
            yield [n, n]


@pytest.mark.parametrize("ordered", [True, False])
def test_several_batches_that_come_at_once(ordered: bool) -> None:
    burst = source(Collection(range(50))).rebalance().then(Bursts())
    out = collected(burst.map_async(doubled, max_in_flight=3, ordered=ordered))
    assert sorted(out) == sorted([2 * n for n in range(50)] * 2)


class Told(BatchOperator):
    """Passes records on, and tells of watermarks."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Told()


class _Told(BatchFunction):
    def process(self, batch: list[Any]) -> list[Any]:
        return batch

    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        yield [("watermark", watermark_us)]


@shuffled
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("max_in_flight", [2, 100])
def test_no_watermark_overtakes_a_result(shuffled: bool, ordered: bool, max_in_flight: int) -> None:
    def given() -> Iterator[Any]:
        for n in range(200):
            yield n
            if n % 10 == 0:
                yield Watermark(n)

    numbers: Stream[Any] = source(Function(given))
    numbers = numbers.rebalance() if shuffled else numbers
    out = collected(
        numbers.map_async(unsteady, ordered=ordered, max_in_flight=max_in_flight).then(Told()),
        batch_size=4,
    )
    assert sorted(each for each in out if type(each) is int) == list(range(200))
    watermark = -1
    for each in out:
        if isinstance(each, tuple):
            watermark = each[1]
        else:
            assert each > watermark
    assert watermark == 190


async def jittered(record: tuple[str, int]) -> tuple[str, int]:
    await asyncio.sleep(record[1] % 7 / 1000)
    return record


@parallelism
@pytest.mark.parametrize("ordered", [True, False])
def test_no_record_is_late_for_a_window_behind(parallelism: int, ordered: bool) -> None:
    records = [("ab"[n % 2], n) for n in range(400)]
    timed = source(Collection(records, rate=40_000)).with_event_time(1, unit="ms")
    called = timed.map_async(jittered, ordered=ordered, max_in_flight=20)
    second = Tumbling(timedelta(milliseconds=100))
    windows = called.key_by(0).window(second, time=1, unit="ms").collect()
    pipeline = windows.map(lambda each: (each[0], sorted(each[1]))).sink(Collect())
    result = submitted(pipeline, parallelism=parallelism, batch_size=3).wait_finished()
    assert sum(operator.late for operator in result.statistics.operators) == 0
    assert sorted(result.output) == sorted(
        (key, [(k, n) for k, n in records[start : start + 100] if k == key])
        for key in "ab"
        for start in range(0, 400, 100)
    )


HEARD = threading.Event()


async def in_turn(n: int) -> int:
    """Ends for 1 when it is called for 2."""
    if n == 2:
        HEARD.set()
    while not HEARD.is_set():
        await asyncio.sleep(0.001)
    return n


def a_watermark_between() -> Iterator[Any]:
    yield from (1, Watermark(1), 2, Watermark(2), 3)


@shuffled
@pytest.mark.parametrize("ordered", [True, False])
def test_records_behind_a_watermark_do_not_wait_for_it(shuffled: bool, ordered: bool) -> None:
    HEARD.clear()
    numbers: Stream[Any] = source(Function(a_watermark_between))
    numbers = numbers.rebalance() if shuffled else numbers
    out = collected(numbers.map_async(in_turn, ordered=ordered).then(Told()))
    assert sorted(n for n in out if type(n) is int) == [1, 2, 3]
    assert ("watermark", 2) in out


IDLE = Watermark(None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([Watermark(1)], [Watermark(1)]),
        ([1, Watermark(1), Watermark(2)], [1, Watermark(2)]),
        ([1, IDLE], [1, IDLE]),
        ([1, IDLE, 2], [1, 2]),
        ([1, Watermark(1), IDLE], [1, Watermark(1), IDLE]),
        ([1, Watermark(1), IDLE, IDLE, Watermark(2), IDLE], [1, Watermark(2), IDLE]),
        ([1, Watermark(1), IDLE, 2, Watermark(2)], [1, Watermark(1), 2, Watermark(2)]),
        ([IDLE, 1], [IDLE, 1]),
    ],
)
def test_idleness_is_held_back_as_watermarks_are(
    given: list[Any], expected: list[Any], task: Callable[..., TaskContext]
) -> None:
    """Nothing is done before all has come; then each result leaves by itself."""
    GATE.clear()
    function = MapAsync(gated).open(task(batch_size=1))
    found: list[Any] = []

    def told() -> None:
        if function.watermark is not None:
            found.append(function.watermark)
            function.watermark = None

    def is_all() -> bool:
        return len(found) == len(expected)

    try:
        for each in given:
            if not isinstance(each, Watermark):
                found += function.process([each])
            elif each.time_us is None:
                function.on_idle()
            else:
                function.on_watermark(each.time_us)
            told()
        GATE.set()
        for _ in expected:
            wait_until(lambda: function.next_timer is not None or is_all())
            found += [n for batch in function.on_timer(0) or () for n in batch]
            told()
    finally:
        function.close()
    assert found == expected


def test_an_idle_task_holds_no_watermark_up() -> None:
    def given(context: TaskContext) -> Iterator[Any]:
        if context.index == 0:
            yield from (1, Watermark(3), IDLE, 2, 3, 4, Watermark(20))
        else:
            yield from (5, Watermark(5), 6, Watermark(8), 7, Watermark(30), 8, 9)

    numbers = source(Function(given, rate=2)).map_async(plain).rebalance()
    told = numbers.then(Told()).with_parallelism(1).sink(Collect()).with_parallelism(1)
    out = run(told, parallelism=2, batch_size=1, clock=VirtualClock())["collect"]
    assert out.index(("watermark", 5)) < out.index(2)  # of a second later


GATE = threading.Event()


async def gated(n: int) -> int:
    while not GATE.is_set():
        await asyncio.sleep(0.001)
    return n


async def unsteady(n: int) -> int:
    await asyncio.sleep(n % 3 / 1000)
    return n


async def failing(n: int) -> int:
    await asyncio.sleep(0)
    if n % 10 == 3:
        raise ValueError(f"no {n}")
    return n


@shuffled
@pytest.mark.parametrize("ordered", [True, False])
def test_a_failure_names_the_record(shuffled: bool, ordered: bool) -> None:
    numbers: Stream[int] = source(Collection(range(1, 10)))
    numbers = numbers.rebalance() if shuffled else numbers
    out = numbers.map_async(failing, ordered=ordered).map(str)
    with pytest.raises(engine.OperatorError, match="ValueError: no 3") as caught:
        collected(out)
    assert (caught.value.operator, caught.value.record) == ("map_async", "3")
    assert "in failing" in str(caught.value)
    assert "operators/map_async/calls.py" not in str(caught.value)


@shuffled
@batch_size
@pytest.mark.parametrize("ordered", [True, False])
def test_failures_are_put_aside(shuffled: bool, batch_size: int, ordered: bool) -> None:
    numbers: Stream[int] = source(Collection(range(34)))
    numbers = numbers.rebalance() if shuffled else numbers
    out = numbers.map_async(failing, ordered=ordered, max_in_flight=5, on_error="side")
    pipelines = [out.sink(Collect()), out.side("errors").sink(Collect()).named("bad")]
    found = run(pipelines, batch_size=batch_size)
    assert sorted(found["collect"]) == [n for n in range(34) if n % 10 != 3]
    assert sorted(found["bad"]) == [(n, f"ValueError: no {n}") for n in (3, 13, 23, 33)]


def test_failures_are_counted() -> None:
    out = source(Collection(range(34))).map_async(failing, on_error="skip")
    result = submitted(out.sink(Collect())).wait_finished()
    (operator,) = (o for o in result.statistics.operators if o.name == "map_async")
    assert (operator.records_in, operator.records_out, operator.errors) == (34, 30, 4)


class Attempts:
    """Fails so many times on each record."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.made: dict[int, int] = {}

    async def __call__(self, n: int) -> tuple[int, int]:
        self.made[n] = self.made.get(n, 0) + 1
        if self.made[n] <= self.failures:
            raise ConnectionError("try again")
        return n, self.made[n]


@pytest.mark.parametrize("timeout", [None, timedelta(seconds=20)])
def test_failed_attempts_are_made_again(timeout: timedelta | None) -> None:
    numbers = source(Collection([1, 2, 3]))
    tried = numbers.map_async(Attempts(2), retries=2, timeout=timeout)
    assert collected(tried) == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(engine.OperatorError, match="ConnectionError: try again"):
        collected(numbers.map_async(Attempts(2), retries=1, timeout=timeout))


class Answers:
    """Answers so many times on each record that it is busy."""

    def __init__(self, busy: int) -> None:
        self.busy = busy
        self.made: dict[Any, int] = {}

    async def __call__(self, n: Any) -> Any:
        at = n[0] if isinstance(n, list) else n
        self.made[at] = self.made.get(at, 0) + 1
        status = 503 if self.made[at] <= self.busy else 200
        return [(each, status) for each in n] if isinstance(n, list) else (n, status)


def is_busy(answer: tuple[int, int]) -> bool:
    return answer[1] == 503


@pytest.mark.parametrize("ordered", [True, False])
def test_results_may_ask_for_another_attempt(ordered: bool) -> None:
    numbers, answers = source(Collection([1, 2, 3])), Answers(2)
    tried = numbers.map_async(answers, retries=2, retry_if=is_busy, ordered=ordered)
    assert sorted(collected(tried)) == [(1, 200), (2, 200), (3, 200)]
    message = r"gave \(1, 503\) in the last of 2 attempts, expected a result that retry_if accepts"
    with pytest.raises(engine.OperatorError, match=message) as caught:
        collected(numbers.map_async(Answers(2), retries=1, retry_if=is_busy))
    assert caught.value.record == "1"


def test_results_that_stay_refused_are_put_aside() -> None:
    out = source(Collection([1])).map_async(
        Answers(9), retries=1, retry_if=is_busy, on_error="side"
    )
    found = run([out.sink(Collect()), out.side("errors").sink(Collect()).named("bad")])
    assert found["collect"] == []
    ((record, error),) = found["bad"]
    assert record == 1
    assert error.startswith("ValueError: the function gave (1, 503) in the last of 2 attempts")


def test_results_of_batches_may_ask_for_another_attempt() -> None:
    tried = source(Collection([1, 2, 3])).map_batches_async(
        Answers(1), 2, retries=1, retry_if=lambda answers: any(map(is_busy, answers))
    )
    assert collected(tried, batch_size=3) == [(1, 200), (2, 200), (3, 200)]


def test_an_exception_of_retry_if_is_one_of_the_attempt() -> None:
    out = source(Collection([1])).map_async(plain, retries=1, retry_if=lambda n: 1 // (n - 1))
    with pytest.raises(engine.OperatorError, match="ZeroDivisionError"):
        collected(out)


class Times:
    """The moments at which calls began, by the clock that paces them."""

    moments: ClassVar[list[float]] = []

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.moments.clear()

    async def __call__(self, n: int) -> int:
        self.moments.append(asyncio.get_running_loop().time())
        if len(self.moments) <= self.failures:
            raise ConnectionError
        return n


def most_within(moments: list[float], seconds: float) -> int:
    moments = sorted(moments)
    return max(sum(0 <= other - each <= seconds for other in moments) for each in moments)


@parallelism
@pytest.mark.parametrize("ordered", [True, False])
def test_calls_are_no_more_than_the_rate(parallelism: int, ordered: bool) -> None:
    times = Times()
    numbers = source(Collection(range(60))).rebalance()
    out = numbers.map_async(times, rate=200, ordered=ordered, max_in_flight=9)
    assert sorted(collected(out, parallelism=parallelism)) == list(range(60))
    assert len(times.moments) == 60
    for seconds in (0.01, 0.05, 0.1, 10.0):
        assert most_within(times.moments, seconds) <= 200 * (seconds + 0.1) + parallelism
    lasted = max(times.moments) - min(times.moments)
    assert lasted >= (60 - parallelism) / 200 - 0.1


def test_retries_count_as_calls_do() -> None:
    times = Times(failures=3)
    out = source(Collection(range(3))).map_async(times, rate=20, retries=3)
    assert collected(out) == [0, 1, 2]
    assert len(times.moments) == 6
    assert max(times.moments) - min(times.moments) >= 5 / 20 - 0.1


def test_a_job_that_waits_for_its_turn_is_cancelled_at_once() -> None:
    job = submitted(source(Collection(range(5))).map_async(plain, rate=1e-6).sink(Discard()))
    time.sleep(0.1)
    job.cancel()
    job.wait_stopped()


@settings(max_examples=examples(100))
@given(
    st.floats(0.5, 5000),
    st.lists(st.floats(0, 0.5), min_size=1, max_size=30),
)
def test_any_turns_are_those_of_a_token_bucket(rate: float, pauses: list[float]) -> None:
    """By a clock of the test's own: asked at any moments, turns are late by no more than they must.

    With a bucket of a tenth of a second's calls, which is empty at first.
    """
    pace, now, tokens, turns = Pace(rate), 100.0, 1.0, list[float]()
    last = now
    for pause in pauses:
        now += pause
        if turns:  # the bucket fills from the first call on
            tokens = min(tokens + (now - last) * rate, 1 + rate / 10)
        last = now
        tokens -= 1
        turns.append(pace.turn(now))
        assert turns[-1] == pytest.approx(now + max(0, -tokens) / rate)
    assert turns == sorted(turns)
    for seconds in (0.0, 0.01, 0.1, 1.0):
        assert most_within(turns, seconds) <= rate * (seconds + 0.1) + 1 + 1e-6


def test_turns_are_evenly_spaced() -> None:
    pace = Pace(4)
    assert [pace.turn(10.0) for _ in range(4)] == [10.0, 10.25, 10.5, 10.75]
    assert [pace.turn(11.0), pace.turn(12.0)] == [11.0, 12.0]
    pace = Pace(50)
    pace.turn(0.0)
    assert [pace.turn(9.0) for _ in range(8)] == [*[9.0] * 6, *map(pytest.approx, (9.02, 9.04))]


async def slow(n: int) -> int:
    await asyncio.sleep(20 if n == 2 else 0)
    return n


async def stubborn(n: int) -> int:
    """Goes on when it is cancelled, as long as it can."""
    while n == 2:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            continue
    return n


@pytest.mark.parametrize("function", [slow, stubborn])
@pytest.mark.parametrize("retries", [0, 1])
def test_an_attempt_may_take_so_long(function: Any, retries: int) -> None:
    numbers = source(Collection([1, 2, 3]))
    settings: Any = {"timeout": timedelta(milliseconds=300), "retries": retries}
    assert collected(numbers.map_async(function, on_error="skip", **settings)) == [1, 3]
    with pytest.raises(engine.OperatorError, match=r"TimeoutError: no result within 0.3 s"):
        collected(numbers.map_async(function, **settings))


async def cancels_itself(n: int) -> int:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return n


async def raises_cancelled(n: int) -> int:
    raise asyncio.CancelledError


async def interrupts(n: int) -> int:
    raise KeyboardInterrupt


async def exits(n: int) -> int:
    raise SystemExit(3)


async def begins_one_that_interrupts(n: int) -> None:
    asyncio.get_running_loop().create_task(interrupts(n))
    await asyncio.Event().wait()


async def stops_the_loop(n: int) -> None:
    asyncio.get_running_loop().stop()
    await asyncio.Event().wait()


@pytest.mark.parametrize("timeout", [None, timedelta(seconds=20)])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises_cancelled, "RuntimeError: the function was cancelled, and not by its operator"),
        (interrupts, "KeyboardInterrupt"),
        (exits, "SystemExit: 3"),
        (begins_one_that_interrupts, "KeyboardInterrupt"),
        (stops_the_loop, "RuntimeError: Event loop stopped"),
    ],
)
def test_what_no_function_should_do(function: Any, message: str, timeout: timedelta | None) -> None:
    with pytest.raises(engine.OperatorError, match=message) as caught:
        collected(source(Collection(range(5))).rebalance().map_async(function, timeout=timeout))
    assert caught.value.operator == "map_async"


def test_a_function_that_cancels_itself_too_late_is_done() -> None:
    assert collected(source(Collection([1])).map_async(cancels_itself)) == [1]


BEGUN: list[int] = []


async def begins_never_to_end(n: int) -> None:
    BEGUN.append(n)
    await never(n)


async def begins_to_be_stubborn(n: int) -> int:
    BEGUN.append(n)
    return await stubborn(n)


@pytest.mark.parametrize("function", [begins_never_to_end, begins_to_be_stubborn])
def test_nothing_is_left_of_a_job_that_is_cancelled(
    function: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    BEGUN.clear()
    numbers = source(Collection([2] * 1000)).rebalance()
    job = submitted(numbers.map_async(function, max_in_flight=1000).sink(Discard()))
    wait_until(lambda: len(BEGUN) == 1000)
    job.cancel()
    with pytest.raises(engine.JobCancelled):
        job.wait_finished()
    job.wait_stopped()
    assert not threads_left()
    assert "destroyed" not in capfd.readouterr().err


async def blocks(n: int) -> int:
    BLOCKED.set()
    RELEASED.wait(60)
    return n


BLOCKED, RELEASED = threading.Event(), threading.Event()


def test_a_function_that_blocks_holds_up_no_end_of_the_job(
    capfd: pytest.CaptureFixture[str],
) -> None:
    BLOCKED.clear()
    RELEASED.clear()
    try:
        job = submitted(source(Collection([1, 2])).rebalance().map_async(blocks).sink(Discard()))
        assert BLOCKED.wait(60)
        job.cancel()
        job.wait_stopped()
        assert "hint: await what waits" in capfd.readouterr().err
    finally:
        RELEASED.set()


LIFE: list[Any] = []


class Session:
    """An async context manager that tells what becomes of it; `fails` names the method."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    async def __aenter__(self) -> Session:
        await asyncio.sleep(0.01)
        if self.fails == "enter":
            raise OSError("no server")
        LIFE.append(("entered", threading.current_thread().name))
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.sleep(0.01)
        LIFE.append(("left", threading.current_thread().name))
        if self.fails == "exit":
            raise OSError("no goodbye")

    async def __call__(self, n: int) -> int:
        LIFE.append(n)
        if self.fails == "call":
            raise OSError("no answer")
        return n


def test_an_async_context_manager_is_entered_and_left() -> None:
    LIFE.clear()
    assert collected(source(Collection([1, 2])).map_async(Session())) == [1, 2]
    assert LIFE == [("entered", "oka-async"), 1, 2, ("left", "oka-async")]


def test_it_is_left_where_a_call_fails() -> None:
    LIFE.clear()
    with pytest.raises(engine.OperatorError, match="OSError: no answer"):
        collected(source(Collection([1])).map_async(Session("call")))
    assert LIFE[-1] == ("left", "oka-async")


def test_one_that_cannot_be_entered_fails_the_job() -> None:
    with pytest.raises(engine.OperatorError, match="OSError: no server") as caught:
        collected(source(Collection([1])).map_async(Session("enter")))
    assert caught.value.operator == "map_async"


def test_one_that_cannot_be_left_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert collected(source(Collection([1])).map_async(Session("exit"))) == [1]
    assert "OSError: no goodbye" in capfd.readouterr().err


async def tick() -> None:
    try:
        await asyncio.sleep(100)
    finally:
        LIFE.append("cancelled")


async def begins(n: int) -> int:
    LIFE.append(asyncio.get_running_loop().create_task(tick()))
    await asyncio.sleep(0.001)
    return n


def test_what_a_function_has_begun_ends_with_the_job() -> None:
    LIFE.clear()
    assert collected(source(Collection([1])).map_async(begins)) == [1]
    assert LIFE[1:] == ["cancelled"]


@pytest.mark.parametrize("max_records", [None, 3])
@batch_size
def test_batches(max_records: int | None, batch_size: int) -> None:
    numbers = source(Collection(range(20))).rebalance()
    out = numbers.map_batches_async(squares, max_records)
    assert collected(out, batch_size=batch_size) == [n * n for n in range(20)]


async def squares(batch: list[int]) -> list[int]:
    assert batch
    await asyncio.sleep(0.001)
    return [n * n for n in batch]


def test_all_records_of_a_batch_that_fails_are_put_aside() -> None:
    async def inverse(batch: list[int]) -> list[float]:
        return [1 / n for n in batch]

    out = source(Collection([1, 0, 2, 4])).map_batches_async(inverse, 2, on_error="side")
    found = run([out.sink(Collect()), out.side("errors").sink(Collect()).named("bad")])
    assert found["collect"] == [0.5, 0.25]
    assert [record for record, _ in found["bad"]] == [1, 0]


def test_what_is_no_batch_fails() -> None:
    async def wrong(batch: list[int]) -> int:
        return len(batch)

    message = "the function of map_batches_async returned int 1, expected a list"
    with pytest.raises(engine.OperatorError, match=message):
        collected(source(Collection([1])).map_batches_async(wrong))  # type: ignore[arg-type]


def test_time_of_a_test_stands_still_while_calls_are_under_way() -> None:
    clock = VirtualClock()
    numbers = source(Collection(range(4), rate=1)).rebalance()
    assert collected(numbers.map_async(doubled), clock=clock, batch_size=1) == [0, 2, 4, 6]
    assert clock.now_ns() == 3_000_000_000


@pytest.mark.parametrize(("ordered", "ends", "leaves"), [(True, 1, [0, 1]), (False, 1, [1])])
def test_only_a_call_whose_result_can_leave_wakes_the_task(
    ordered: bool, ends: int, leaves: list[int], task: Callable[..., TaskContext]
) -> None:
    may_end: set[int] = set()
    ended: list[int] = []
    woken: list[int] = []

    async def held(n: int) -> int:
        while n not in may_end:
            await asyncio.sleep(0.001)
        ended.append(n)
        return n

    context = replace(task(), wake=lambda: woken.append(len(ended)))
    function = MapAsync(held, ordered=ordered).open(context)
    try:
        assert function.process([0, 1, 2]) == []
        assert (function.next_timer, woken) == (None, []), "nothing is polled"
        may_end.add(ends)
        wait_until(lambda: ended == [ends])
        if ordered:
            may_end.add(0)
        wait_until(lambda: woken)
        assert woken == [len(leaves)], "once, behind what lets results leave"
        assert function.next_timer is not None
        assert list(function.on_timer(0) or ()) == [leaves]
        assert function.next_timer is None
        may_end.update(range(3))
        found = list(leaves)
        while len(found) < 3:
            wait_until(lambda: function.next_timer is not None)
            found += [n for batch in function.on_timer(0) or () for n in batch]
        assert sorted(found) == [0, 1, 2]
    finally:
        function.close()


def test_a_result_leaves_while_a_source_waits_for_its_moment() -> None:
    CAME.clear()
    hourly = source(Collection(["first", "second"], rate=1 / 3600))
    job = submitted(hourly.map_async(echo).map(came).sink(Discard()), batch_size=1)
    try:
        assert CAME.wait(60)
    finally:
        job.cancel()
        job.wait_stopped()


@pytest.mark.table(2)
@shuffled
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("seconds", [0, 0.0001])
def test_no_result_is_overlooked(shuffled: bool, ordered: bool, seconds: float) -> None:
    """Each record comes when the result of the one before is there, and nothing else wakes."""
    ARRIVED.clear()
    numbers: Stream[int] = source(Function(one_by_one))
    numbers = numbers.rebalance() if shuffled else numbers
    out = numbers.map_async(sleepy(seconds), ordered=ordered).map(arrive)
    assert collected(out, batch_size=1) == list(range(500))


ARRIVED: list[int] = []


def one_by_one() -> Iterator[int]:
    for n in range(500):
        wait_until(lambda: len(ARRIVED) == n)  # noqa: B023 - called at once
        yield n


def sleepy(seconds: float) -> Callable[[int], Coroutine[Any, Any, int]]:
    async def call(n: int) -> int:
        await asyncio.sleep(seconds)
        return n

    return call


def arrive(n: int) -> int:
    ARRIVED.append(n)
    return n


def test_a_loop_that_ends_wakes_the_task(task: Callable[..., TaskContext]) -> None:
    woken, may_stop = threading.Event(), threading.Event()

    async def stops_the_loop_later(n: int) -> None:
        await asyncio.to_thread(may_stop.wait)
        await stops_the_loop(n)

    function = MapAsync(stops_the_loop_later).open(replace(task(), wake=woken.set))
    try:
        assert function.process([1]) == []
        assert function.next_timer is None
        may_stop.set()
        assert woken.wait(60)
        assert function.next_timer is not None
        with pytest.raises(RuntimeError, match="Event loop stopped"):
            list(function.on_timer(0) or ())
    finally:
        may_stop.set()
        function.close()


async def plain(n: int) -> int:
    return n


async def two(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (len, r"map_async\(\) got len, expected a coroutine function\n\nhint: async def"),
        (lambda n: n, r"map_async\(\) got .*<lambda>, expected a coroutine function"),
        (plain(1), r"map_async\(\) got coroutine <coroutine object plain"),
        (None, r"map_async\(\) got NoneType None"),
        (Session, r"map_async\(\) got the class Session.*\n\nhint: make one: .map_async\(Session"),
        (two, r"map_async\(\) got two.*, expected a function of 1 argument"),
    ],
)
def test_what_is_no_coroutine_function_is_refused(function: Any, message: str) -> None:
    try:
        with pytest.raises(engine.GraphError, match=message):
            source(Collection([1])).map_async(function)
    finally:
        if asyncio.iscoroutine(function):
            function.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"max_in_flight": 1.5}, "max_in_flight"),
        ({"retries": -1}, "retries"),
        ({"timeout": 5}, "timeout is 5, expected a timedelta"),
        ({"timeout": timedelta()}, "timeout is datetime.timedelta"),
        ({"ordered": "yes"}, "ordered is 'yes', expected True or False"),
        ({"on_error": "ignore"}, "on_error"),
        ({"rate": 0}, "rate is 0, expected calls per second > 0, over all tasks"),
        ({"rate": True}, "rate is True, expected calls per second"),
        ({"rate": float("nan")}, "rate is nan, expected calls per second"),
        ({"retry_if": bool}, "got retry_if and retries=0, expected retries of at least 1"),
        ({"retry_if": 1, "retries": 1}, "retry_if\\(\\) got int 1, expected a function"),
        ({"retry_if": plain, "retries": 1}, "got the coroutine function plain, expected a plain"),
        ({"retry_if": lambda: True, "retries": 1}, "expected a function of 1 argument"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(engine.GraphError, match=message):
        source(Collection([1])).map_async(plain, **settings).sink(Collect())


def test_partials_and_methods_are_coroutine_functions() -> None:
    async def added(a: int, b: int) -> int:
        return a + b

    numbers = source(Collection([1, 2]))
    assert collected(numbers.map_async(functools.partial(added, 1))) == [2, 3]
    assert collected(numbers.map_async(Attempts(0).__call__)) == [(1, 1), (2, 1)]
