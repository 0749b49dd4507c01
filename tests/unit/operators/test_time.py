"""Watermarks and timers on their way through jobs: own operators, several tasks, a shuffle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import engine
from engine.testing import VirtualClock, run
from operators import (
    BatchFunction,
    BatchOperator,
    Gate,
    Properties,
    TaskContext,
    Watermark,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection, Function

pytestmark = pytest.mark.usefixtures("nothing_left")

SECOND = 1_000_000_000


class Told(BatchOperator):
    """Passes records on; of each watermark and the end it tells, with the second it came in."""

    def __init__(self, name: str = "told") -> None:
        self.name = name

    def open(self, context: TaskContext) -> BatchFunction:
        return _Told(self.name, context)


class _Told(BatchFunction):
    def __init__(self, name: str, context: TaskContext) -> None:
        self._name = name
        self._context = context

    def process(self, batch: list[Any]) -> list[Any]:
        return batch

    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        yield [(self._name, watermark_us, self._context.now_ns() // SECOND)]


def told(given: Callable[..., Iterator[Any]], parallelism: int = 2) -> list[Any]:
    """What comes out where the tasks of a paced source give this, one record a second each."""
    words = source(Function(given, rate=float(parallelism))).rebalance().then(Told())
    one = words.with_parallelism(1).sink(Collect()).with_parallelism(1)
    outputs = run(one, clock=VirtualClock(), parallelism=parallelism, batch_size=1)
    return list(outputs["collect"])


class Held(BatchOperator):
    """Holds (key, time) back until the watermark has come to the time; what is late fails."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Held()


class _Held(BatchFunction):
    def __init__(self) -> None:
        self._records: list[tuple[str, int]] = []
        self._watermark = -1

    def process(self, batch: list[tuple[str, int]]) -> list[Any]:
        for _, time in batch:
            if time <= self._watermark:
                raise ValueError(f"{time} comes behind watermark {self._watermark}")
        self._records += batch
        return []

    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        assert watermark_us > self._watermark
        self._watermark = watermark_us
        due = [record for record in self._records if record[1] <= watermark_us]
        self._records = [record for record in self._records if record[1] > watermark_us]
        yield sorted(due, key=lambda record: record[1])

    def on_end(self) -> Iterable[list[Any]]:
        yield sorted(self._records, key=lambda record: record[1])


def ticks(context: TaskContext) -> Iterator[Any]:
    """Times that rise; watermarks that are a step behind, and sometimes go back."""
    for time in range(1, 300):
        yield [(key, time) for key in "abcde"]
        if time % 3 == context.index % 3:
            yield Watermark(time - time % 7)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_no_record_is_late_and_order_is_that_of_time(parallelism: int) -> None:
    held = source(Function(ticks)).key_by(0).then(Held()).key_by(0).then(Held())
    out = run(held.sink(Collect()), parallelism=parallelism, batch_size=2)["collect"]
    expected = [(key, time) for key in "abcde" for time in range(1, 300)] * parallelism
    assert sorted(out) == sorted(expected)
    for key in "abcde":
        times = [time for of, time in out if of == key]
        assert times == sorted(times)


def test_what_an_operator_gives_at_a_watermark_is_in_front_of_it() -> None:
    def given() -> Iterator[Any]:
        yield [1]
        yield Watermark(5)
        yield [2]

    chained = source(Function(given, rate=1)).then(Told("a")).then(Told("b"))
    apart = source(Function(given, rate=1)).then(Told("a")).rebalance().then(Told("b"))
    for stream in (chained, apart):
        out = run(stream.sink(Collect()), clock=VirtualClock())["collect"]
        assert out == [1, ("a", 5, 0), ("b", 5, 0), 2]


def test_an_input_that_ended_holds_no_watermark_up() -> None:
    def given(context: TaskContext) -> Iterator[Any]:
        yield context.index
        if context.index == 1:
            yield from (Watermark(7), 2, Watermark(9), 3)

    assert told(given)[2:] == [("told", 7, 0), 2, ("told", 9, 1), 3]


def test_an_idle_input_holds_none_up_until_it_goes_on() -> None:
    def given(context: TaskContext) -> Iterator[Any]:
        if context.index == 0:
            yield from ("a", Watermark(3), Watermark(None), "b", "c", "d", Watermark(20))
        else:
            yield from ("e", Watermark(5), "f", Watermark(8), "g", Watermark(30), "h", "i")

    out = told(given)
    times = [each[1] for each in out if isinstance(each, tuple)]
    # What the first had before it was idle is told where it comes beside that of the second.
    after_idle = times[1:] if times[0] == 3 else times
    assert (after_idle[0], after_idle[-1], len(after_idle)) == (5, 30, 4)
    assert {each for each in out if isinstance(each, str)} == set("abcdefghi")


def test_a_watermark_that_is_no_number_fails_at_the_source() -> None:
    wrong = source(Function(lambda: iter([Watermark("soon")])))  # type: ignore[arg-type]
    with pytest.raises(engine.OperatorError, match="TypeError") as caught:
        run(wrong.map(str).sink(Collect()))
    assert caught.value.operator == "function"


class Gathered(BatchOperator):
    """A list of what came in two and a half seconds; `fails` is the method that does not work."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def open(self, context: TaskContext) -> BatchFunction:
        return _Gathered(context, self.fails)


class _Gathered(BatchFunction):
    def __init__(self, context: TaskContext, fails: str) -> None:
        self._context = context
        self._records: list[Any] = []
        self._fails = fails

    def process(self, batch: list[Any]) -> list[Any]:
        self._records += batch
        if self.next_timer is None:
            self.next_timer = self._context.now_ns() + 5 * SECOND // 2
        return []

    def on_watermark(self, watermark_us: int) -> None:
        if self._fails == "on_watermark":
            raise ValueError("cannot")

    def on_timer(self, now_ns: int) -> Iterable[list[Any]]:
        if self._fails == "on_timer":
            raise ValueError("cannot")
        if self._fails == "sets":
            self.next_timer = timedelta(1)  # type: ignore[assignment]
        if self._fails == "gives":
            return [7]  # type: ignore[list-item]
        gathered, self._records = self._records, []
        return [[(now_ns / SECOND, gathered)]]

    def on_end(self) -> Iterable[list[Any]]:
        yield [("end", self._records)]


GATHERED = [(2.5, [0, 1, 2]), (5.5, [3, 4, 5]), (8.5, [6, 7, 8]), ("end", [9])]


@pytest.mark.parametrize("shuffled", [False, True])
def test_timers_are_called_between_records_and_while_none_comes(shuffled: bool) -> None:
    numbers = source(Collection(range(10), rate=1))
    numbers = numbers.rebalance() if shuffled else numbers
    gathered = numbers.then(Gathered()).map(lambda pair: pair).sink(Collect())
    assert run(gathered, clock=VirtualClock(), batch_size=1) == {"collect": GATHERED}


def test_timers_of_several_tasks_behind_a_shuffle() -> None:
    pairs = source(Collection([(n, n % 2) for n in range(20)], rate=2)).key_by(1)
    clock = VirtualClock()
    out = run(pairs.then(Gathered()).sink(Collect()), clock=clock, parallelism=2, batch_size=1)
    assert clock.now_ns() == 9 * SECOND
    assert sorted(n for _, gathered in out["collect"] for n, _ in gathered) == list(range(20))
    assert {at for at, _ in out["collect"]} == {2.5, 5.5, 8.5, "end"}


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        ("on_watermark", "ValueError: cannot"),
        ("on_timer", "ValueError: cannot"),
        ("gives", r"TypeError: on_timer\(\) gave int 7, expected a list of records"),
        ("sets", r"TypeError: next_timer is datetime.timedelta.*, expected nanoseconds of context"),
    ],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_what_fails_there_is_told_of_its_operator(fails: str, message: str, shuffled: bool) -> None:
    def given() -> Iterator[Any]:
        yield from (1, 2, 3, 4, Watermark(5), 6)

    numbers = source(Function(given, rate=1))
    numbers = numbers.rebalance() if shuffled else numbers
    gathered = numbers.map(lambda n: n).then(Gathered(fails)).map(lambda n: n).sink(Collect())
    with pytest.raises(engine.OperatorError, match=message) as caught:
        run(gathered, clock=VirtualClock())
    assert caught.value.operator == "gathered"


class Storm(BatchOperator):
    """A timer that is due anew whenever it was called, until a record says that it is enough."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Storm()


class _Storm(BatchFunction):
    next_timer: int | None = 0

    def __init__(self) -> None:
        self._called = 0
        self._over = False

    def process(self, batch: list[int]) -> list[int]:
        self._over |= 99 in batch
        return batch

    def on_timer(self, now_ns: int) -> Iterable[list[int]]:
        self._called += 1
        if not self._over:
            self.next_timer = now_ns
        return ()

    def on_end(self) -> Iterable[list[int]]:
        yield [-self._called]


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("rate", [None, 10_000.0])
def test_a_storm_of_timers_lets_records_through(shuffled: bool, rate: float | None) -> None:
    numbers = source(Collection(range(100), rate=rate))
    numbers = numbers.rebalance() if shuffled else numbers
    *out, minus_called = run(numbers.then(Storm()).sink(Collect()), batch_size=1)["collect"]
    assert out == list(range(100))
    assert minus_called < -1


came = threading.Event()


class Comes(BatchOperator):
    """Says that its timer was called."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Comes()


class _Comes(BatchFunction):
    next_timer: int | None = 0

    def process(self, batch: list[Any]) -> list[Any]:
        return batch

    def on_timer(self, now_ns: int) -> Iterable[list[Any]]:
        came.set()
        return [["timer"]]


def blocked() -> Iterator[Any]:
    """Gives None only when the timer behind it was called."""
    yield "first" if came.wait(60) else "never"
    yield None


def test_timers_are_called_while_a_source_blocks() -> None:
    came.clear()
    out = run(source(Function(blocked)).then(Comes()).sink(Collect()))["collect"]
    assert out == ["timer", "first", None]


@pytest.mark.parametrize("error", [OSError, TimeoutError, StopIteration])
def test_a_source_in_front_of_timers_fails_as_others_do(error: type[Exception]) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise error("the line is dead")

    with pytest.raises(
        engine.OperatorError, match=r"Error: .*(the line is dead|StopIter)"
    ) as caught:
        run(source(Function(broken)).then(Comes()).sink(Collect()))
    assert caught.value.operator == "function"
    assert "in broken" in str(caught.value)


class Beside(BatchOperator):
    """Takes a second input, and has a timer that a record of it sets."""

    properties = Properties(side_input=True, holds_records=True)

    def open(self, context: TaskContext) -> BatchFunction:
        assert context.gate is not None
        return _Beside(context.gate)


class _Beside(BatchFunction):
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def process(self, batch: list[Any]) -> list[Any]:
        return batch

    def take_side(self, records: list[Any]) -> None:
        self.next_timer = 0

    def on_timer(self, now_ns: int) -> Iterable[list[Any]]:
        self._gate.resume()
        yield ["timer"]


def test_a_side_input_may_set_a_timer() -> None:
    limits = source(Collection([1])).broadcast()
    numbers = source(Collection([1, 2])).then(Beside(), side=limits)
    assert run(numbers.sink(Collect()))["collect"] == ["timer", 1, 2]
