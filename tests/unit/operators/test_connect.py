"""connect: one function of two keyed streams, with states and timers that both share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.graph import TaskContext, logical_graph
from engine.state import KeyedState
from engine.testing import VirtualClock, run
from operators import (
    CoProcessFunction,
    KeyedStream,
    ListState,
    ProcessContext,
    ProcessFunction,
    ValueState,
    source,
)
from operators.process.operator import CoProcess
from operators.sinks import Collect
from operators.sources import Collection
from tests.halves import Halves, run_half, run_rest
from tests.watermarks import timed

pytestmark = pytest.mark.usefixtures("nothing_left")

parallelism = pytest.mark.parametrize("parallelism", [1, 2, 3])
batch_size = pytest.mark.parametrize("batch_size", [1, 7, 100])
SECOND_NS = 1_000_000_000


class Sent:
    """A batch of one of the two inputs, as it comes over the network."""

    def __init__(self, number: int, records: list[Any]) -> None:
        self.input = number
        self._records = records

    def to_list(self) -> list[Any]:
        return self._records


class Opened:
    """A `CoProcessFunction` at work in one task; records come as pairs behind their keys."""

    def __init__(self, function: CoProcessFunction, **settings: Any) -> None:
        self.now_ns = 0
        context = TaskContext(
            *("task[0]", 0, 1, 100, "job"), now_ns=lambda: self.now_ns, **settings
        )
        operator = CoProcess(function, None, True, right_paired=True)
        self.function: Any = operator.open(context)

    def left(self, key: Any, record: Any) -> list[Any]:
        return list(self.function.process(Sent(0, [(key, record)])))

    def right(self, key: Any, record: Any) -> list[Any]:
        return list(self.function.process(Sent(1, [(key, record)])))

    def watermark(self, us: int) -> list[Any]:
        return [r for batch in self.function.on_watermark(us) for r in batch]

    def clock(self, seconds: int) -> list[Any]:
        """Come to this moment, and call what is due."""
        self.now_ns = seconds * SECOND_NS
        out: list[Any] = []
        while (due := self.function.next_timer) is not None and due <= self.now_ns:
            self.function.next_timer = None
            out += [r for batch in self.function.on_timer(self.now_ns) for r in batch]
        return out

    @property
    def keys(self) -> dict[Any, Any]:
        return dict(self.function._keys)

    @property
    def timers(self) -> int:
        return len(self.function._context._event)


# --- Flink's KeyedCoProcessOperatorTest (apache/flink, e73d6eac, Apache-2.0), as data -----------
#
# All of its 8 tests. There a timestamp comes beside a record, here the time is in it, so the two
# tests that query it query the watermark and the clock alone; timers of the clock are deleted by
# name. A number is a watermark of both inputs, ("clock", n) the n-th second of the clock. A list
# has what came of all since the list before.


class Queries(CoProcessFunction):
    def process_left(self, record: Any, context: ProcessContext) -> Iterator[Any]:
        yield f"{record}WM:{context.watermark} PT:{context.now_ns() // SECOND_NS}"

    process_right = process_left


class Triggers(CoProcessFunction):
    """Sets a timer for 5 or 6, of event time or of the clock."""

    def __init__(self, by: str) -> None:
        self.by = by

    def handle(self, number: int, record: Any, time: int, context: ProcessContext) -> list[Any]:
        if self.by == "clock":
            context.add_processing_timer(timedelta(seconds=time))
        else:
            context.add_timer(time)
        return [f"INPUT{number}:{record}"]

    def process_left(self, record: Any, context: ProcessContext) -> list[Any]:
        return self.handle(1, record, 5, context)

    def process_right(self, record: Any, context: ProcessContext) -> list[Any]:
        return self.handle(2, record, 6, context)

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        return [f"{context.key}:1777"]


class Stateful(CoProcessFunction):
    """A record sets a timer five later, the next of its key deletes it."""

    seen = ValueState[Any]()

    def __init__(self, by: str) -> None:
        self.by = by

    def handle(self, number: int, record: Any, context: ProcessContext) -> Iterator[Any]:
        if self.seen is None:
            yield f"INPUT{number}:{record}"
            self.seen = str(record)
            if self.by == "clock":
                context.add_processing_timer(timedelta(seconds=5))
            else:
                context.add_timer(context.watermark + 5)
        else:
            del self.seen
            context.delete_timer(time_us=None if self.by == "clock" else context.watermark + 4)

    def process_left(self, record: Any, context: ProcessContext) -> Iterator[Any]:
        return self.handle(1, record, context)

    def process_right(self, record: Any, context: ProcessContext) -> Iterator[Any]:
        return self.handle(2, record, context)

    def on_timer(self, time: int, context: ProcessContext) -> Iterator[Any]:
        yield f"STATE:{self.seen}"


class BothTimers(CoProcessFunction):
    def process_left(self, record: Any, context: ProcessContext) -> None:
        context.add_processing_timer(timedelta(seconds=3), "clock")
        context.add_timer(6)
        context.delete_timer("clock")

    def process_right(self, record: Any, context: ProcessContext) -> None:
        context.add_timer(4)
        context.add_processing_timer(timedelta(seconds=5), "clock")
        context.delete_timer(time_us=4)

    def on_timer(self, time: int, context: ProcessContext) -> list[Any]:
        return [f"{'PROC' if context.name else 'EVENT'}:1777"]


class AppendsKey(CoProcessFunction):
    def process_left(self, record: Any, context: ProcessContext) -> list[Any]:
        return [f"{record},{context.key}"]

    process_right = process_left


SNAPSHOT = "snapshot"
FLINK: dict[str, tuple[Callable[[], CoProcessFunction], list[Any]]] = {
    "TimestampAndWatermarkQuerying": (
        Queries,
        [
            *(17, ("left", 5), ["5WM:17 PT:0"]),
            *(42, ("right", "6"), ["6WM:42 PT:0"]),
        ],
    ),
    "TimestampAndProcessingTimeQuerying": (
        Queries,
        [
            *(0, ("clock", 17), ("left", 5), ["5WM:0 PT:17"]),
            *(("clock", 42), ("right", "6"), ["6WM:0 PT:42"]),
        ],
    ),
    "EventTimeTimers": (
        lambda: Triggers("event"),
        [
            *(("left", 17), ("right", "18"), ["INPUT1:17", "INPUT2:18"]),
            *(5, ["17:1777"], 6, ["18:1777"]),
        ],
    ),
    "ProcessingTimeTimers": (
        lambda: Triggers("clock"),
        [
            *(("left", 17), ("right", "18"), ["INPUT1:17", "INPUT2:18"]),
            *(("clock", 5), ["17:1777"], ("clock", 6), ["18:1777"]),
        ],
    ),
    "EventTimeTimerWithState": (
        lambda: Stateful("event"),
        [
            *(1, ("left", 17), ("left", 13), ["INPUT1:17", "INPUT1:13"]),
            *(2, ("left", 13), ("right", "42"), ["INPUT2:42"]),
            *(6, ["STATE:17"], 7, ["STATE:42"]),
        ],
    ),
    "ProcessingTimeTimerWithState": (
        lambda: Stateful("clock"),
        [
            *(("clock", 1), ("left", 17), ("left", 13), ["INPUT1:17", "INPUT1:13"]),
            *(("clock", 2), ("left", 13), ("right", "42"), ["INPUT2:42"]),
            *(("clock", 6), ["STATE:17"], ("clock", 7), ["STATE:42"]),
        ],
    ),
    "SnapshotAndRestore": (
        BothTimers,
        [
            *(("left", 5), ("right", "5"), SNAPSHOT, []),
            *(("clock", 5), ["PROC:1777"], 6, ["EVENT:1777"]),
        ],
    ),
    "GetCurrentKeyFromContext": (
        AppendsKey,
        [
            *(("left", 5), ("left", 6), ("right", "hello"), ("right", "world")),
            ["5,5", "6,6", "hello,hello", "world,world"],
        ],
    ),
}


@pytest.mark.parametrize("name", FLINK)
def test_flink_keyed_co_process_operator(name: str) -> None:
    function, steps = FLINK[name]
    opened, found = Opened(function()), []
    for step in steps:
        if isinstance(step, list):
            assert found == step
            found = []
        elif step == SNAPSHOT:
            state = opened.function.snapshot()
            opened = Opened(function())
            opened.function.restore(KeyedState.share([state], 0, 1))
        elif isinstance(step, int):
            found += opened.watermark(step)
        elif step[0] == "clock":
            found += opened.clock(step[1])
        else:
            side, record = step
            found += getattr(opened, side)(str(record), record)
    assert found == []


# --- Flink's training (apache/flink-training, Apache-2.0): RidesAndFaresUnitTest and
# LongRidesUnitTest, 2 and 7 tests, all here ------------------------------------------------------


class RidesAndFares(CoProcessFunction):
    """A ride and its fare, when both have come."""

    ride = ValueState[Any]()
    fare = ValueState[Any]()

    def process_left(self, ride: Any, context: ProcessContext) -> Iterator[Any]:
        if self.fare is None:
            self.ride = ride
        else:
            yield ride, self.fare
            del self.fare

    def process_right(self, fare: Any, context: ProcessContext) -> Iterator[Any]:
        if self.ride is None:
            self.fare = fare
        else:
            yield self.ride, fare
            del self.ride


@pytest.mark.parametrize("first", ["left", "right"])
def test_flink_rides_and_fares(first: str) -> None:
    opened = Opened(RidesAndFares())
    records = {"left": "ride", "right": "fare"}
    (second,) = records.keys() - {first}
    assert getattr(opened, first)(1, records[first]) == []
    assert set(opened.keys) == {1}
    assert getattr(opened, second)(1, records[second]) == [("ride", "fare")]
    assert opened.keys == {}


HOUR = 3600 * 1_000_000
START, MINUTE_LATER, THREE_HOURS_LATER = 0, HOUR // 60, 3 * HOUR


class LongRides(CoProcessFunction):
    """Rides that take more than two hours: their starts are on the left, their ends on the right.

    A start without an end sets off the alarm when the watermark is two hours behind it.
    """

    start = ValueState[Any]()
    end = ValueState[Any]()

    def process_left(self, start: int, context: ProcessContext) -> Iterator[Any]:
        if self.end is not None:
            if self.end - start > 2 * HOUR:
                yield context.key
            del self.end
        else:
            self.start = start
            context.add_timer(start + 2 * HOUR)

    def process_right(self, end: int, context: ProcessContext) -> Iterator[Any]:
        if self.start is None:
            self.end = end
            return
        if end - self.start > 2 * HOUR:
            yield context.key
        context.delete_timer(time_us=self.start + 2 * HOUR)
        del self.start

    def on_timer(self, time: int, context: ProcessContext) -> Iterator[Any]:
        yield context.key
        del self.start


LONG_RIDES: dict[str, list[Any]] = {
    "shouldNotAlertWithStartFirst": [("left", 1, START), ("right", 1, MINUTE_LATER), []],
    "shouldNotAlertWithEndFirst": [("right", 1, MINUTE_LATER), ("left", 1, START), []],
    "shouldAlertWithStartFirst": [("left", 1, START), ("right", 1, THREE_HOURS_LATER), [1]],
    "shouldAlertWithEndFirst": [("right", 1, THREE_HOURS_LATER), ("left", 1, START), [1]],
    "shouldNotAlertWithoutWatermarkOrEndEvent": [
        *(("left", 1, START), ("left", 2, THREE_HOURS_LATER), [], 2 * HOUR, [1]),
    ],
    "shouldAlertOnWatermark": [("left", 1, START), [], 2 * HOUR, [1]],
}


@pytest.mark.parametrize("name", LONG_RIDES)
def test_flink_long_rides(name: str) -> None:
    opened, found = Opened(LongRides()), []
    for step in LONG_RIDES[name]:
        if isinstance(step, list):
            assert found == step
            found = []
        elif isinstance(step, int):
            found += opened.watermark(step)
        else:
            side, *rest = step
            found += getattr(opened, side)(*rest)


def test_flink_long_rides_should_use_timers_and_state() -> None:
    opened = Opened(LongRides())
    opened.left(1, START)
    assert (opened.timers, set(opened.keys)) == (1, {1})
    opened.right(1, MINUTE_LATER)
    assert (opened.timers, opened.keys) == (0, {})


# --- in jobs ----------------------------------------------------------------------------------


class Sides(CoProcessFunction):
    """All records of a key, and which side they came from; all of both at the end."""

    outputs = ("seen",)
    records = ListState[Any]()

    def process_left(self, record: Any, context: ProcessContext) -> Iterator[Any]:
        return self.keep("left", record, context)

    def process_right(self, record: Any, context: ProcessContext) -> Iterator[Any]:
        return self.keep("right", record, context)

    def keep(self, side: str, record: Any, context: ProcessContext) -> Iterator[Any]:
        context.output("seen", side)
        self.records.append((side, record))
        context.set_timer(1 << 60)
        yield from ()

    def on_timer(self, time: int, context: ProcessContext) -> Iterator[Any]:
        yield context.key, sorted(map(repr, self.records))


LEFT = [(f"k{number % 7}", number) for number in range(150)]
RIGHT = [{"of": f"k{number % 9}", "n": number} for number in range(80)]
KEYED: dict[str, Callable[[Any, Any], tuple[KeyedStream[Any, Any], KeyedStream[Any, Any]]]] = {
    "items": lambda left, right: (left.key_by(0), right.key_by("of")),
    "functions": lambda left, right: (
        left.key_by(lambda record: record[0]),
        right.key_by(lambda record: record["of"]),
    ),
    "an item and a function": lambda left, right: (
        left.key_by(0),
        right.key_by(lambda record: record["of"]),
    ),
}


def expected() -> list[Any]:
    of_keys: dict[str, list[Any]] = {}
    for record in LEFT:
        of_keys.setdefault(str(record[0]), []).append(("left", record))
    for other in RIGHT:
        of_keys.setdefault(str(other["of"]), []).append(("right", other))
    return sorted((key, sorted(map(repr, found))) for key, found in of_keys.items())


@parallelism
@pytest.mark.parametrize("keyed", KEYED)
def test_equal_keys_of_both_streams_share_their_state(keyed: str, parallelism: int) -> None:
    streams = (source(Collection(each)).with_parallelism(1) for each in (LEFT, RIGHT))
    left, right = KEYED[keyed](*streams)
    sides = left.connect(right).process(Sides())
    found = run(
        [sides.sink(Collect()), sides.side("seen").sink(Collect()).named("seen")],
        parallelism=parallelism,
        batch_size=7,
    )
    assert sorted(found["collect"]) == expected()
    assert sorted(found["seen"]) == ["left"] * len(LEFT) + ["right"] * len(RIGHT)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_it_goes_on_in_any_number_of_tasks(tmp_path: Path, before: int, after: int) -> None:
    left, right = Halves(LEFT, 70), Halves(RIGHT, 25)
    sides = source(left).key_by(0).connect(source(right).key_by("of")).process(Sides())
    run_half(sides.sink(Collect()), tmp_path, left, right, parallelism=before)
    found = run_rest(sides.sink(Collect()), tmp_path, parallelism=after)["collect"]
    assert sorted(found) == expected()


@pytest.mark.parametrize(("left", "right"), [(LEFT, []), ([], RIGHT), ([], [])])
def test_a_stream_may_be_empty(left: list[Any], right: list[Any]) -> None:
    streams = source(Collection(left)).key_by(0), source(Collection(right)).key_by("of")
    sides = streams[0].connect(streams[1]).process(Sides())
    found = run(sides.sink(Collect()), parallelism=2)["collect"]
    assert sum(len(records) for _, records in found) == len(left) + len(right)


def test_odd_keys_are_equal_as_everywhere() -> None:
    nan = float("nan")
    keys = [None, True, 1.0, nan, "1", (1, nan), -5, 2**70]
    other = [None, 1, 1, -nan, "1", (1.0, nan), -5, float(2**70)]
    streams = (source(Collection([(key, 0) for key in each])) for each in (keys, other))
    left, right = (each.key_by(0) for each in streams)
    found = run(left.connect(right).process(Sides()).sink(Collect()), parallelism=3)["collect"]
    assert sorted(len(records) for _, records in found) == [2, 2, 2, 2, 2, 2, 4]


def test_a_watermark_is_that_of_both() -> None:
    class Late(CoProcessFunction):
        def process_left(self, record: Any, context: ProcessContext) -> None:
            context.add_timer(record[1])

        def process_right(self, record: Any, context: ProcessContext) -> Iterator[Any]:
            yield record[1]

        def on_timer(self, time: int, context: ProcessContext) -> Iterator[Any]:
            yield -time

    fast, slow = (timed([("a", at) for at in times]) for times in ((10, 20, 30), (1, 2, 25)))
    stream = fast.key_by(0).connect(slow.key_by(0)).process(Late())
    found = run(stream.sink(Collect()), clock=VirtualClock(), batch_size=1)["collect"]
    assert [time for time in found if time < 0] == [-10, -20, -30]
    assert found.index(-10) > found.index(2)


@batch_size
def test_failures_of_both_sides_are_put_aside(batch_size: int) -> None:
    class Fails(CoProcessFunction):
        count = ValueState(0)

        def process_left(self, record: Any, context: ProcessContext) -> Iterator[Any]:
            self.count += 1
            yield record
            if record[1] == 3:
                raise ValueError("three")

        def process_right(self, record: Any, context: ProcessContext) -> list[Any]:
            return [1 // record[1]]

    left = source(Collection([("a", n) for n in range(6)])).key_by(0)
    right = source(Collection([("b", 1), ("b", 0)])).key_by(0)
    out = left.connect(right).process(Fails(), on_error="side")
    found = run(
        [out.sink(Collect()), out.side("errors").sink(Collect()).named("bad")],
        batch_size=batch_size,
    )
    assert sorted(found["collect"], key=repr) == [*(("a", n) for n in (0, 1, 2, 4, 5)), 1]
    assert sorted(found["bad"]) == [
        (("a", 3), "ValueError: three"),
        (("b", 0), "ZeroDivisionError: integer division or modulo by zero"),
    ]
    right = source(Collection([("b", 1)])).key_by(0)
    with pytest.raises(engine.OperatorError, match="ValueError: three") as caught:
        run(left.connect(right).process(Fails()).sink(Collect()))
    assert (caught.value.operator, caught.value.record) == ("process", "('a', 3)")


def test_what_cannot_work_is_refused() -> None:
    class OfOne(ProcessFunction):
        def process(self, record: Any, context: ProcessContext) -> None: ...

    left, right = (source(Collection(each)) for each in (LEFT, RIGHT))
    both = left.key_by(0).connect(right.key_by("of"))
    assert repr(both) == "<ConnectedStreams collection -> hash by 0, collection -> hash by 'of'>"
    for wrong, message in (
        (right, "connect\\(\\) got Stream .*, expected a keyed stream\n\nhint: call .key_by"),
        (
            right.key_by("of", "n"),
            "got key_by\\(0\\) and key_by\\('of', 'n'\\), expected keys of as",
        ),
    ):
        with pytest.raises(engine.GraphError, match=message):
            left.key_by(0).connect(wrong)  # type: ignore[arg-type]
    for function, message in (
        (
            OfOne(),
            "expected a CoProcessFunction\n\nhint: class F.*process_left\\(\\) and process_r",
        ),
        (Sides, "expected a CoProcessFunction\n\nhint: make one: .process\\(Sides\\("),
    ):
        with pytest.raises(engine.GraphError, match=message):
            both.process(function)  # type: ignore[arg-type]
    with pytest.raises(engine.GraphError, match=r"expected a ProcessFunction\n\nhint: \.connect\("):
        left.key_by(0).process(Sides())  # type: ignore[arg-type]
    with pytest.raises(engine.GraphError, match="got on_error='no'"):
        both.process(Sides(), on_error="no")  # type: ignore[arg-type]
    with pytest.raises(engine.GraphError, match=r"\.connect\(\) needs to know what the key"):
        left.connect(right.key_by("of"))  # type: ignore[attr-defined]


def test_the_plan_tells_the_inputs_apart() -> None:
    left, right = (source(Collection([])).key_by(0) for _ in range(2))
    graph = logical_graph(left.connect(right).process(Sides()).sink(Collect()))
    (operator,) = (each for each in graph.operators if each.name == "process")
    assert [edge.input for edge in graph.inputs(operator)] == [0, 1]
