"""Functions of the user's that raise StopIteration, as `next(...)` does where nothing is left.

An iterator that calls them would take it for its end, and what comes behind would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.errors import OperatorError
from engine.graph import BatchFunction, BatchOperator, Properties, SinkOperator, SinkWriter
from engine.testing import VirtualClock, run
from operators import (
    Accumulator,
    BroadcastProcessFunction,
    CountWindow,
    Lookup,
    ProcessFunction,
    Session,
    Sliding,
    Stream,
    Tumbling,
    source,
)
from operators.sinks import Callback, Collect, LineFiles, Print
from operators.sources import Collection, Function

SECOND = timedelta(seconds=1)
RECORDS = [("ann", at, at) for at in range(6)]
BAD = 3


def run_dry(record: Any = None, *_others: Any) -> Any:
    """What all functions below come to at one record."""
    number = record[2] if isinstance(record, tuple) else record
    return next(iter(())) if number is None or number == BAD else record


def given(rate: float | None = None) -> Stream[Any]:
    return source(Collection(RECORDS, rate)).with_parallelism(1)


def timed(item: Any = 1) -> Stream[Any]:
    return given().with_event_time(item, unit="s")


def combine(one: Any, other: Any) -> Any:
    run_dry(other)
    return other


def time_of(record: Any) -> int:
    return int(run_dry(record)[1])


def in_list(record: Any) -> list[Any]:
    return [run_dry(record)]


def one_by_one(record: Any) -> Iterator[Any]:
    yield run_dry(record)


def of_batch(batch: list[Any]) -> list[Any]:
    return [run_dry(record) for record in batch]


def dict_of(record: Any) -> dict[str, Any]:
    return {"name": record[0], "n": record[2]}


def of_rows(rows: Any) -> Any:
    of_batch([row["n"] for row in rows.to_pylist()])
    return rows


def rules() -> Any:
    return given().broadcast()


async def awaited_batch(batch: list[Any]) -> list[Any]:
    return of_batch(batch)


async def awaited(record: Any) -> Any:
    return run_dry(record)


def of_pair(left: Any, right: Any) -> Any:
    return run_dry(left), right


def of_window(_key: Any, records: list[Any], *_bounds: Any) -> Any:
    for record in records:
        run_dry(record)


class Fails(Accumulator[Any, Any, Any]):
    """In one of its methods."""

    def __init__(self, method: str) -> None:
        self.method = method

    def create(self) -> Any:
        return run_dry() if self.method == "create" else []

    def add(self, accumulated: Any, record: Any) -> Any:
        return run_dry() if self.method == "add" else [*accumulated, record]

    def merge(self, left: Any, right: Any) -> Any:
        return run_dry() if self.method == "merge" else left + right

    def finish(self, accumulated: Any) -> Any:
        return run_dry() if self.method == "finish" else accumulated


class InProcess(ProcessFunction):
    def process(self, record: Any, _context: Any) -> Any:
        return in_list(record)


class Beside(BroadcastProcessFunction):
    def __init__(self, method: str) -> None:
        self.method = method

    def process(self, record: Any, _context: Any) -> Any:
        return in_list(record) if self.method == "process" else None

    def process_broadcast(self, record: Any, _context: Any) -> Any:
        return in_list(record) if self.method == "process_broadcast" else None


class InTimer(ProcessFunction):
    def __init__(self, ahead: timedelta | None = None) -> None:
        self.ahead = ahead

    def process(self, record: Any, context: Any) -> None:
        if self.ahead is None:
            context.set_timer(record[1] * 1_000_000)
        else:
            context.set_processing_timer(self.ahead)

    def on_timer(self, _time: int, _context: Any) -> Any:
        return run_dry()


class Table(Lookup):
    def find(self, keys: list[Any]) -> dict[Any, Any]:
        return {key: run_dry(key) for key in keys}


class Plain(BatchOperator):
    """An operator of the user's that fails in one of its methods."""

    properties = Properties()

    def __init__(self, method: str) -> None:
        self.method = method

    def open(self, _context: Any) -> BatchFunction:
        if self.method == "on_timer":
            return Timed()
        return Untimed(self.method)


class Untimed(BatchFunction):
    def __init__(self, method: str) -> None:
        self.method = method

    def process(self, batch: list[Any]) -> list[Any]:
        return of_batch(batch) if self.method == "process" else batch

    def on_watermark(self, _watermark_us: int) -> Any:
        return run_dry() if self.method == "on_watermark" else None

    def on_end(self) -> Any:
        return run_dry() if self.method == "on_end" else ()


class Timed(BatchFunction):
    def process(self, batch: list[Any]) -> list[Any]:
        self.next_timer = 0
        return batch

    def on_timer(self, _now_ns: int) -> Any:
        return run_dry()


class Words:
    """A record whose text ends too early."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __str__(self) -> str:
        return str(run_dry(self.number))


class Sink(SinkOperator[Any]):
    def __init__(self, method: str) -> None:
        self.method = method

    def open(self, _context: Any) -> SinkWriter:
        return Writer(self.method)


class Writer(SinkWriter):
    def __init__(self, method: str) -> None:
        self.method = method

    def write(self, records: Any) -> None:
        if self.method == "write":
            of_batch(records)

    def prepare(self, _epoch: int) -> Any:
        return run_dry() if self.method == "prepare" else None

    def commit(self, _epoch: int, _prepared: Any) -> Any:
        return run_dry() if self.method == "commit" else None


class Iterable:
    """What a function of a source returns: its `__iter__` calls something that has run dry."""

    def __iter__(self) -> Iterator[Any]:
        for record in RECORDS:
            yield run_dry(record)


def other() -> Any:
    return timed().key_by(0)


OPERATORS: dict[str, Callable[[], Stream[Any]]] = {
    "map": lambda: given().map(run_dry),
    "filter": lambda: given().filter(run_dry),
    "flat_map": lambda: given().flat_map(in_list),
    "flat_map of a generator": lambda: given().flat_map(one_by_one),
    "map_batches": lambda: given().map_batches(of_batch),
    "map_batches in pieces": lambda: given().map_batches(of_batch, max_records=2),
    "map_async": lambda: given().map_async(awaited),
    "map_batches_async": lambda: given().map_batches_async(awaited_batch),
    "key_by": lambda: given().key_by(run_dry).count(),
    "key_by and reduce": lambda: given().key_by(run_dry).reduce(lambda one, _other: one),
    "reduce": lambda: given().key_by(0).reduce(combine),
    "reduce of keys by functions": lambda: given().key_by(lambda each: each[0]).reduce(combine),
    "reduce, final": lambda: given().key_by(0).reduce(combine, emit="final"),
    "process": lambda: given().key_by(0).process(InProcess()),
    "process_with": lambda: given().key_by(0).process_with(rules(), Beside("process")),
    "process_with, of the other": lambda: (
        given().key_by(0).process_with(rules(), Beside("process_broadcast"))
    ),
    "reduce_batches": lambda: (
        given().map(dict_of).to_columns().key_by("name").reduce_batches(of_rows)
    ),
    "on_timer by event time": lambda: timed().key_by(0).process(InTimer()),
    "on_timer by the clock": lambda: given(1.0).key_by(0).process(InTimer(SECOND)),
    "with_event_time": lambda: given().with_event_time(time_of, unit="s"),
    "then, process": lambda: given().then(Plain("process")),
    "then, on_end": lambda: given().then(Plain("on_end")),
    "then, on_watermark": lambda: timed().then(Plain("on_watermark")),
    "then, on_timer": lambda: given(1.0).then(Plain("on_timer")),
    "lookup_join, lookup": lambda: given().lookup_join(run_dry, key=2),
    "lookup_join, key": lambda: given().lookup_join({}, key=run_dry),
    "lookup_join, function": lambda: given().lookup_join({}, 2, of_pair, how="left"),
    "lookup_join, Lookup": lambda: given().lookup_join(Table(), key=2),
    "interval_join": lambda: other().interval_join(other(), of_pair, between=(0 * SECOND, SECOND)),
    "interval_join, alone": lambda: other().interval_join(
        timed().key_by(2), of_pair, between=(0 * SECOND, SECOND), how="left"
    ),
    "interval_join, time": lambda: other().interval_join(
        other(), between=(0 * SECOND, SECOND), time=time_of, right_time=1, unit="s"
    ),
    "window_join": lambda: other().window_join(other(), Tumbling(SECOND), of_pair),
    "window_join, sessions": lambda: other().window_join(other(), Session(SECOND * 5), of_pair),
    "window_join, time": lambda: other().window_join(
        other(), Tumbling(SECOND), time=time_of, right_time=1, unit="s"
    ),
    "temporal_join": lambda: other().temporal_join(other(), of_pair),
    "temporal_join, time": lambda: other().temporal_join(
        other(), time=time_of, table_time=1, unit="s"
    ),
    "function of a source": lambda: source(Function(lambda: Iterable())),
    "function of a source, called": lambda: source(Function(run_dry_at_once)),
}


def run_dry_at_once() -> Any:
    return run_dry()


WINDOWS: dict[str, Any] = {
    "tumbling": Tumbling(10 * SECOND),
    "sliding": Sliding(3 * SECOND, SECOND),
    "session": Session(5 * SECOND),
    "count": CountWindow(6),
}
for name, assigner in WINDOWS.items():
    for emit in ("final", "updates"):
        if name == "count" and emit == "updates":
            continue

        def windows(assigner: Any = assigner, emit: Any = emit, **settings: Any) -> Any:
            if not isinstance(assigner, CountWindow):
                settings = {"emit": emit, **settings}
            return timed().key_by(0).window(assigner, **settings)

        of = f"{name}, {emit}"
        OPERATORS[f"reduce of windows, {of}"] = lambda windows=windows: windows().reduce(combine)
        OPERATORS[f"apply, {of}"] = lambda windows=windows: windows().apply(of_window)
        for method in ("create", "add", "merge", "finish"):
            if method == "merge" and name in ("tumbling", "count", "session"):
                continue
            OPERATORS[f"accumulator, {method}, {of}"] = lambda windows=windows, method=method: (
                windows().aggregate(a=Fails(method))
            )
            OPERATORS[f"accumulator of two, {method}, {of}"] = (
                lambda windows=windows, method=method: windows().aggregate(
                    a=Fails(method), b=Fails("")
                )
            )
        if name != "count":
            OPERATORS[f"time of windows, {of}"] = lambda windows=windows: windows(
                time=time_of, unit="s"
            ).collect()


@pytest.mark.table(2)
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", OPERATORS)
def test_it_ends_the_job_with_the_function(name: str, parallelism: int) -> None:
    pipeline = OPERATORS[name]().sink(Collect())
    with pytest.raises(OperatorError) as failed:
        run(pipeline, parallelism=parallelism, clock=VirtualClock(), batch_size=2)
    assert "StopIteration" in failed.value.error
    assert "in run_dry" in str(failed.value)


SINKS: dict[str, Callable[[Path], Any]] = {
    "Callback": lambda _: given().sink(Callback(run_dry)),
    "Callback of batches": lambda _: given().sink(Callback(of_batch, batches=True)),
    "LineFiles": lambda path: texts().sink(LineFiles(path)),
    "Print": lambda _: texts().sink(Print()),
    **{
        f"of the user's, {method}": lambda _, method=method: given().sink(Sink(method))
        for method in ("write", "prepare", "commit")
    },
}


def texts() -> Stream[Any]:
    return source(Collection(range(6))).map(Words)


@pytest.mark.parametrize("name", SINKS)
def test_it_ends_the_job_of_a_sink(name: str, tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as failed:
        run(SINKS[name](tmp_path), parallelism=1)
    assert "StopIteration" in failed.value.error
    assert "in run_dry" in str(failed.value)
    assert not list(tmp_path.iterdir())


WITH_ON_ERROR: dict[str, Callable[[], Stream[Any]]] = {
    "map": lambda: given().map(run_dry, on_error="side"),
    "filter": lambda: given().filter(run_dry, on_error="side"),
    "flat_map": lambda: given().flat_map(in_list, on_error="side"),
    "flat_map of a generator": lambda: given().flat_map(one_by_one, on_error="side"),
    "map_async": lambda: given().map_async(awaited, on_error="side"),
    "key_by": lambda: given().key_by(run_dry, on_error="side").then(Plain("")),
    "reduce": lambda: given().key_by(0).reduce(combine, on_error="side"),
    "process": lambda: given().key_by(0).process(InProcess(), on_error="side"),
    "windows": lambda: (
        timed().key_by(0).window(Tumbling(SECOND * 9)).reduce(combine, on_error="side")
    ),
    "time of windows": lambda: (
        timed().key_by(0).window(Session(SECOND), time=time_of, unit="s").collect(on_error="side")
    ),
}


@pytest.mark.parametrize("name", WITH_ON_ERROR)
def test_it_goes_to_the_side_output(name: str) -> None:
    stream = WITH_ON_ERROR[name]()
    at = stream if name != "key_by" else given().key_by(run_dry, on_error="side")
    if name == "key_by":
        errors = at.side("errors")
        pipelines = [at.then(Plain("")).sink(Collect()), errors.sink(Collect()).named("bad")]
    else:
        pipelines = [stream.sink(Collect()), stream.side("errors").sink(Collect()).named("bad")]
    found = run(pipelines)
    ((record, error),) = found["bad"]
    assert record == RECORDS[BAD]
    assert "StopIteration" in str(error)
    if name in ("map", "filter", "map_async", "process", "flat_map", "key_by"):
        assert len(found["collect"]) == len(RECORDS) - 1
