"""Windows in tests: the operator's tasks without a job, and what plain Python makes of all records.

Records are (key, time, number), times whole microseconds. A run is a list of records and, between
them, watermarks, which are integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from engine.graph.operator import BatchFunction, BatchOperator, TaskContext
from engine.network import partition
from engine.state import KeyedState
from operators import CountWindow, Session, Sliding, Stream, Tumbling, WindowedStream, source
from operators.sources import Collection

Record = tuple[Any, int, int]
Event = Record | int
Result = tuple[Any, Any, Any, Any]


def us(number: int) -> timedelta:
    return timedelta(microseconds=number)


def windowed(*arguments: Any, **settings: Any) -> WindowedStream[Any, Any]:
    """Windows of records by their first item, with their second as their time."""
    return source(Collection([])).with_event_time(1).key_by(0).window(*arguments, **settings)


class Tasks:
    """The tasks of the operator that such a stream ends in, each with its share of the keys."""

    def __init__(
        self, stream: Stream[Any], parallelism: int = 1, states: Iterable[KeyedState] = ()
    ) -> None:
        self.late: list[Any] = []
        self.functions: list[BatchFunction] = []
        operator = stream.inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        states = list(states)
        for index in range(parallelism):
            late = {"late": self.late.extend}
            context = TaskContext("t", index, parallelism, 1000, "job", side_outputs=late)
            function = operator.open(context)
            if states:
                function.restore(KeyedState.share(states, index, parallelism))
            self.functions.append(function)

    def take(self, events: Iterable[Event], batch_size: int = 1) -> list[list[Result]]:
        """What each batch and each watermark gives, where that is anything."""
        found = []
        for batch in batches(events, batch_size):
            given = []
            if isinstance(batch, int):
                for function in self.functions:
                    for results in function.on_watermark(batch) or ():
                        given += results
            else:
                chosen = partition([record[0] for record in batch], len(self.functions))
                for index, function in enumerate(self.functions):
                    own = [each for each, at in zip(batch, chosen, strict=True) if at == index]
                    given += function.process(own) if own else []
            found.append(given)
        return [given for given in found if given]

    def end(self) -> list[list[Result]]:
        """What is left at the end of the input."""
        given = [each for task in self.functions for batch in task.on_end() for each in batch]
        return [given] if given else []

    def snapshot(self) -> list[KeyedState]:
        """What the tasks keep."""
        found = [function.snapshot() for function in self.functions]
        return [each for each in found if each is not None]


def batches(events: Iterable[Event], batch_size: int) -> Iterator[Any]:
    """The records in lists of at most so many, and the watermarks between them."""
    batch: list[Any] = []
    for event in events:
        if isinstance(event, int) or len(batch) == batch_size:
            if batch:
                yield batch
            batch = []
        if isinstance(event, int):
            yield event
        else:
            batch.append(event)
    if batch:
        yield batch


class Expected(NamedTuple):
    """What windows give of a run: per batch, watermark and the end, and the late records."""

    results: list[list[Result]]
    late: list[Record]


def expected(
    assigner: Any, events: Iterable[Event], lateness: int = 0, batch_size: int | None = None
) -> Expected:
    """What comes of it; with a batch size, that of `emit="updates"`, else of `"final"`.

    Values are the numbers of the window's records, in order.
    """
    kind: Any = _Counts
    if isinstance(assigner, Tumbling | Sliding):
        kind = _Slid
    elif isinstance(assigner, Session):
        kind = _Paused
    oracle = kind(assigner, lateness, batch_size is not None)
    results = []
    for batch in batches(events, batch_size or 1):
        if isinstance(batch, int):
            results.append(oracle.watermark(batch))
        else:
            results.append(oracle.records(batch))
    results.append(oracle.watermark(float("inf")))
    return Expected([given for given in results if given], oracle.late)


class _Slid:
    """Tumbling and sliding windows: every window has a list of all its records."""

    def __init__(self, assigner: Tumbling | Sliding, lateness: int, updates: bool) -> None:
        one = timedelta(microseconds=1)
        self.size, self.slide = assigner.size // one, assigner.slide // one
        self.offset = assigner.offset // one
        self.lateness, self.updates = lateness, updates
        self.now = float("-inf")
        self.late: list[Record] = []
        self.windows: dict[tuple[int, Any], list[tuple[int, Record]]] = {}
        """By end and key: the records, and where their slices begin."""

    def records(self, batch: list[Record]) -> list[Result]:
        found: list[Result] = []
        touched: dict[tuple[int, Any], None] = {}
        for record in batch:
            key, time, _ = record
            ends = [end for end in self.ends(time) if end - 1 + self.lateness > self.now]
            if not ends:
                self.late.append(record)
            for end in ends:
                into = self.windows.setdefault((end, key), [])
                into.append((self.slice_start(time), record))
                touched[end, key] = None
                if end - 1 <= self.now and not self.updates:
                    found.append(self.result(end, key))
        if self.updates:
            found += [self.result(end, key) for end, key in touched]
        return found

    def watermark(self, time: float) -> list[Result]:
        before, self.now = self.now, max(self.now, time)
        due = [each for each in self.windows if before < each[0] - 1 <= self.now]
        # A window's keys are in the order of their first records, those of earlier slices first.
        due.sort(key=lambda each: (each[0], min(at for at, _ in self.windows[each])))
        found = [] if self.updates else [self.result(end, key) for end, key in due]
        gone = [each for each in self.windows if each[0] - 1 + self.lateness <= self.now]
        for each in gone:
            del self.windows[each]
        return found

    def result(self, end: int, key: Any) -> Result:
        ordered = sorted(self.windows[end, key], key=lambda each: each[0])
        return key, [record[2] for _, record in ordered], end - self.size, end

    def ends(self, time: int) -> list[int]:
        first = (time - self.offset - self.size) // self.slide - 2
        starts = (
            self.offset + (first + at) * self.slide for at in range(self.size // self.slide + 6)
        )
        return [start + self.size for start in starts if start <= time < start + self.size]

    def slice_start(self, time: int) -> int:
        around = [end + shift for end in self.ends(time) for shift in (0, -self.size)]
        more = [edge + by * self.slide for edge in around for by in (-1, 0, 1)]
        return max(edge for edge in more if edge <= time)


class _Paused:
    """Sessions: of each key, records in groups, which come together where they are near."""

    def __init__(self, assigner: Session, lateness: int, updates: bool) -> None:
        self.gap = assigner.gap // timedelta(microseconds=1)
        self.lateness, self.updates = lateness, updates
        self.now = float("-inf")
        self.late: list[Record] = []
        self.groups: list[list[tuple[int, Record]]] = []
        self.came = 0

    def records(self, batch: list[Record]) -> list[Result]:
        found: list[Result] = []
        touched: list[int] = []
        for record in batch:
            key, time, _ = record
            near = [
                group
                for group in self.groups
                if group[0][1][0] == key
                and any(abs(time - other[1]) < self.gap for _, other in group)
            ]
            if not near and time + self.gap - 1 + self.lateness <= self.now:
                self.late.append(record)
                continue
            self.came += 1
            for group in near:
                self.groups.remove(group)
            joined = [(self.came, record), *(each for group in near for each in group)]
            self.groups.append(joined)
            touched.append(self.came)
            if self.end(joined) - 1 <= self.now and not self.updates:
                found.append(self.result(joined))
        if self.updates:
            for group in sorted(self.groups, key=self.end):
                if any(number in touched for number, _ in group):
                    found.append(self.result(group))
        return found

    def watermark(self, time: float) -> list[Result]:
        before, self.now = self.now, max(self.now, time)
        due = [group for group in self.groups if before < self.end(group) - 1 <= self.now]
        due.sort(key=lambda group: (self.end(group), min(number for number, _ in group)))
        found = [] if self.updates else [self.result(group) for group in due]
        self.groups = [
            group for group in self.groups if self.end(group) - 1 + self.lateness > self.now
        ]
        return found

    def end(self, group: list[tuple[int, Record]]) -> int:
        return max(time for _, (_, time, _) in group) + self.gap

    def result(self, group: list[tuple[int, Record]]) -> Result:
        key = group[0][1][0]
        start = min(time for _, (_, time, _) in group)
        return key, sorted(number for _, (_, _, number) in group), start, self.end(group)


class _Counts:
    """Count windows: of each key a list of all its records."""

    def __init__(self, assigner: CountWindow, lateness: int, updates: bool) -> None:
        self.size, self.slide = assigner.size, assigner.slide or assigner.size
        self.updates = updates
        self.late: list[Record] = []
        self.of_key: dict[Any, list[int]] = {}

    def records(self, batch: list[Record]) -> list[Result]:
        found = []
        for key, _, number in batch:
            had = self.of_key.setdefault(key, [])
            had.append(number)
            start = len(had) - self.size
            if start >= 0 and start % self.slide == 0:
                found.append((key, had[start:], start, len(had)))
        if self.updates:
            found += [each for key in {record[0] for record in batch} for each in self.open(key)]
        return found

    def watermark(self, time: float) -> list[Result]:
        if time != float("inf") or self.updates:
            return []
        found = [each for key in self.of_key for each in self.open(key)]
        return sorted(found, key=lambda result: result[3])

    def open(self, key: Any) -> list[Result]:
        had = self.of_key[key]
        starts = range(0, len(had), self.slide)
        return [(key, had[at:], at, len(had)) for at in starts if at + self.size > len(had)]
