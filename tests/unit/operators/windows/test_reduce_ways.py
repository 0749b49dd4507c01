"""`reduce` of windows by lifted functions and by the functions themselves: no difference."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.network import Batch, partition
from engine.state import KeyedState
from engine.task.compared import NativeDiffers
from operators import CountWindow, Every, Session, Sliding, Stream, Tumbling, source
from operators.sources import Collection
from tests.windowing import us

LATE = timedelta(microseconds=15)
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": {"windows": Tumbling(us(10))},
    "sliding": {"windows": Sliding(us(30), us(10))},
    "sessions": {"windows": Session(us(4))},
    "counts": {"windows": CountWindow(3)},
    "overlapping counts": {"windows": CountWindow(4, 2)},
    "lateness": {"windows": Sliding(us(20), us(10)), "allowed_lateness": LATE},
    "late sessions": {"windows": Session(us(4)), "allowed_lateness": LATE},
    "updates": {"windows": Tumbling(us(10)), "emit": "updates"},
    "session updates": {"windows": Session(us(4)), "emit": "updates"},
    "every": {"windows": Sliding(us(30), us(10)), "emit": Every(timedelta(seconds=1))},
}
KEYS = ["a", "b", 1, True, 1.0, None, (1, "x"), 2**70, b"c"]
SECONDS = datetime(1970, 1, 1)
SHAPES: dict[str, tuple[Any, Any, Callable[[Any, int, int], Any], Callable[[Any, Any], Any]]] = {
    "tuples": (0, 1, lambda k, t, n: (k, t, n), lambda a, b: (a[0], a[1], a[2] + b[2])),
    "lists": (0, 1, lambda k, t, n: [k, t, n], lambda a, b: [*a, b[2]]),
    "dicts": (
        "k",
        "t",
        lambda k, t, n: {"k": k, "t": t, "n": n},
        lambda a, b: {**a, "n": a["n"] + b["n"], "most": max(a["n"], b["n"])},
    ),
    "function of time": (
        "k",
        lambda r: r["t"] - 1,
        lambda k, t, n: {"k": k, "t": t + 1, "n": n},
        lambda a, b: a if a["n"] > b["n"] else b,
    ),
    "datetimes": (
        0,
        lambda r: r[1],
        lambda k, t, n: (k, datetime.fromtimestamp(t / 1e6, timezone.utc), n),
        lambda a, b: b,
    ),
    "floats": (0, 1, lambda k, t, n: (k, float(t), n), lambda a, b: (a[0], b[1], a[2] - b[2])),
    "big": (0, 1, lambda k, t, n: (k, t, n << 60), lambda a, b: (a[0], a[1], a[2] + b[2])),
}


def windowed(shape: str, window: str, **settings: Any) -> Stream[Any]:
    key, time, _, function = SHAPES[shape]
    given = {**WINDOWS[window]}
    windows = given.pop("windows")
    stream = source(Collection([])).with_event_time(time).key_by(key)
    return stream.window(windows, **given).reduce(function, **settings)


class Way:
    """Tasks of a `reduce` in one of the ways."""

    def __init__(
        self, stream: Stream[Any], way: Any, parallelism: int = 1, states: Any = ()
    ) -> None:
        operator = stream.inputs[0].source.operator
        assert isinstance(operator, BatchOperator)
        self.late: list[Any] = []
        self.functions: list[BatchFunction] = []
        for index in range(parallelism):
            outputs: Any = {"late": lambda records: self.late.extend(records)}
            task = TaskContext("t", index, parallelism, 7, "job", native=way, side_outputs=outputs)
            self.functions.append(operator.open(task))
            if states:
                self.functions[-1].restore(KeyedState.share(states, index, parallelism))

    def run(self, events: list[Any], key_of: Callable[[Any], Any]) -> Iterator[list[Any]]:
        """What comes for each batch, in any order of the tasks."""
        for event in events:
            if isinstance(event, int):
                yield [
                    record
                    for each in self.functions
                    for batch in [*(each.on_watermark(event) or ()), *timed(each)]
                    for record in batch
                ]
                continue
            to = partition([key_of(record) for record in event], len(self.functions))
            out = []
            for index, each in enumerate(self.functions):
                own = [record for record, at in zip(event, to, strict=True) if at == index]
                out += each.process(Batch.from_list(own))
            yield out

    def end(self) -> list[Any]:
        return [
            record for each in self.functions for batch in each.on_end() or () for record in batch
        ]

    @property
    def fallbacks(self) -> tuple[int, str | None]:
        native = self.functions[0].native
        return (-1, None) if native is None else (native.fallbacks, native.first_fallback)


def timed(function: BatchFunction) -> Any:
    if function.next_timer is None:
        return ()
    function.next_timer = None
    return function.on_timer(0) or ()


def events_of(shape: str, seed: int = 0) -> list[Any]:
    """Batches of records, some of them late, and watermarks."""
    make = SHAPES[shape][2]
    at, found = random.Random(seed), []
    for step in range(30):
        batch = []
        for number in range(at.randrange(1, 20)):
            key = KEYS[at.randrange(len(KEYS))]
            batch.append(make(key, 10 * step + at.randrange(-70, 10), number))
        found += [batch, 10 * step - 8] if step % 3 else [batch]
    return found


def finder(shape: str) -> Callable[[Any], Any]:
    key = SHAPES[shape][0]
    return lambda record: record[key]


@pytest.mark.table(7)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_all_ways_give_the_same(shape: str, window: str) -> None:
    events, key = events_of(shape), finder(shape)
    found = {}
    for way in ("off", "auto", "check"):
        tasks = Way(windowed(shape, window), way)
        out = [*tasks.run(events[:30], key)]
        (state,) = (each.snapshot() for each in tasks.functions)
        assert state is not None
        out += [*tasks.run(events[30:], key), tasks.end()]
        found[way] = repr([out, tasks.late]), list(state.entries)
        fell_back = shape == "big" and way != "off"
        assert (tasks.fallbacks[0] > 0) == fell_back, tasks.fallbacks
    assert found["auto"] == found["off"] == found["check"]
    assert "counts" in window or not found["off"][0].endswith("[]]")


@pytest.mark.parametrize(("before", "after"), [("auto", "off"), ("off", "auto"), ("off", "check")])
@pytest.mark.parametrize("tasks", [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("window", ["sliding", "late sessions", "counts", "updates"])
def test_others_go_on_in_another_way(window: str, tasks: Any, before: str, after: str) -> None:
    events, key = events_of("dicts", 1), finder("dicts")
    only = Way(windowed("dicts", window), "off")
    expected = [r for out in [*only.run(events, key), only.end()] for r in out]
    found: list[Any] = []
    states: list[Any] = []
    late = []
    told = next(event for event in events[24::-1] if isinstance(event, int))
    halves = events[:25], [told, *events[25:]]  # a restored task is told of event time anew
    for half, way, many in zip(halves, (before, after), tasks, strict=True):
        opened = Way(windowed("dicts", window), way, many, states)
        found += [record for out in opened.run(half, key) for record in out]
        states = [each.snapshot() for each in opened.functions]
        late += opened.late
    found += opened.end()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert sorted(map(repr, late)) == sorted(map(repr, only.late))


def test_columns_are_folded_as_their_rows() -> None:
    rows = [{"k": n % 3, "t": n, "n": n} for n in range(40)]
    results = []
    for way in ("off", "auto"):
        (function,) = Way(windowed("dicts", "tumbling"), way).functions
        function.process(Batch.from_columns(pa.RecordBatch.from_pylist(rows)))
        results.append([record for batch in function.on_end() or () for record in batch])
        assert way == "off" or (function.native is not None and function.native.native == 40)
    assert results[0] == results[1] != []


@pytest.mark.parametrize("way", ["off", "auto", "check"])
def test_what_fails_is_told(way: Any) -> None:
    (function,) = Way(windowed("tuples", "tumbling"), way).functions
    function.process(Batch.from_list([("a", 1, 1)]))
    with pytest.raises(TypeError, match="unsupported operand") as raised:
        function.process(Batch.from_list([("b", 2, 1), ("a", 3, "x"), ("a", 4, 1)]))
    assert raised.type is TypeError
    for bad, kind in ((("a",), IndexError), (("a", "no", 1), ValueError), (([], 1, 1), TypeError)):
        (function,) = Way(windowed("tuples", "tumbling"), way).functions
        with pytest.raises(kind):
            function.process(Batch.from_list([("a", 1, 1), bad]))


@pytest.mark.parametrize("way", ["off", "auto"])
def test_the_record_that_fails_is_known(way: Any) -> None:
    operator: Any = windowed("tuples", "tumbling").inputs[0].source.operator
    task = TaskContext("t", 0, 1, 7, "job", native=way)
    function = operator.open(task)
    records = [("k", n % 5, n) for n in range(300)]
    records[200] = ("k", 3, "x")  # type: ignore[assignment]
    with pytest.raises(TypeError):
        function.process(Batch.from_list(records))
    assert task.failing.record == (("k", 3, "x"),)


STEP = 1


@pytest.mark.parametrize("window", ["tumbling", "sliding"])
def test_a_guard_that_no_longer_holds(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = source(Collection([])).with_event_time(1).key_by(0)
    given = {**WINDOWS[window]}
    reduced = stream.window(given.pop("windows")).reduce(
        lambda a, b: (a[0], a[1], a[2] + b[2] * STEP)
    )
    results = []
    for way in ("off", "auto"):
        (function,) = Way(reduced, way).functions
        monkeypatch.setitem(globals(), "STEP", 1)
        function.process(Batch.from_list([("a", n, 1) for n in range(25)]))
        monkeypatch.setitem(globals(), "STEP", 10)
        results.append([r for batch in function.on_end() or () for r in batch])
    assert results[0] == results[1]


def test_one_that_gives_up_is_called_for_a_while() -> None:
    stream = source(Collection([])).with_event_time(1).key_by(0).window(Tumbling(us(10)))
    tasks = Way(stream.reduce(lambda a, b: (a[0], a[1] // b[1], 0)), "auto")
    (function,) = tasks.functions
    for n in range(400):
        function.process(Batch.from_list([("a", 2**62 - 1, 0), ("a", 2**62 - 2, 2**70)]))
        assert n < 3 or tasks.fallbacks[0] >= 0
    assert tasks.fallbacks[0] == 0
    tasks = Way(stream.reduce(lambda a, b: (a[0], a[1], a[2] + b[2])), "auto")
    for _ in range(600):
        tasks.functions[0].process(Batch.from_list([("a", 1, 2**62)] * 2))
    assert 0 < tasks.fallbacks[0] <= 12


def test_a_difference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from operators.windows.values import WindowValues

    (function,) = Way(windowed("tuples", "updates"), "check").functions
    monkeypatch.setattr(WindowValues, "changed", lambda self: [] if self.native else [(1, 2, 3, 4)])
    with pytest.raises(NativeDiffers, match="reduce gave"):
        function.process(Batch.from_list([("a", 1, 1)]))


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_the_way_is_known(on_error: Any) -> None:
    operator: Any = windowed("tuples", "tumbling", on_error=on_error).inputs[0].source.operator
    assert operator.properties.accepts_encoded == (on_error == "fail")
    assert (operator.properties.way is None) == (on_error == "fail")
