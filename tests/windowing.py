"""Windows in tests: the operator's tasks without a job, and what plain Python makes of all records.

Records are (key, time, number), times whole microseconds. A run is a list of records and, between
them, watermarks, which are integers, and None where a timer is called.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.network import Batch, Network, open_output_gate, partition
from engine.partitioner import Forward
from engine.state import KeyedState
from operators import (
    Calendar,
    CountWindow,
    Session,
    Sliding,
    Stream,
    Tumbling,
    WindowedStream,
    source,
)
from operators.sources import Collection

Record = tuple[Any, int, int]
Event = Record | int | None
Result = tuple[Any, Any, Any, Any]


def us(number: int) -> timedelta:
    return timedelta(microseconds=number)


def windowed(*arguments: Any, **settings: Any) -> WindowedStream[Any, Any]:
    """Windows of records by their first item, with their second as their time."""
    return source(Collection([])).with_event_time(1).key_by(0).window(*arguments, **settings)


class Tasks:
    """The tasks of the operator that such a stream ends in, each with its share of the keys."""

    def __init__(
        self,
        stream: Stream[Any],
        parallelism: int = 1,
        states: Iterable[KeyedState] = (),
        columns: Sequence[str] | pa.Schema = (),
    ) -> None:
        """With `columns`, records come as rows of columns of these names, the key first."""
        self.columns = columns.names if isinstance(columns, pa.Schema) else columns
        self._encode = _Wire(columns) if columns else Batch.from_list
        self.late: list[Any] = []
        self.functions: list[BatchFunction] = []
        operator = stream.inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        self.is_native = operator.properties.accepts_encoded
        states = list(states)
        for index in range(parallelism):
            late = {"late": self._take_late}
            settings: Any = {"side_outputs": late, "checkpoints": index % 2 == 0}
            context = TaskContext("t", index, parallelism, 1000, "job", **settings)
            function = operator.open(context)
            if states:
                function.restore(KeyedState.share(states, index, parallelism))
            self.functions.append(function)

    def take(self, events: Iterable[Event], batch_size: int = 1) -> list[list[Result]]:
        """What each batch and each watermark gives, where that is anything."""
        found = []
        for batch in batches(events, batch_size):
            given = []
            if not isinstance(batch, list):
                for function in self.functions:
                    timer = function.on_timer(0) if batch is None else function.on_watermark(batch)
                    for results in timer or ():
                        given += self._rows(results)
            else:
                chosen = partition([record[0] for record in batch], len(self.functions))
                for index, function in enumerate(self.functions):
                    own = [each for each, at in zip(batch, chosen, strict=True) if at == index]
                    taken: Any = self._encode(own) if self.is_native else own
                    given += self._rows(function.process(taken)) if own else []
            found.append(given)
        return [given for given in found if given]

    def end(self) -> list[list[Result]]:
        """What is left at the end of the input."""
        given = [
            each for task in self.functions for batch in task.on_end() for each in self._rows(batch)
        ]
        return [given] if given else []

    def snapshot(self) -> list[KeyedState]:
        """What the tasks keep."""
        found = [function.snapshot() for function in self.functions]
        return [each for each in found if each is not None]

    def _rows(self, results: Any) -> list[Result]:
        """Results as tuples; over columns, several aggregations make a dict."""
        if not isinstance(results, pa.RecordBatch):
            return results.to_list() if isinstance(results, Batch) else list(results)
        found = []
        for row in results.to_pylist():
            bounds = row.pop(self.columns[0]), row.pop("window_start"), row.pop("window_end")
            value = row if len(row) > 1 else next(iter(row.values()))
            found.append((bounds[0], value, *bounds[1:]))
        return found

    def _take_late(self, records: Any) -> None:
        if isinstance(records, pa.RecordBatch):
            records = [tuple(row.values()) for row in records.to_pylist()]
        self.late.extend(records)


class _Wire:
    """A channel to oneself: records go in, and come out as columns over the network do."""

    def __init__(self, columns: Sequence[str] | pa.Schema) -> None:
        self._columns = columns
        folder = tempfile.TemporaryDirectory()
        sender, self._receiver = (Network([f"ipc://{folder.name}/{end}"]) for end in ("s", "r"))
        sender.connect([(0, self._receiver.endpoints[0])], [])
        self._receiver.connect([], [(0, sender.endpoints[0])])
        self._gate = open_output_gate(sender, Forward(), [0])
        for close in (folder.cleanup, self._receiver.close, sender.close):
            weakref.finalize(self, close)

    def __call__(self, records: list[Any]) -> Batch | None:
        """Good until the next call."""
        if not records:
            return None
        if isinstance(self._columns, pa.Schema):
            rows = [dict(zip(self._columns.names, record, strict=True)) for record in records]
            batch = pa.RecordBatch.from_pylist(rows, self._columns)
        else:
            arrays = [pa.array(column) for column in zip(*records, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, names=self._columns)
        self._gate.emit(batch, [])
        return self._receiver.receive()


def batches(events: Iterable[Event], batch_size: int) -> Iterator[Any]:
    """The records in lists of at most so many, and the watermarks between them."""
    batch: list[Any] = []
    for event in events:
        if not isinstance(event, tuple) or len(batch) == batch_size:
            if batch:
                yield batch
            batch = []
        if isinstance(event, tuple):
            batch.append(event)
        else:
            yield event
    if batch:
        yield batch


class Expected(NamedTuple):
    """What windows give of a run: per batch, watermark and the end, and the late records."""

    results: list[list[Result]]
    late: list[Record]


def expected(
    assigner: Any,
    events: Iterable[Event],
    lateness: int = 0,
    emit: str = "final",
    batch_size: int = 1,
) -> Expected:
    """What comes of it where results come so: "final", "updates" or "every".

    Values are the numbers of the window's records, in order.
    """
    kind: Any = _Counts
    if isinstance(assigner, Tumbling | Sliding):
        kind = _Slid
    elif isinstance(assigner, Calendar):
        kind = _Dated
    elif isinstance(assigner, Session):
        kind = _Paused
    oracle = kind(assigner, lateness, emit)
    results = []
    for batch in batches(events, batch_size):
        if isinstance(batch, list):
            results.append(oracle.records(batch))
            if emit == "updates":
                results[-1] += oracle.timer()
        else:
            results.append(oracle.timer() if batch is None else oracle.watermark(batch))
    results.append(oracle.watermark(float("inf")))
    return Expected([given for given in results if given], oracle.late)


class _Slid:
    """Tumbling and sliding windows: every window has a list of all its records."""

    def __init__(self, assigner: Tumbling | Sliding, lateness: int, emit: str) -> None:
        one = timedelta(microseconds=1)
        self.size, self.slide = assigner.size // one, assigner.slide // one
        self.offset = assigner.offset // one
        self.lateness, self.is_final = lateness, emit == "final"
        self.now = float("-inf")
        self.late: list[Record] = []
        self.windows: dict[tuple[int, Any], list[tuple[int, Record]]] = {}
        """By end and key: the records, and where their slices begin."""
        self.touched: dict[tuple[int, Any], None] = {}

    def records(self, batch: list[Record]) -> list[Result]:
        found: list[Result] = []
        for record in batch:
            key, time, _ = record
            ends = [end for end in self.ends(time) if end - 1 + self.lateness > self.now]
            if not ends and self.ends(time):  # else it lies between two windows
                self.late.append(record)
            for end in ends:
                into = self.windows.setdefault((end, key), [])
                into.append((self.slice_start(time), record))
                self.touched[end, key] = None
                if end - 1 <= self.now and self.is_final:
                    found.append(self.result(end, key))
        return found

    def timer(self) -> list[Result]:
        touched, self.touched = self.touched, {}
        return [self.result(end, key) for end, key in touched]

    def watermark(self, time: float) -> list[Result]:
        before, self.now = self.now, max(self.now, time)
        due = [each for each in self.windows if before < each[0] - 1 <= self.now]
        gone = [each for each in self.windows if each[0] - 1 + self.lateness <= self.now]
        if not self.is_final:
            due = [each for each in self.touched if each in due or each in gone]
        # A window's keys are in the order of their first records, those of earlier slices first.
        due.sort(key=lambda each: (each[0], min(at for at, _ in self.windows[each])))
        found = [self.result(end, key) for end, key in due]
        for each in due:
            self.touched.pop(each, None)
        for each in gone:
            del self.windows[each]
        return found

    def result(self, end: int, key: Any) -> Result:
        ordered = sorted(self.windows[end, key], key=lambda each: each[0])
        return key, [record[2] for _, record in ordered], end - self.size, end

    def ends(self, time: int) -> list[int]:
        """The ends of the windows that have this time."""
        first = (time - self.offset - self.size) // self.slide - 2
        numbers = range(first, first + self.size // self.slide + 6)
        starts = (self.offset + number * self.slide for number in numbers)
        return [start + self.size for start in starts if start <= time < start + self.size]

    def slice_start(self, time: int) -> int:
        around = [end + shift for end in self.ends(time) for shift in (0, -self.size)]
        more = [edge + by * self.slide for edge in around for by in (-1, 0, 1)]
        return max(edge for edge in more if edge <= time)


class _Dated(_Slid):
    """Windows of a calendar, by `datetime` and `zoneinfo`."""

    def __init__(self, assigner: Calendar, lateness: int, emit: str) -> None:
        super().__init__(Tumbling(timedelta(days=1)), lateness, emit)
        self.period, self.zone = assigner.period, ZoneInfo(assigner.zone)

    def result(self, end: int, key: Any) -> Result:
        key, value, _, end = super().result(end, key)
        return key, value, self.bounds(end - 1)[0], end

    def ends(self, time: int) -> list[int]:
        return [self.bounds(time)[1]]

    def slice_start(self, time: int) -> int:
        return self.bounds(time)[0]

    def bounds(self, time: int) -> tuple[int, int]:
        """The start and the end of the window that has this time."""
        local = (_EPOCH + us(time)).astimezone(self.zone)
        first = date(local.year, local.month, local.day)
        if self.period == "week":
            first -= timedelta(days=first.weekday())
        elif self.period != "day":
            months = {"month": 1, "quarter": 3, "year": 12}[self.period]
            first = date(first.year, (first.month - 1) // months * months + 1, 1)
        while time >= (end := self.moment(self.next(first))):  # a date that comes twice
            first = self.next(first)
        return self.moment(first), end

    def next(self, first: date) -> date:
        if self.period in ("day", "week"):
            return first + timedelta(days=1 if self.period == "day" else 7)
        months = first.month - 1 + {"month": 1, "quarter": 3, "year": 12}[self.period]
        return date(first.year + months // 12, months % 12 + 1, 1)

    def moment(self, day: date) -> int:
        midnight = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        return (midnight.astimezone(timezone.utc) - _EPOCH) // us(1)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Paused:
    """Sessions: of each key, records in groups, which come together where they are near."""

    def __init__(self, assigner: Session, lateness: int, emit: str) -> None:
        self.gap = assigner.gap // timedelta(microseconds=1)
        self.beyond = int(assigner.inclusive)
        self.lateness, self.is_final = lateness, emit == "final"
        self.now = float("-inf")
        self.late: list[Record] = []
        self.groups: list[list[tuple[int, Record]]] = []
        self.came = 0
        self.touched: set[int] = set()
        """The numbers of records whose groups have not come since."""

    def records(self, batch: list[Record]) -> list[Result]:
        found: list[Result] = []
        for record in batch:
            key, time, _ = record
            near = [
                group
                for group in self.groups
                if group[0][1][0] == key
                and any(abs(time - other[1]) < self.gap + self.beyond for _, other in group)
            ]
            complete = time + self.gap - 1 + self.beyond
            if not near and complete + self.lateness <= self.now:
                self.late.append(record)
                continue
            self.came += 1
            for group in near:
                self.groups.remove(group)
            joined = [(self.came, record), *(each for group in near for each in group)]
            self.groups.append(joined)
            self.touched.add(self.came)
            if self.complete(joined) <= self.now and self.is_final:
                found.append(self.result(joined))
        return found

    def timer(self) -> list[Result]:
        found = [
            self.result(each) for each in sorted(self.groups, key=self.end) if self.is_new(each)
        ]
        self.touched = set()
        return found

    def watermark(self, time: float) -> list[Result]:
        before, self.now = self.now, max(self.now, time)
        due = [group for group in self.groups if before < self.complete(group) <= self.now]
        gone = [each for each in self.groups if self.complete(each) + self.lateness <= self.now]
        if not self.is_final:
            due = [
                each for each in self.groups if (each in due or each in gone) and self.is_new(each)
            ]
        due.sort(key=lambda group: (self.end(group), min(number for number, _ in group)))
        for group in due:
            self.touched -= {number for number, _ in group}
        self.groups = [group for group in self.groups if group not in gone]
        return [self.result(group) for group in due]

    def is_new(self, group: list[tuple[int, Record]]) -> bool:
        return any(number in self.touched for number, _ in group)

    def end(self, group: list[tuple[int, Record]]) -> int:
        return max(time for _, (_, time, _) in group) + self.gap

    def complete(self, group: list[tuple[int, Record]]) -> int:
        """The watermark with which it is complete."""
        return self.end(group) - 1 + self.beyond

    def result(self, group: list[tuple[int, Record]]) -> Result:
        key = group[0][1][0]
        start = min(time for _, (_, time, _) in group)
        return key, sorted(number for _, (_, _, number) in group), start, self.end(group)


class _Counts:
    """Count windows: of each key a list of all its records."""

    def __init__(self, assigner: CountWindow, lateness: int, emit: str) -> None:
        self.size, self.slide = assigner.size, assigner.slide or assigner.size
        self.is_final = emit == "final"
        self.late: list[Record] = []
        self.of_key: dict[Any, list[int]] = {}
        self.touched: dict[Any, None] = {}

    def records(self, batch: list[Record]) -> list[Result]:
        found = []
        for key, _, number in batch:
            had = self.of_key.setdefault(key, [])
            had.append(number)
            self.touched[key] = None
            start = len(had) - self.size
            if start >= 0 and start % self.slide == 0:
                found.append((key, had[start:], start, len(had)))
        return found

    def timer(self) -> list[Result]:
        touched, self.touched = self.touched, {}
        return [each for key in touched for each in self.open(key)]

    def watermark(self, time: float) -> list[Result]:
        if time != float("inf"):
            return []
        keys = self.of_key if self.is_final else self.touched
        return sorted((each for key in keys for each in self.open(key)), key=lambda each: each[3])

    def open(self, key: Any) -> list[Result]:
        had = self.of_key[key]
        starts = range(0, len(had), self.slide)
        return [(key, had[at:], at, len(had)) for at in starts if at + self.size > len(had)]
