"""Functions that say where times are: lifted, called, and both; no difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest

from engine.columns import Rows
from engine.graph.batch_operator import BatchFunction, BatchOperator
from engine.graph.context import TaskContext
from engine.network import AggregateError, Batch, TimeFunction
from engine.state import KeyedState
from engine.task.compared import NativeDiffers
from engine.testing import run
from operators import Count, Session, Stream, Sum, Tumbling, source
from operators.event_time.in_rust import TimesForRust
from operators.event_time.watermarks import WithEventTime
from operators.sinks import Collect
from operators.sources import Collection
from tests.windowing import us

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
TIMES: dict[str, tuple[Callable[[Any], Any], Any, Callable[[int], Any], bool]] = {
    "item": (lambda r: r["t"], "us", lambda n: n, True),
    "getter": (itemgetter("t"), "ms", lambda n: n, True),
    "computed": (lambda r: r["t"] * 2 + 1, "s", lambda n: n, True),
    "float": (lambda r: r["t"] / 4, "s", lambda n: n, True),
    "nanoseconds": (lambda r: r["t"] - 7, "ns", lambda n: n * 999, True),
    "conditional": (lambda r: r["t"] if r["t"] > 0 else -r["t"], "us", lambda n: n - 20, True),
    "text": (lambda r: int(r["t"]), "us", str, True),
    "datetime": (lambda r: r["t"], "us", lambda n: NOON + timedelta(microseconds=n), True),
    "naive": (lambda r: r["t"], "us", lambda n: datetime(2026, 1, 1) + us(n), True),
    "far": (lambda r: r["t"] + (2**63 - 40), "ns", lambda n: n, False),
    "not lifted": (
        lambda r: datetime.fromisoformat(r["t"]),
        "us",
        lambda n: NOON.isoformat(),
        False,
    ),
}
SETTINGS: dict[str, Callable[[Any], Any]] = {
    "count": lambda stream: stream.window(Tumbling(us(10))).count(),
    "sessions": lambda stream: stream.window(Session(us(3))).aggregate(n=Count(), of=Sum("n")),
    "updates": lambda stream: stream.window(Tumbling(us(10)), emit="updates").sum("n"),
    "over": lambda stream: stream.over(us(10)).sum("n"),
    "over, keyed": lambda stream: stream.over(us(10)).aggregate(n=Count()),
}


def keyed(name: str, by: Any = "k") -> Any:
    function, unit, _, _ = TIMES[name]
    return source(Collection([])).with_event_time(function, unit=unit).key_by(by)


def opened(stream: Stream[Any], way: Any, **settings: Any) -> BatchFunction:
    operator = stream.inputs[0].source.operator
    assert isinstance(operator, BatchOperator)
    task = TaskContext("t", 0, 1, 7, "job", native=way)
    return operator.open(replace(task, **settings))


def outcome(function: BatchFunction, batches: list[list[Any]], paired: bool = False) -> Any:
    """All that comes out, or the error."""
    out: list[Any] = []
    try:
        for at, batch in enumerate(batches):
            given = [(record["k"], record) for record in batch] if paired else batch
            out += function.process(Batch.from_list(given))
            out += [r for each in function.on_watermark(100 * at) or () for r in each]
        kept = function.snapshot()
        out += [r for each in function.on_end() or () for r in each]
    except AggregateError as error:
        return str(error)
    return repr(out), kept and list(kept.entries)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", TIMES)
def test_all_ways_give_the_same(name: str, setting: str, paired: bool) -> None:
    _, _, form, is_native = TIMES[name]
    stream = keyed(name, (lambda r: r["k"]) if paired else "k")
    if paired and "over" in setting:
        return
    records = [{"k": n % 3, "t": form(n), "n": n} for n in range(60)]
    batches = [records[:20], records[20:40], [], records[40:]]
    found = {}
    for way in ("off", "auto", "check"):
        function = opened(SETTINGS[setting](stream), way)
        found[way] = outcome(function, batches, paired)
        if way == "auto" and is_native:
            assert function.native is not None
            assert (function.native.native, function.native.fallbacks) == (60, 0)
    assert found["off"] == found["auto"] == found["check"]
    assert name == "far" or found["off"][0] != "[]"


@pytest.mark.parametrize("bad", [None, True, "x", [1], float("nan"), float("inf"), 1 << 70, 1e300])
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_time_that_is_none(bad: Any, on_error: Any) -> None:
    records = [{"k": 1, "t": 1, "n": 1}, {"k": 1, "t": bad, "n": 2}, {"k": 1, "t": 2, "n": 4}]
    found = []
    for way in ("off", "auto", "check"):
        rescued: list[Any] = []
        stream = keyed("item").window(Tumbling(us(10))).sum("n", on_error=on_error)
        rescue = None if on_error == "fail" else lambda *at: rescued.append(at)  # noqa: B023
        function = opened(stream, way, rescue=rescue)
        out = outcome(function, [records])
        found.append((out, [(record, str(error)) for record, error in rescued]))
    assert found[0] == found[1] == found[2]
    assert "5" in found[0][0][0] if on_error == "skip" else "time" in found[0][0]


def test_a_record_without_it_and_a_function_that_always_gives_up() -> None:
    function = opened(keyed("item").window(Tumbling(us(10))).count(), "auto")
    with pytest.raises(AggregateError, match="'t'"):
        function.process(Batch.from_list([{"k": 1, "t": 1}, {"k": 1}]))
    function = opened(keyed("far").window(Tumbling(us(10))).count(), "auto")
    for _ in range(600):
        function.process(Batch.from_list([{"k": 1, "t": 100}]))
    native = function.native
    assert native is not None
    assert (native.native, native.fallbacks) == (0, 12)
    assert native.first_fallback == "an integer beyond 64 bits"


STEP = 1


def test_a_guard_that_no_longer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = source(Collection([])).with_event_time(lambda r: r["t"] * STEP).key_by("k")
    found = []
    for way in ("off", "auto"):
        function = opened(stream.window(Tumbling(us(10))).count(), way)
        monkeypatch.setitem(globals(), "STEP", 1)
        function.process(Batch.from_list([{"k": 1, "t": 3}]))
        monkeypatch.setitem(globals(), "STEP", 100)
        function.process(Batch.from_list([{"k": 1, "t": 3}]))
        found.append([r for batch in function.on_end() or () for r in batch])
    assert found[0] == found[1] == [(1, 1, 0, 10), (1, 1, 300, 310)]


@pytest.mark.parametrize(("before", "after"), [("auto", "off"), ("off", "auto")])
@pytest.mark.parametrize("setting", ["sessions", "over"])
def test_others_go_on_in_another_way(before: Any, after: Any, setting: str) -> None:
    records = [{"k": n % 3, "t": n, "n": n} for n in range(40)]
    stream = SETTINGS[setting](keyed("computed"))
    expected = outcome(opened(stream, "off"), [records])[0]
    first = opened(stream, before)
    first.process(Batch.from_list(records[:25]))
    second = opened(stream, after)
    state = first.snapshot()
    assert state is not None
    second.restore(KeyedState.share([state], 0, 1))
    second.process(Batch.from_list(records[25:]))
    assert repr([r for batch in second.on_end() or () for r in batch]) == expected


def test_a_difference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    function = opened(keyed("item").window(Tumbling(us(10))).count(), "check")
    given = TimesForRust._time
    monkeypatch.setattr(TimesForRust, "_time", lambda self, found: given(self, found) + 1)
    with pytest.raises(NativeDiffers, match="gave 3 natively and 4 by Python"):
        function.process(Batch.from_list([{"k": 1, "t": 3}]))


def test_what_is_not_known() -> None:
    with pytest.raises(ValueError, match="unit"):
        TimeFunction((1, ([], ("return", 0))), "minutes")
    with pytest.raises(ValueError, match="2 arguments"):
        TimeFunction((2, ([], ("return", 0))), "us")


ROWS = [{"t": (37 * n) % 101, "n": n} for n in range(200)]


@pytest.mark.parametrize("form", ["columns", "rows", "records"])
@pytest.mark.parametrize("function", [lambda r: r["t"], lambda r: float(str(r["n"]))])
def test_watermarks_are_those_of_the_dicts(form: str, function: Any) -> None:
    """However columns come, the same times of theirs are looked at, and the columns pass."""
    batch = pa.RecordBatch.from_pylist(ROWS)
    given: Any = {"columns": batch, "rows": Rows(batch), "records": ROWS}[form]
    operator: Any = source(Collection([])).with_event_time(function).inputs[0].source.operator
    assert isinstance(operator, WithEventTime)
    made = []
    for each in (given, ROWS):
        opened_ = operator.open(TaskContext("t", 0, 1, 7, "job", now_ns=lambda: 1 << 62))
        assert opened_.process(each) is each
        made.append(opened_.watermark)
    assert made[0] == made[1] is not None


def test_a_job_of_columns_with_a_function_of_time() -> None:
    batch = pa.RecordBatch.from_pylist([{"k": n % 2, "t": n} for n in range(40)])
    found = []
    for way in ("off", "auto", "check"):
        stream = source(Collection([batch])).with_event_time(lambda r: r["t"]).key_by("k")
        counts = stream.window(Tumbling(us(10))).count().native(way)  # type: ignore[arg-type]
        found.append(run(counts.sink(Collect()))["collect"])
    assert found[0] == found[1] == found[2]
    assert sum(each[1] for each in found[0]) == 40
