"""Random jobs that are stopped and go on with other tasks, and what has to come out of them.

Each has a source of several splits, in order by themselves, and an operator that goes by event
time. Everything follows from the seed but where the job is stopped, which nothing may depend on.
"""

from __future__ import annotations

import gzip
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from engine.config import JobConfig
from engine.errors import CheckpointError, JobCancelled
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing.threads import ThreadLauncher
from operators import (
    Count,
    CountDistinct,
    ListState,
    ProcessContext,
    ProcessFunction,
    Session,
    Sliding,
    Stream,
    Sum,
    TaskContext,
    Tumbling,
    ValueState,
    source,
)
from operators.sinks import Collect
from operators.sources import At, Collection, Function, TextFiles

Record = tuple[int, int, int]
"""Key, time, number."""
BASE = 1_700_000_000_000_000
NAMES = ("key", "time", "n")
WIDTH, SLIDE, GAP, LOW, HIGH = 40, 10, 7, -5, 9


def values(row: Any) -> Any:
    return tuple(row.values())


def us(count: int) -> timedelta:
    return timedelta(microseconds=count)


class Brake:
    """Slows sources down behind so many records, so that a job can be stopped in between.

    And fails once behind so many.
    """

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._left = self._until_failure = 0
        self._lock = threading.Lock()

    def set(self, records: int | None, until_failure: int | None = None) -> None:
        """None lets all pass."""
        self.reached.clear()
        self._left = _ALL if records is None else records
        self._until_failure = _ALL if until_failure is None else until_failure

    def passing(self, batch: Any) -> Any:
        with self._lock:
            self._left -= len(batch)
            is_reached = self._left <= 0
            self._until_failure -= len(batch)
            if self._until_failure <= 0:
                self._until_failure = _ALL
                raise RuntimeError("this comes once")
        if is_reached:
            self.reached.set()
            time.sleep(0.003)
        return batch


_ALL = 1 << 60
BRAKE = Brake()


def braked(batch: Any) -> Any:
    return BRAKE.passing(batch)


def parsed(line: str) -> Record:
    key, time_, n = line.split(",")
    return int(key), int(time_), int(n)


def as_dict(record: Record) -> dict[str, int]:
    return dict(zip(NAMES, record, strict=True))


class InOrder(ProcessFunction):
    """Numbers of a key in the order of their times, as the watermark passes these."""

    waiting = ListState[Any]()
    passed = ValueState[int](0)

    def process(self, record: Any, context: ProcessContext) -> list[Any]:
        self.waiting.append((record[1], record[2]))
        context.set_timer(record[1], name=str(record[1]))
        return [(context.key, *record[1:], "late")] if record[1] <= self.passed else []

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        self.passed = time
        waiting = [tuple(each) for each in self.waiting]
        self.waiting = [each for each in waiting if each[0] > time]
        return [(context.key, *each) for each in sorted(waiting) if each[0] <= time]


@dataclass
class Job:
    """What a seed stands for."""

    seed: int
    folder: Path
    parallelisms: list[int] = field(init=False)
    left: list[list[Record]] = field(init=False)
    """Splits, each in the order of its times."""
    right: list[list[Record]] = field(init=False)
    stops: int = 0
    """How often it was stopped and went on."""

    def __post_init__(self) -> None:
        chance = self._chance = random.Random(f"rescale {self.seed}")
        self.parallelisms = [chance.randint(1, 5) for _ in range(chance.randint(2, 4))]
        self.kind = chance.choice(list(KINDS))
        self.columns = chance.random() < 0.4 and KINDS[self.kind].of_columns
        self.source = chance.choice(["files", "files", "collection", "function"])
        self.batch_size = chance.choice([1, 3, 10, 40])
        self.rate = chance.choice([None, None, 5000.0])
        self.numbers = iter(range(1 << 30))
        self.left = self._splits()
        self.right = self._splits() if KINDS[self.kind].joins else []

    def _splits(self) -> list[list[Record]]:
        chance = self._chance
        count = chance.randint(1, 6)
        shape = chance.choice(["rising", "alike", "any"])
        made = []
        for number in range(count):
            records = chance.randint(0, 120)
            begin = {"rising": number * 150, "alike": 0, "any": chance.randint(0, 600)}[shape]
            times = sorted(BASE + begin + chance.randint(0, 150) for _ in range(records))
            made.append([(chance.randint(0, 4), at, next(self.numbers)) for at in times])
        if self.source == "collection":  # whose shares are parts of one list
            return [sorted((each for split in made for each in split), key=lambda each: each[1])]
        return made

    @property
    def records(self) -> int:
        return sum(map(len, (*self.left, *self.right)))

    def expected(self) -> list[Any]:
        left = [record for split in self.left for record in split]
        right = [record for split in self.right for record in split]
        return sorted(KINDS[self.kind].expected(left, right))

    def pipeline(self) -> Any:
        kind = KINDS[self.kind]
        left = self._stream("left", self.left)
        right = self._stream("right", self.right) if kind.joins else left
        made = kind.make(left, right, NAMES if self.columns else (0, 1, 2))
        if self.columns:
            out = made.to_records().map(values)
        else:
            out = made if kind.flat is None else made.flat_map(kind.flat)
        if not kind.has_late:
            return [out.sink(Collect()).named("out")]
        late = made.side("late").to_records().sink(Collect()).named("late")
        return [out.sink(Collect()).named("out"), late]

    def _stream(self, name: str, splits: list[list[Record]]) -> Stream[Any]:
        stream = self._source(name, splits).map_batches(braked)
        if self.columns and self.source != "collection":
            schema = pa.schema([(name, pa.int64()) for name in NAMES])
            stream = stream.map(as_dict).to_columns(schema)
        return stream.with_event_time("time" if self.columns else 1)

    def _source(self, name: str, splits: list[list[Record]]) -> Stream[Any]:
        if self.source == "files":
            folder = self.folder / name
            if not folder.exists():
                self._write(folder, splits)
            return source(TextFiles(folder / "*", rate=self.rate)).map(parsed)
        if self.source == "function":

            def share(context: TaskContext, position: Any) -> Iterator[At]:
                at = position or 0
                own = splits[context.index] if context.index < len(splits) else []
                for first in range(at, len(own), 4):
                    yield At(first + 4, own[first : first + 4])

            return source(Function(share, rate=self.rate))
        (records,) = splits
        if self.columns:
            size = self.batch_size
            rows = [
                list(map(as_dict, records[at : at + size])) for at in range(0, len(records), size)
            ]
            schema = pa.schema([(name, pa.int64()) for name in NAMES])
            batches = [pa.RecordBatch.from_pylist(each, schema) for each in rows]
            return source(Collection(batches, rate=self.rate))
        return source(Collection(records, rate=self.rate))

    def _write(self, folder: Path, splits: list[list[Record]]) -> None:
        chance = random.Random(f"files {self.seed}")
        folder.mkdir(parents=True)
        for number, split in enumerate(splits):
            text = "".join(f"{key},{at},{n}\n" for key, at, n in split).encode()
            if chance.random() < 0.25:
                (folder / f"{number}.txt.gz").write_bytes(gzip.compress(text))
            else:
                (folder / f"{number}.txt").write_bytes(text)

    def run(self) -> dict[str, Any]:
        """What comes out, in the end, of all attempts together."""
        if self.source == "function":  # each split is a share of the first start
            self.parallelisms[0] = max(len(self.left), len(self.right), 1)
        stops = random.Random(f"stops {self.seed}")
        most = 2 * self.records // len(self.parallelisms)
        settings = {"batch_size": self.batch_size, "folder": self.folder}
        for parallelism in self.parallelisms[:-1]:
            failure = stops.randint(1, most + 1) if stops.random() < 0.3 else None
            stop = stops.randint(0, most)
            outputs = run(self.pipeline, parallelism, stop, failure, **settings)
            if outputs is not None:
                return outputs  # it has ended before
            self.stops += 1
        outputs = run(self.pipeline, self.parallelisms[-1], **settings)
        assert outputs is not None
        return outputs


def run(
    pipeline: Callable[[], Any],
    parallelism: int,
    records: int | None = None,
    until_failure: int | None = None,
    *,
    folder: Path,
    batch_size: int,
) -> dict[str, Any] | None:
    """Go on with a job that has its checkpoints in the folder, and stop it behind so many records.

    It may fail once before. Its outputs; None where it has stopped.
    """
    config = JobConfig(
        name="rescales",
        progress="none",
        parallelism=parallelism,
        batch_size=batch_size,
        checkpoints=str(folder / "checkpoints"),
        resume="latest",
        checkpoint_interval_seconds=600.0,
    )
    BRAKE.set(records, until_failure)
    handle = JobHandle(Plan.of(pipeline(), config), ThreadLauncher())
    try:
        if records is not None:
            while not BRAKE.reached.wait(0.01) and "running" in repr(handle):
                pass
            with suppress(CheckpointError):  # it may have ended before
                handle.savepoint(f"stop-{uuid4().hex}", stop="now")
        return handle.wait_finished().outputs
    except JobCancelled:
        return None
    finally:
        handle.cancel()
        handle.wait_stopped()


def windows_of(at: int, slide: int) -> range:
    """Where the windows begin that a time is in."""
    last = at - at % slide
    return range(last - WIDTH + slide, last + slide, slide)


def tumbled(records: list[Record], _right: Any, slide: int = WIDTH) -> Iterator[Any]:
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for key, at, _ in records:
        for start in windows_of(at, slide):
            counts[key, start] += 1
    for (key, start), count in counts.items():
        yield key, count, start, start + WIDTH


def slid(records: list[Record], _right: Any) -> Iterator[Any]:
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for key, at, n in records:
        for start in windows_of(at, SLIDE):
            sums[key, start] += n
    for (key, start), total in sums.items():
        yield key, total, start, start + WIDTH


def sessions(records: list[Record], _right: Any) -> Iterator[Any]:
    of_key: dict[int, list[int]] = defaultdict(list)
    for key, at, _ in records:
        of_key[key].append(at)
    for key, times in of_key.items():
        times.sort()
        begin, last, count = times[0], times[0], 0
        for at in times:
            if at - last >= GAP:
                yield key, count, begin, last + GAP
                begin, count = at, 0
            last, count = at, count + 1
        yield key, count, begin, last + GAP


def near(left: list[Record], right: list[Record]) -> Iterator[Any]:
    for one in left:
        for other in right:
            if one[0] == other[0] and LOW <= other[1] - one[1] <= HIGH:
                yield (*one, *other)


def together(left: list[Record], right: list[Record]) -> Iterator[Any]:
    for one in left:
        for other in right:
            if one[0] == other[0] and one[1] // WIDTH == other[1] // WIDTH:
                yield (*one, *other)


def apart(records: list[Record], _right: Any) -> Iterator[Any]:
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for key, at, _ in records:
        if at % WIDTH < GAP:
            counts[key, at - at % WIDTH] += 1
    for (key, start), count in counts.items():
        yield key, count, start, start + GAP


def summed(records: list[Record], _right: Any) -> Iterator[Any]:
    for key, at, n in records:
        seen = [m for other, time_, m in records if other == key and at - WIDTH <= time_ <= at]
        yield key, at, n, sum(seen), len(set(seen))


def whenever(left: list[Record], right: list[Record]) -> Iterator[Any]:
    yield from ((*one, *other) for one in left for other in right if one[0] == other[0])


def accompanied(left: list[Record], right: list[Record]) -> Iterator[Any]:
    keys = {key for key, *_ in right}
    yield from (record for record in left if record[0] in keys)


def greatest(records: list[Record], _right: Any) -> Iterator[Any]:
    for key in {key for key, *_ in records}:
        own = sorted((each for each in records if each[0] == key), key=lambda each: -each[2])
        yield from ((*each, rank) for rank, each in enumerate(own[:3], 1))


def counted(records: list[Record], _right: Any) -> Iterator[Any]:
    if records:
        yield len(records), sum(n for *_, n in records)


def in_order(records: list[Record], _right: Any) -> Iterator[Any]:
    yield from records


Make = Callable[[Any, Any, Any], Stream[Any]]


def pair(one: Record, other: Record) -> tuple[int, ...]:
    return (*one, *other)


def _joined(left: Any, right: Any, names: Any, method: str, **settings: Any) -> Stream[Any]:
    one, other = left.key_by(names[0]), right.key_by(names[0])
    function = () if names == NAMES else (pair,)
    made: Stream[Any] = getattr(one, method)(
        other, *settings.pop("first", ()), *function, **settings
    )
    return made


class Kind(NamedTuple):
    """A kind of job."""

    make: Make
    expected: Callable[[Any, Any], Iterator[Any]]
    joins: bool = False
    has_late: bool = True
    of_columns: bool = True
    flat: Callable[[Any], list[Any]] | None = None
    """What a result of records is as rows, where it is none."""


KINDS: dict[str, Kind] = {
    "tumbling": Kind(
        lambda s, _, names: s.key_by(names[0]).window(Tumbling(us(WIDTH))).count(),
        tumbled,
    ),
    "sliding": Kind(
        lambda s, _, names: s.key_by(names[0]).window(Sliding(us(WIDTH), us(SLIDE))).sum(names[2]),
        slid,
    ),
    "windows with gaps": Kind(
        lambda s, _, names: s.key_by(names[0]).window(Sliding(us(GAP), us(WIDTH))).count(),
        apart,
    ),
    "sessions": Kind(
        lambda s, _, names: s.key_by(names[0]).window(Session(us(GAP))).count(),
        sessions,
    ),
    "over": Kind(
        lambda s, _, names: (
            s.key_by(names[0])
            .over(us(WIDTH))
            .aggregate(sum=Sum(names[2]), different=CountDistinct(names[2]))
        ),
        summed,
        flat=lambda result: [(*result[0], *result[1].values())],
    ),
    "sort": Kind(lambda s, _, names: s.key_by(names[0]).sort_by_time(), in_order),
    "top": Kind(
        lambda s, _, names: s.key_by(names[0]).top_n(3, names[2], emit="final"),
        greatest,
        has_late=False,
        flat=lambda result: [(*each, rank) for rank, each in enumerate(result[1], 1)],
    ),
    "without a key": Kind(
        lambda s, _, names: s.aggregate(n=Count(), sum=Sum(names[2]), emit="final"),
        counted,
        has_late=False,
        flat=lambda result: [tuple(result.values())],
    ),
    "interval join": Kind(
        lambda left, right, names: _joined(
            left, right, names, "interval_join", between=(us(LOW), us(HIGH))
        ),
        near,
        joins=True,
    ),
    "window join": Kind(
        lambda left, right, names: _joined(
            left, right, names, "window_join", first=(Tumbling(us(WIDTH)),)
        ),
        together,
        joins=True,
    ),
    "join": Kind(
        lambda left, right, names: _joined(left, right, names, "join"),
        whenever,
        joins=True,
        has_late=False,
    ),
    "semi join": Kind(
        lambda left, right, names: left.key_by(names[0]).semi_join(right.key_by(names[0])),
        accompanied,
        joins=True,
        has_late=False,
    ),
    "process": Kind(
        lambda s, _, names: s.key_by(names[0]).process(InOrder()),
        in_order,
        has_late=False,
        of_columns=False,
    ),
}
