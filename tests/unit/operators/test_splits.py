"""Event time of a task that reads several splits, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.graph.batch_operator import BatchFunction
from engine.graph.context import TaskContext
from engine.graph.splits import Splits
from engine.state import KeyedState
from engine.testing import VirtualClock, run
from operators import BatchOperator, Tumbling, source
from operators.event_time.selector import TimeSelector
from operators.event_time.watermarks import WithEventTime
from operators.sinks import Collect
from operators.sources import TextFiles
from tests.watermarks import Told

BASE = 1_700_000_000_000_000
A, B = (0, None), (1, None)


class Reading:
    """The function of `with_event_time` in a task that reads splits, and its clock."""

    def __init__(self, *splits: Any, columns: bool = False, **settings: Any) -> None:
        self.now_ns = 0
        self.columns = columns
        self.splits = Splits()
        context = TaskContext("t", 0, 1, 100, "job", now_ns=lambda: self.now_ns)
        selector = TimeSelector.of("with_event_time", "at" if columns else 0, "us")
        declared = WithEventTime(selector, **settings)
        self.function = declared.open(replace(context, splits=self.splits))
        self.begin = lambda: self.splits.begin(splits)

    def take(self, split: Any, *times: int) -> Any:
        """The watermark behind a batch of this split; "-" where there is none."""
        self.splits.current = split
        times = tuple(BASE + time for time in (*times, *times[-1:]))  # one alone is not believed
        batch: Any = [(time,) for time in times]
        if self.columns and times:
            batch = pa.RecordBatch.from_pydict({"at": list(times)})
        self.function.process(batch)
        return self.told()

    def pass_time(self, ns: int) -> Any:
        """The same behind the timers that are due meanwhile."""
        self.now_ns += ns
        while (due := self.function.next_timer) is not None and due <= self.now_ns:
            self.function.next_timer = None
            self.function.on_timer(self.now_ns)
        return self.told()

    def told(self) -> Any:
        self.now_ns += 3_000_000
        made, self.function.watermark = self.function.watermark, None
        if made is None:
            return "-"
        return made.time_us if made.time_us is None else made.time_us - BASE


@pytest.mark.parametrize("columns", [False, True])
def test_the_split_that_is_furthest_behind_counts(columns: bool) -> None:
    reading = Reading(A, B, columns=columns)
    reading.begin()
    assert reading.take(A, 50, 60) == "-"  # of B nothing is known
    assert reading.take(B, 10) == 9
    assert reading.take(B, 70) == 59
    assert reading.take(B, 80) == "-"
    assert reading.take(A, 75) == 74


def test_a_split_that_has_ended_does_not_count() -> None:
    reading = Reading(A, B)
    reading.begin()
    reading.take(A, 60)
    reading.take(B, 10)
    reading.splits.end(B)
    reading.take(B)
    assert reading.pass_time(3_000_000) == 59
    reading.splits.end(A)
    reading.take(A)
    assert reading.pass_time(3_000_000) == "-"


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_each_split_goes_on_where_it_was(parallelism: int) -> None:
    first = Reading(A, B, (2, "x"), (2, "y"))
    first.begin()
    for split, time in ((A, 60), (B, 10), ((2, "x"), 30), ((2, "y"), 40)):
        first.take(split, time)
    first.splits.end((2, "y"))
    state = first.function.snapshot()
    assert state is not None
    for index in range(parallelism):
        own = [split for split in (A, B, (2, "x")) if split[0] % parallelism == index]
        second = Reading(*own)
        second.function.restore(KeyedState.share([state], index, parallelism))
        second.begin()
        second.take(own[0])
        least = min({A: 60, B: 10, (2, "x"): 30}[split] for split in own)
        assert second.pass_time(3_000_000) == least - 1
        assert second.take(own[-1], 5) == "-"


def test_one_time_of_all_is_gone_on_with_as_before() -> None:
    """So it was kept before there were splits, and is behind a channel."""
    kept = [KeyedState.of((), own=(index, [BASE + time])) for index, time in ((0, 60), (1, 40))]
    behind = Reading()
    behind.function.restore(KeyedState.share(kept, 0, 1))
    state = behind.function.snapshot()
    assert state is not None
    assert state.own == [[BASE + 40]]
    of_source = Reading(A, B)
    of_source.function.restore(KeyedState.share(kept, 0, 1))
    of_source.begin()
    of_source.take(A, 50)
    assert of_source.take(B, 20) == 39


def test_a_silent_split_is_left_out_where_others_go_on() -> None:
    second = 1_000_000_000
    reading = Reading(A, B, idle_after=timedelta(seconds=1))
    reading.begin()
    reading.take(B, 5)
    for time in range(10, 60, 10):
        reading.take(B)
        reading.take(A, time)
        reading.pass_time(second // 3)
    assert reading.take(A, 70) == 69
    assert reading.take(B, 80) == "-"
    assert reading.take(A, 90) == 79


def test_when_one_goes_on_behind_a_pause_of_all_the_others_are_not_waited_for() -> None:
    reading = Reading(A, B, idle_after=timedelta(seconds=1))
    reading.begin()
    reading.take(A, 10)
    assert reading.take(B, 20) == 9
    assert reading.pass_time(600_000_000) == "-"
    assert reading.pass_time(600_000_000) is None
    assert reading.take(A, 50) == 49


class Delayed(BatchOperator):
    """Gives each batch with the next one."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Delayed()


class _Delayed(BatchFunction):
    def __init__(self) -> None:
        self.batch: list[Any] = []

    def process(self, batch: list[Any]) -> list[Any]:
        self.batch, given = batch, self.batch
        return given

    def on_end(self) -> Iterator[list[Any]]:
        yield self.batch


def sizes(stream: Any) -> tuple[list[Any], list[Any]]:
    """Results of windows of ten seconds, and what was late."""
    windows = stream.with_event_time(None, unit="s").key_by(lambda time: 0)
    counted = windows.window(Tumbling(timedelta(seconds=10))).count()
    late = counted.side("late").sink(Collect()).named("late")
    found = run([counted.sink(Collect()).named("out"), late], batch_size=5)
    return sorted(found["out"]), found["late"]


@pytest.mark.parametrize("kind", ["map", "flat_map", "map_batches", "with_event_time"])
@pytest.mark.parametrize("ends", [0, 3])
def test_files_of_one_time_range(tmp_path: Path, kind: str, ends: int) -> None:
    """However records come from the source to `with_event_time`."""
    seconds = range(BASE // 1_000_000, BASE // 1_000_000 + 100)
    for name in "abc":
        (tmp_path / name).write_text("".join(f"{second}\n" for second in seconds))
    lines = source(TextFiles(tmp_path / "*", repeat=2 if ends else 1))
    stream: Any = {
        "map": lambda: lines.map(int),
        "flat_map": lambda: lines.flat_map(lambda line: [int(line)]).filter(lambda time: time),
        "map_batches": lambda: lines.map_batches(lambda batch: list(map(int, batch))),
        "with_event_time": lambda: lines.with_event_time(int, unit="s").map(int),
    }[kind]()
    out, late = sizes(stream)
    assert late == []
    assert [count for _, count, _, _ in out] == [60 if ends else 30] * 10


def test_files_whose_times_follow_one_another_are_read_one_behind_the_other(tmp_path: Path) -> None:
    """Windows close as they are read: little is kept."""
    begins = range(BASE // 1_000_000, BASE // 1_000_000 + 400, 100)
    for begin in begins:
        lines = range(begin, begin + 100)
        (tmp_path / f"log.{begin}").write_text("".join(f"{each}\n" for each in lines))
    timed = source(TextFiles(tmp_path / "*")).map(int).with_event_time(None, unit="s")
    given = run(timed.sink(Collect()), batch_size=7)["collect"]
    first = [each for begin in begins for each in (begin, begin + 1)]
    assert given[:8] == first
    assert given[8:] == sorted(set(range(begins[0], begins[0] + 400)) - set(first))
    plain = source(TextFiles(tmp_path / "*")).map(int)
    assert run(plain.sink(Collect()), batch_size=7)["collect"] == list(
        range(begins[0], begins[0] + 400)
    )


def test_an_operator_that_gives_records_later_has_one_time_for_all(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1700000000\n1700000100\n")
    (tmp_path / "b").write_text("1700000000\n1700000100\n")
    told = source(TextFiles(tmp_path / "*")).map(int).then(Delayed())
    stream = told.with_event_time(None, unit="s").then(Told())
    given = run(stream.sink(Collect()), batch_size=1, clock=VirtualClock())["collect"]
    assert [each for each in given if not isinstance(each, tuple)] == [1700000000, 1700000100] * 2
