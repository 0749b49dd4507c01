"""Windows in jobs: watermarks from sources, results, late records, emit modes, what fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import engine
from engine.config import JobConfig
from engine.job import JobHandle
from engine.plan import Plan
from engine.testing import VirtualClock, run
from engine.testing.threads import ThreadLauncher
from operators import (
    Accumulator,
    BatchFunction,
    BatchOperator,
    CountWindow,
    Every,
    Session,
    Sliding,
    Stream,
    TaskContext,
    Tumbling,
    Watermark,
    source,
)
from operators.sinks import Collect, Discard
from operators.sources import Collection, Function
from tests.windowing import Tasks, us, windowed

pytestmark = pytest.mark.usefixtures("nothing_left")

TEN = Tumbling(us(10))


def given(*items: Any) -> Stream[Any]:
    """Records and watermarks, one item a second of the clock."""

    def items_of() -> Iterator[Any]:
        for item in items:
            yield item if isinstance(item, Watermark) else [item]

    return source(Function(items_of, rate=1)).with_parallelism(1)


def out(stream: Stream[Any], **settings: Any) -> Any:
    settings = {"clock": VirtualClock(), "batch_size": 1, **settings}
    return run(stream.sink(Collect()), **settings)["collect"]


def add(a: Any, b: Any) -> Any:
    return (*a[:2], a[2] + b[2])


RECORDS = [("a", 1, 1), ("b", 2, 2), ("a", 9, 3), ("a", 12, 4), Watermark(11), ("b", 8, 5)]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("key", [0, lambda record: record[0]])
def test_a_window_comes_when_the_watermark_has_passed_it(key: Any, parallelism: int) -> None:
    windows = given(*RECORDS).key_by(key).window(TEN, time=1)
    reduced = windows.reduce(add)
    pipelines = [
        reduced.map(lambda result: result).sink(Collect()),
        reduced.side("late").sink(Collect()).named("late"),
    ]
    settings: dict[str, Any] = {"parallelism": parallelism, "batch_size": 1}
    found = run(pipelines, clock=VirtualClock(), **settings)
    assert sorted(found["collect"]) == [
        ("a", ("a", 1, 4), 0, 10),
        ("a", ("a", 12, 4), 10, 20),
        ("b", ("b", 2, 2), 0, 10),
    ]
    assert found["late"] == [("b", 8, 5)]


def test_late_records_are_counted_whether_anything_reads_them() -> None:
    reduced = given(*RECORDS).key_by(0).window(TEN, time=1).reduce(add)
    config = JobConfig.of({"progress": "none", "batch_size": 1})
    plan = Plan.of(reduced.sink(Discard()), config)
    result = JobHandle(plan, ThreadLauncher(VirtualClock())).wait_finished()
    late = {each.name: each.late for each in result.statistics.operators}
    assert late == {"function": 0, "reduce": 1, "discard": 0}


def test_results_come_in_the_order_of_ends_and_then_of_first_records() -> None:
    records = [("c", 25), ("b", 5), ("a", 3), ("b", 15), ("a", 21), ("c", 1)]
    windows = given(*records).key_by(0).window(TEN, time=1)
    counted = windows.apply(lambda key, found, start, end: len(found))
    assert out(counted) == [
        *(("b", 1, 0, 10), ("a", 1, 0, 10), ("c", 1, 0, 10)),
        *(("b", 1, 10, 20), ("c", 1, 20, 30), ("a", 1, 20, 30)),
    ]


def test_an_on_time_record_in_the_last_microsecond_counts() -> None:
    records = [("a", 0), Watermark(8), ("a", 9), Watermark(9), ("a", 10), ("a", 9)]
    stream = given(*records).key_by(0).window(TEN, time=1).collect()
    found = run(
        [stream.sink(Collect()), stream.side("late").sink(Collect()).named("late")],
        clock=VirtualClock(),
        batch_size=1,
    )
    assert [record for _, record, *_ in found["collect"]] == [[("a", 0), ("a", 9)], [("a", 10)]]
    assert found["late"] == [("a", 9)]


class Total(Accumulator[Any, int, int]):
    def create(self) -> int:
        return 0

    def add(self, accumulated: int, record: Any) -> int:
        return accumulated + record[2]

    def merge(self, left: int, right: int) -> int:
        return left + right


class Longest(Accumulator[Any, str, int]):
    def create(self) -> str:
        return ""

    def add(self, accumulated: str, record: Any) -> str:
        return max(accumulated, str(record[2]), key=len)

    def merge(self, left: str, right: str) -> str:
        return max(left, right, key=len)

    def finish(self, accumulated: str) -> int:
        return len(accumulated)


def test_several_accumulators() -> None:
    records = [("a", 1, 100), ("a", 6, 5), ("a", 11, 7)]
    windows = given(*records).key_by(0).window(Sliding(us(10), us(5)), time=1)
    assert out(windows.aggregate(total=Total(), digits=Longest())) == [
        ("a", {"total": 100, "digits": 3}, -5, 5),
        ("a", {"total": 105, "digits": 3}, 0, 10),
        ("a", {"total": 12, "digits": 1}, 5, 15),
        ("a", {"total": 7, "digits": 1}, 10, 20),
    ]


def test_updates_come_once_per_batch_and_not_again_at_the_end() -> None:
    windows = given(*RECORDS).key_by(0).window(TEN, time=1, emit="updates")
    assert out(windows.reduce(add)) == [
        *(("a", ("a", 1, 1), 0, 10), ("b", ("b", 2, 2), 0, 10), ("a", ("a", 1, 4), 0, 10)),
        ("a", ("a", 12, 4), 10, 20),
    ]


class Stamped(BatchOperator):
    """Each result with the tenth of a second in which it came."""

    def open(self, context: TaskContext) -> BatchFunction:
        return _Stamped(context)


class _Stamped(BatchFunction):
    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def process(self, batch: list[Any]) -> list[Any]:
        return [(key, value[2], self._context.now_ns() // 10**8) for key, value, _, _ in batch]


def test_every_so_often_what_changed_comes_and_when_windows_are_complete_the_rest() -> None:
    records = [("a", 1, 1), ("a", 2, 1), ("b", 3, 1), ("a", 4, 1), ("b", 5, 1), ("a", 6, 1)]
    more = [("c", 7, 1), ("d", 8, 1), Watermark(9), ("e", 11, 1)]
    every = Every(timedelta(seconds=2.5))
    stream = given(*records, *more).key_by(0).window(TEN, time=1, emit=every).reduce(add)
    assert out(stream.then(Stamped())) == [
        *(("a", 2, 25), ("b", 1, 25)),  # changed from 0 s on
        *(("a", 4, 55), ("b", 2, 55)),  # from 3 s on
        *(("c", 1, 70), ("d", 1, 70)),  # complete
        ("e", 1, 80),  # the end
    ]


@pytest.mark.parametrize("assigner", [TEN, Session(us(5)), Sliding(us(10), us(10))])
def test_with_lateness_a_window_comes_anew_with_each_late_record(assigner: Any) -> None:
    records = [("a", 1, 1), ("a", 5, 1), Watermark(20), ("a", 4, 1), Watermark(28), ("a", 6, 1)]
    windows = given(*records).key_by(0).window(assigner, time=1, allowed_lateness=us(15))
    found = [value[2] for _, value, _, _ in out(windows.reduce(add))]
    assert found == [2, 3]


def test_a_late_record_opens_its_window_where_that_is_allowed() -> None:
    records = [("a", 31, 1), Watermark(20), ("b", 12, 1), ("b", 1, 1)]
    windows = given(*records).key_by(0).window(TEN, time=1, allowed_lateness=us(5))
    assert out(windows.reduce(add)) == [("b", ("b", 12, 1), 10, 20), ("a", ("a", 31, 1), 30, 40)]


NANS = [float("nan"), -float("nan"), np.float32("nan"), Decimal("NaN"), complex("nan")]


@pytest.mark.parametrize("key", [0, (0, 0), lambda record: record[0]])
@pytest.mark.parametrize("assigner", [TEN, Session(us(10)), CountWindow(10)])
def test_all_nan_are_one_key_and_so_are_equal_numbers(assigner: Any, key: Any) -> None:
    keys = [*NANS, 1, True, 1.0, *NANS]
    records: Any = [(each, 0, 1) for each in keys]
    stream = source(Collection([])).with_event_time(1)
    paired = callable(key)
    keyed = stream.key_by(key) if paired or key == 0 else stream.key_by(0, 2)
    given = [(key(each), each) for each in records] if paired else records
    task = Tasks(keyed.window(assigner).reduce(add)).functions[0]
    out = [*task.process(given[:7]), *task.process(given[7:])]
    out += [result for batch in task.on_end() for result in batch]
    assert sorted(value[2] for _, value, _, _ in out) == [3, 10]


def test_an_unhashable_key_is_refused() -> None:
    for reduced in (windowed(TEN), windowed(Session(us(10))), windowed(CountWindow(2))):
        with pytest.raises(TypeError, match="is a list, which is not hashable"):
            Tasks(reduced.reduce(add)).functions[0].process([([1], 1, 1)])


@pytest.mark.table(3)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_windows_of_what_with_event_time_declared(parallelism: int, batch_size: int) -> None:
    records = [(f"k{n % 7}", n * 100_000 - (n % 3) * 250_000, 1) for n in range(600)]
    timed = source(Collection(records, rate=1000.0)).with_event_time(
        1, out_of_orderness=timedelta(seconds=1)
    )
    windows = timed.key_by(0).window(Tumbling(timedelta(seconds=10)))
    config = JobConfig.of(
        {"progress": "none", "parallelism": parallelism, "batch_size": batch_size}
    )
    plan = Plan.of(windows.reduce(add).sink(Collect()), config)
    result = JobHandle(plan, ThreadLauncher(VirtualClock())).wait_finished()
    assert sum(each.late for each in result.statistics.operators) == 0
    wanted: dict[Any, int] = {}
    for key, at, _ in records:
        wanted[key, at // 10**7] = wanted.get((key, at // 10**7), 0) + 1
    found = {(key, start // 10**7): value[2] for key, value, start, _ in result.output}
    assert len(result.output) == len(found)
    assert found == wanted


BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)
FORMS: list[tuple[str, list[Any], list[Any], list[Any]]] = [
    ("s", [0, 3599, 3600, 7199], [0, 3600], [3600, 7200]),
    ("s", [0.5, 3599.9999991, 3599.9999999], [0.0, 3600.0], [3600.0, 7200.0]),
    ("ms", [-1, 0, 3_599_999], [-3_600_000, 0], [0, 3_600_000]),
    ("ns", [0, 3_600_000_000_000 - 1], [0], [3_600_000_000_000]),
    (
        "us",
        [datetime(2026, 1, 1, 5, 59, 59), datetime(2026, 1, 1, 6)],
        [datetime(2026, 1, 1, 5), datetime(2026, 1, 1, 6)],
        [datetime(2026, 1, 1, 6), datetime(2026, 1, 1, 7)],
    ),
    (
        "us",
        [datetime(2026, 1, 1, 5, 59, tzinfo=timezone.utc)],
        [datetime(2026, 1, 1, 5, tzinfo=timezone.utc)],
        [datetime(2026, 1, 1, 6, tzinfo=timezone.utc)],
    ),
]


@pytest.mark.parametrize(("unit", "times", "starts", "ends"), FORMS)
def test_starts_and_ends_are_in_the_form_of_the_times(
    unit: Any, times: list[Any], starts: list[Any], ends: list[Any]
) -> None:
    stream = source(Collection([])).with_event_time(1, unit=unit).key_by(0)
    for shown in (times, times[::-1]):
        tasks = Tasks(stream.window(Tumbling(HOUR)).collect())
        found = tasks.take([("a", each, 0) for each in shown], 1000) + tasks.end()
        results = [result for part in found for result in part]
        assert [start for *_, start, _ in results] == starts
        assert [end for *_, end in results] == ends
        for _, _, start, end in results:
            assert type(start) is type(end) is type(times[0])


def test_an_hour_that_clocks_show_twice_is_two_windows() -> None:
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    times = [twice, twice.replace(fold=1), twice, twice.replace(fold=1, minute=59)]
    tasks = Tasks(windowed(Tumbling(HOUR)).collect())
    records: Any = [("a", each, number) for number, each in enumerate(times)]
    ((first, second),) = tasks.take(records, 1000) + tasks.end()
    assert [number for *_, number in first[1]] == [0, 2]
    assert [number for *_, number in second[1]] == [1, 3]
    assert second[2].astimezone(timezone.utc) - first[2].astimezone(timezone.utc) == HOUR


def test_times_of_several_kinds_in_one_stream() -> None:
    at = datetime(1970, 1, 1, 0, 0, 0, 5)
    records: Any = [("a", 1, 0), ("a", at, 1), ("a", 2, 2), ("a", 3.0, 3), ("a", at, 4)]
    for paired in (False, True):
        stream = source(Collection([])).with_event_time(1)
        keyed = stream.key_by(lambda record: record[0]) if paired else stream.key_by(0)
        given = [(each[0], each) for each in records] if paired else records
        tasks = Tasks(keyed.window(TEN).collect())
        (((_, found, start, end),),) = tasks.take(given, 1000) + tasks.end()
        assert found == records
        assert (start, end) == (0, 10)


def test_a_function_that_fails_on_times_of_several_kinds_fails_once() -> None:
    calls = []

    def fails(a: Any, b: Any) -> Any:
        calls.append(b)
        raise TypeError("cannot")

    records: Any = [("a", 1, 0), ("a", datetime(1970, 1, 1), 1)]
    for given in (records, records[::-1]):
        with pytest.raises(TypeError, match="cannot"):
            Tasks(windowed(TEN).reduce(fails)).take(given, 1000)
        assert calls.pop() is given[1]
        assert not calls


FAILING: list[tuple[Any, str]] = [
    (("a", None, 1), "the time of the record is None"),
    (("a", float("nan"), 1), "the time of the record is nan"),
    (("a", "noon", 1), "the time of the record is 'noon'"),
    (("a",), "IndexError"),
]


@pytest.mark.table(2)
@pytest.mark.parametrize("key", [0, (0,), lambda record: record[0]])
@pytest.mark.parametrize(("record", "message"), FAILING)
@pytest.mark.parametrize("before", [[], [("a", 1, 1)]])
@pytest.mark.parametrize("assigner", [TEN, Session(us(10))])
def test_a_record_without_a_time_is_named(
    key: Any, record: Any, message: str, before: Any, assigner: Any
) -> None:
    keyed = source(Collection([*before, record])).key_by(*(key if type(key) is tuple else (key,)))
    with pytest.raises(engine.OperatorError, match=message) as raised:
        out(keyed.window(assigner, time=1).reduce(add), clock=None)
    assert raised.value.operator == "reduce"
    assert raised.value.record == repr(record)


@pytest.mark.parametrize("assigner", [TEN, Session(us(10)), CountWindow(3)])
@pytest.mark.parametrize("key", [0, lambda record: record[0]])
def test_records_that_fail_may_be_put_aside(assigner: Any, key: Any) -> None:
    bad: list[Any] = [("a", 3, "x"), ("a", None, 1), ("a", "noon", 1)]
    if isinstance(assigner, CountWindow):
        bad = bad[:1]
    records = [("a", 1, 1), *bad, ("a", 2, 5), ("a", 3, 1)]
    keyed = source(Collection(records)).key_by(key)
    timed = None if isinstance(assigner, CountWindow) else 1
    reduced = keyed.window(assigner, time=timed).reduce(add, on_error="side")
    aside = reduced.side("errors").map(lambda pair: pair[0])
    found = run([reduced.sink(Collect()), aside.sink(Collect()).named("bad")])
    assert [value for _, value, _, _ in found["collect"]] == [("a", 1, 7)]
    assert found["bad"] == bad


def test_what_fails_at_a_window_is_told_of_its_operator() -> None:
    windows = given(*RECORDS).key_by(0).window(TEN, time=1)
    with pytest.raises(engine.OperatorError, match="ZeroDivisionError") as raised:
        out(windows.apply(lambda key, records, start, end: 1 // 0))
    assert raised.value.operator == "apply"


def test_thousands_of_windows_come_in_batches() -> None:
    records = [(n % 10, 10 * n, 1) for n in range(5000)]
    stream = source(Collection(records)).key_by(0).window(TEN, time=1).reduce(add)
    sizes = out(stream.map_batches(lambda batch: [len(batch)]), clock=None, batch_size=100)
    assert sum(sizes) == 5000
    assert max(sizes) == 100


LEAKS: dict[str, Callable[[], Stream[Any]]] = {
    "tumbling": lambda: windowed(Tumbling(us(10))).reduce(add),
    "sliding": lambda: windowed(Sliding(us(30), us(10))).reduce(add),
    "session": lambda: windowed(Session(us(5))).reduce(add),
    "lateness": lambda: windowed(TEN, allowed_lateness=us(40)).reduce(add),
    "updates": lambda: windowed(TEN, emit="updates").reduce(add),
    "every": lambda: windowed(Sliding(us(30), us(10)), emit=Every(HOUR)).reduce(add),
}


@pytest.mark.parametrize("name", LEAKS)
def test_nothing_is_left_of_ten_thousand_windows_of_a_hundred_thousand_keys(name: str) -> None:
    tasks = Tasks(LEAKS[name]())
    keys = 0
    for window in range(10_000):
        batch: list[Any] = [(key, 10 * window + 3, 1) for key in range(keys, keys + 10)]
        keys += 10
        tasks.take(batch, 1000)
        if window % 100 == 99:
            tasks.take([10 * window])
    assert keys == 100_000
    tasks.take([10**9])
    assert all(not state.entries for state in tasks.snapshot())
    assert left(tasks.functions[0]) == 0


def left(function: Any) -> int:
    """How many things the state of a task still has."""
    return sum(
        len(each) for each in vars(function._state).values() if isinstance(each, list | dict)
    )
