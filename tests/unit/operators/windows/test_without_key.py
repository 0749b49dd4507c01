"""Windows without a key in two stages beside one: late records, idle tasks, rescales."""

from __future__ import annotations

import random
from collections import deque
from datetime import timedelta
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest

from engine.graph.context import TaskContext
from engine.network import Batch
from engine.state import KeyedState
from engine.testing import run
from operators import (
    Count,
    CountDistinct,
    CountWindow,
    Every,
    First,
    Last,
    Max,
    Min,
    Session,
    Sliding,
    Sum,
    Tumbling,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection
from operators.windows.whole import WholeWindows
from tests.windowing import us

PROGRAMS = 12
"""Random ones of each cell; 4,928 in all by hand."""
SCHEMA = pa.schema([("t", pa.int64()), ("n", pa.int64())])
WANTED: dict[str, Any] = {
    "c": Count(), "s": Sum("n"), "low": Min("n"), "d": CountDistinct("n"), "f": First("n"),
    "l": Last("n"), "big": Count(where="big"),
}  # fmt: skip


class Stages:
    """The tasks of both stages, and one task that has all records, with what each has given."""

    def __init__(self, windows: Any, columns: bool) -> None:
        wanted = {name: each for name, each in WANTED.items() if name != "big" or not columns}
        (edge,) = windows.aggregate(**wanted).inputs
        self._whole = edge.source.operator
        assert isinstance(self._whole, WholeWindows)
        self._parts = edge.source.inputs[0].source.operator
        self._columns = columns
        self._states: Any = ([], [], [])
        self.watermark = -(10**9)
        self.begin(1)

    def begin(self, tasks: int, least: int | None = None) -> None:
        """Have so many tasks go on with what was kept."""
        self.late: list[list[Any]] = [[], []]
        self.parts = [self._open(self._parts, 0, index, tasks) for index in range(tasks)]
        self.ends = [self._open(self._whole, 1), self._open(self._whole.of_all, 2)]
        for function in self.ends:
            list(function.on_watermark(self.watermark) or ())
        self.told: list[int | None] = [-(10**9)] * tasks
        """How far each task is, as the second stage knows; None of one that is idle."""
        self.reached = [-(10**9) if least is None else least] * tasks
        """How far it is."""
        self.queues: list[deque[Any]] = [deque() for _ in range(tasks)]
        for part in self.parts if least is not None else ():
            part.on_watermark(least)

    def _open(self, operator: Any, at: int, index: int = 0, tasks: int = 1) -> Any:
        take = self.late[at - 1]
        sides = {"late": lambda late: take.extend(late.to_pylist() if self._columns else late)}
        settings: Any = {"side_outputs": sides if at else {}, "checkpoints": True}
        function = operator.open(TaskContext("t", index, tasks, 1000, "job", **settings))
        if self._states[at]:
            function.restore(KeyedState.share(self._states[at], index, tasks))
        return function

    def save(self) -> None:
        while any(self.queues):
            for queue in self.queues:
                self.deliver(queue)
        self._states = [[each.snapshot()] for each in self.ends]
        self._states.insert(0, [each.snapshot() for each in self.parts])

    def send(self, task: int, rows: list[Any]) -> None:
        given: Any = pa.RecordBatch.from_pylist(rows, SCHEMA) if self._columns else rows
        whole = Batch.from_columns if self._columns else Batch.from_list
        self.queues[task].append((self.parts[task].process(given), whole(given)))

    def advance(self, task: int, watermark: int) -> None:
        if watermark > self.reached[task]:
            self.reached[task] = watermark
            self.parts[task].on_watermark(watermark)
        self.queues[task].append((task, self.reached[task]))

    def rest(self, task: int) -> None:
        self.parts[task].on_idle()
        self.queues[task].append((task, None))

    def deliver(self, queue: deque[Any]) -> None:
        """What arrives in the second stage, with equal results of both ways."""
        if not queue:
            return
        first, second = queue.popleft()
        if isinstance(first, list):
            assert self._rows([self.ends[0].process(first)] if first else []) == self._rows(
                [self.ends[1].process(second)]
            )
        else:
            self.told[first] = second
            known = [each for each in self.told if each is not None]
            if known and min(known) > self.watermark:
                self.watermark = min(known)
                left, right = (each.on_watermark(self.watermark) or () for each in self.ends)
                assert self._rows(left) == self._rows(right)
        self.check_late()

    def check_late(self) -> None:
        assert self.ends[0].late == self.ends[1].late
        assert sorted(map(repr, self.late[0])) == sorted(map(repr, self.late[1]))

    def tick(self) -> None:
        left, right = (each.on_timer(0) or () for each in self.ends)
        assert self._rows(left) == self._rows(right)

    def end(self) -> None:
        self.save()
        left, right = (each.on_end() for each in self.ends)
        assert self._rows(left) == self._rows(right)
        self.check_late()

    def _rows(self, batches: Any) -> list[str]:
        rows = [row for b in batches for row in (b.to_pylist() if len(b) and self._columns else b)]
        return sorted(map(repr, rows))


ASSIGNERS = [Tumbling(us(10)), Sliding(us(12), us(5)), Sliding(us(4), us(9))]


@pytest.mark.table(2)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("emit", ["final", "updates", Every(us(1))], ids=str)
@pytest.mark.parametrize("assigner", ASSIGNERS, ids=str)
def test_both_ways_give_the_same(assigner: Any, emit: Any, columns: bool) -> None:
    for seed in range(PROGRAMS):
        chance = random.Random(seed)
        lateness = us(0 if isinstance(emit, Every) else chance.choice([0, 0, 9]))
        timed = source(Collection([])).with_event_time("t")
        windows = timed.window(assigner, allowed_lateness=lateness, emit=emit)
        stages = Stages(windows, columns)
        stages.begin(chance.randint(1, 4))
        clock = 0
        for _ in range(60):
            task = chance.randrange(len(stages.parts))
            clock += chance.randint(0, 3)
            what = chance.random()
            if what < 0.4:
                rows: list[Any] = [
                    {"t": clock - chance.choice([0, 2, 9, 30]), "n": chance.randint(-5, 5)}
                    for _ in range(chance.randint(1, 5))
                ]
                for row in rows:
                    row["big"] = row["n"] > 2
                    if columns and chance.random() < 0.2:
                        row["n"] = None
                stages.send(task, rows)
            elif what < 0.65:
                stages.advance(task, clock - chance.choice([1, 8]))
            elif what < 0.7:
                stages.rest(task)
            elif what < 0.73:
                stages.tick()
            elif what < 0.76:
                stages.save()
                stages.begin(chance.randint(1, 4), min(stages.reached))
            else:
                stages.deliver(stages.queues[task])
        stages.end()


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("columns", [False, True])
def test_a_job(columns: bool, parallelism: int) -> None:
    rows = [{"t": at, "n": at % 7} for at in range(100)]
    given: Any = [pa.RecordBatch.from_pylist(rows[at : at + 9]) for at in range(0, 100, 9)]
    records = source(Collection(given if columns else rows)).with_event_time("t")
    hours = records.window(Tumbling(us(30))).aggregate(n=Count(), most=Max("n"))
    found = run(hours.sink(Collect()), parallelism=parallelism)["collect"]
    if columns:
        found = [
            ({"n": row["n"], "most": row["most"]}, row["window_start"], row["window_end"])
            for batch in found
            for row in batch.to_pylist()
        ]
    sizes = [(30, 0), (30, 30), (30, 60), (10, 90)]
    assert sorted(found, key=itemgetter(1)) == [
        ({"n": n, "most": 6}, at, at + 30) for n, at in sizes
    ]


def test_what_has_one_stage_and_what_two() -> None:
    timed = source(Collection([(1, 2)])).with_event_time(0)
    minute = timedelta(minutes=1)
    for stream, stages in [
        (timed.window(Tumbling(minute)).count(), 2),
        (timed.window(Sliding(minute, minute / 2)).max(1), 2),
        (timed.window(Tumbling(minute)).count(on_error="skip"), 1),
        (timed.window(Session(minute)).count(), 1),
        (timed.window(CountWindow(5)).count(), 1),
        (timed.window(Tumbling(minute)).collect(), 1),
    ]:
        whole = stream.inputs[0].source
        assert whole.inputs[0].source.name.endswith("_parts") == (stages == 2)
        assert whole.operator.properties.alone
