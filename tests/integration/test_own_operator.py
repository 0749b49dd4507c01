"""Operators as a user writes them, in jobs of processes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import engine
from operators import (
    BatchFunction,
    BatchOperator,
    Gate,
    Properties,
    SinkOperator,
    SinkWriter,
    SourceOperator,
    TaskContext,
    Watermark,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection, Function
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("nothing_left")


@dataclass(frozen=True)
class Medians(BatchOperator):
    """The median of each key's numbers, at the end; what is no number is counted as a failure."""

    folder: Path

    def open(self, context: TaskContext) -> BatchFunction:
        return _Medians(self.folder / f"closed-{context.index}", context.batch_size)


class _Medians(BatchFunction):
    def __init__(self, closed: Path, batch_size: int) -> None:
        self._closed = closed
        self._batch_size = batch_size
        self._of_key: dict[str, list[float]] = {}

    def process(self, batch: list[tuple[str, str]]) -> list[Any]:
        for key, text in batch:
            try:
                self._of_key.setdefault(key, []).append(float(text))
            except ValueError:
                self.failures += 1
        return []

    def on_end(self) -> Iterable[list[Any]]:
        found = [(key, sorted(of)[len(of) // 2]) for key, of in self._of_key.items()]
        for start in range(0, len(found), self._batch_size):
            yield found[start : start + self._batch_size]

    def close(self) -> None:
        self._closed.touch()


def test_an_operator_with_state_emits_at_the_end(tmp_path: Path) -> None:
    pairs = [(key, str(n)) for n in range(11) for key in "abc"] + [("a", "x")]
    medians = source(Collection(pairs)).key_by(0).then(Medians(tmp_path))
    doubled = medians.map(lambda pair: (pair[0], pair[1] * 2)).sink(Collect())
    result = engine.execute(doubled, parallelism=2, batch_size=2, progress="none")
    assert sorted(result.output) == [("a", 10.0), ("b", 10.0), ("c", 10.0)]
    told = {each.name: each for each in result.statistics.operators}["medians"]
    assert (told.records_in, told.records_out, told.failures) == (34, 3, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed-0", "closed-1"]


class Least(BatchOperator):
    """Numbers that are not below a limit, which comes as a second input; without one, none."""

    properties = Properties(side_input=True, holds_records=True)

    def open(self, context: TaskContext) -> BatchFunction:
        assert context.gate is not None
        return _Least(context.gate)


class _Least(BatchFunction):
    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._least = 0

    def process(self, batch: list[int]) -> list[int]:
        return [n for n in batch if n >= self._least]

    def take_side(self, records: list[int]) -> None:
        self._least = records[-1]
        if self._least < 0:
            self._gate.fail(ValueError(f"the least is {self._least}"))
        self._gate.resume()


def test_an_operator_with_a_second_input_holds_its_records() -> None:
    limits = source(Collection([97])).broadcast()
    numbers = source(Collection(range(100))).then(Least(), side=limits)
    result = engine.execute(numbers.sink(Collect()), parallelism=2, progress="none")
    assert sorted(result.output) == [97, 98, 99]


def test_an_operator_may_end_its_task() -> None:
    limits = source(Collection([-1])).broadcast()
    numbers = source(Collection(range(100))).then(Least(), side=limits)
    with pytest.raises(engine.OperatorError, match="the least is -1") as caught:
        engine.execute(numbers.sink(Collect()), progress="none")
    assert caught.value.operator == "least"


class Hours(BatchOperator):
    """How many records of each key there were up to each watermark, and to the end, which is 50."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Hours()


class _Hours(BatchFunction):
    def __init__(self) -> None:
        self._times: list[tuple[str, int]] = []

    def process(self, batch: list[tuple[str, int]]) -> list[Any]:
        self._times += batch
        return []

    def on_watermark(self, watermark_us: int) -> Iterable[list[Any]]:
        yield self._counts(watermark_us)

    def on_end(self) -> Iterable[list[Any]]:
        yield self._counts(50)

    def _counts(self, until: int) -> list[Any]:
        ripe = [each for each in self._times if each[1] <= until]
        self._times = [each for each in self._times if each not in ripe]
        return [(key, until, n) for key, n in Counter(key for key, _ in ripe).items()]


def hours(context: TaskContext) -> Iterator[Any]:
    """Ten records of each key in each of these; those of the other task come in another order."""
    for hour in range(5):
        for time in range(10) if context.index else reversed(range(10)):
            yield [(key, 10 * hour + time + 1) for key in "abc"]
        yield Watermark(10 * (hour + 1))


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_an_operator_gives_what_is_ripe_at_a_watermark(transport: str) -> None:
    counts = source(Function(hours)).key_by(0).then(Hours())
    summed = counts.key_by(0, 1).reduce(lambda a, b: (*a[:2], a[2] + b[2]), emit="final")
    result = engine.execute(
        summed.sink(Collect()), parallelism=2, progress="none", transport=transport
    )
    # Watermarks that come together are told as one, the last.
    of_key = {key: [hour for of, hour, _ in result.output if of == key] for key in "abc"}
    assert sorted(result.output) == [
        (key, hour, 20 * (hour - before) // 10)
        for key, told in of_key.items()
        for before, hour in itertools.pairwise([0, *sorted(told)])
    ]
    assert all(told and max(told) == 50 for told in of_key.values())


class Touched(BatchOperator):
    """Makes a file when its timer is due, which is at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, context: TaskContext) -> BatchFunction:
        return _Touched(self.path, context)


class _Touched(BatchFunction):
    def __init__(self, path: Path, context: TaskContext) -> None:
        self._path = path / str(context.index)
        self.next_timer = context.now_ns() + 1_000_000

    def process(self, batch: list[Any]) -> list[Any]:
        return batch

    def on_timer(self, now_ns: int) -> Iterable[list[Any]]:
        self._path.touch()
        return [["timer"]]


@pytest.mark.parametrize("shuffled", [False, True])
def test_timers_are_called_while_nothing_comes(tmp_path: Path, shuffled: bool) -> None:
    def given() -> Iterator[str]:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        yield "record"

    words: Any = source(Function(given))
    words = words.rebalance() if shuffled else words
    timers = words.then(Touched(tmp_path)).sink(Collect())
    result = engine.execute(timers, parallelism=2, progress="none")
    assert sorted(result.output) == ["record"] * 2 + ["timer"] * 2


class Unclosable(BatchOperator):
    """An operator that cannot be closed, and may fail before that."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails

    def open(self, context: TaskContext) -> BatchFunction:
        return _Unclosable(self.fails)


class _Unclosable(BatchFunction):
    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def process(self, batch: list[int]) -> list[int]:
        return [1 // 0] if self._fails else batch

    def close(self) -> None:
        raise OSError("it is stuck")


def test_what_cannot_be_closed_is_told_and_hides_no_failure(
    capfd: pytest.CaptureFixture[str],
) -> None:
    numbers = source(Collection([1]))
    result = engine.execute(numbers.then(Unclosable(False)).sink(Collect()), progress="none")
    assert result.output == [1]
    assert "operator 'unclosable' could not be closed: it is stuck" in capfd.readouterr().err
    with pytest.raises(engine.OperatorError, match="ZeroDivisionError") as caught:
        engine.execute(numbers.then(Unclosable(True)).sink(Collect()), progress="none")
    assert caught.value.operator == "unclosable"


class Ticks(SourceOperator[int]):
    """Numbers at a rate, from one task."""

    properties = Properties(parallelism=1, rate=200.0)

    def open(self, context: TaskContext) -> Iterable[list[int]]:  # type: ignore[override]
        return ([n] for n in range(20))


class Total(SinkOperator[int]):
    """The sum of all, at the driver."""

    properties = Properties(driver=True)

    def open(self, context: TaskContext) -> SinkWriter:
        return _Total()

    def commit(self, epoch: int, committed: list[int]) -> int:
        return sum(committed)


class _Total(SinkWriter):
    total = 0

    def write(self, records: list[int]) -> None:
        self.total += sum(records)

    def prepare(self, epoch: int) -> int:
        return self.total


def test_a_source_and_a_sink_say_what_they_are_in_their_properties() -> None:
    result = engine.execute(source(Ticks()).sink(Total()), parallelism=2, progress="none")
    assert result.outputs == {"total": sum(range(20))}
    assert result.statistics.elapsed_seconds >= 0.09  # the last is due 95 ms after the first
