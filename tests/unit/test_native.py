"""Jobs whose functions run natively have the results, counts and failures of Python's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import engine
from engine.config import JobConfig
from engine.plan import Plan
from engine.report.result import JobResult
from engine.testing import run
from operators import Stream, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection

Records = list[Any]
Flow = Callable[[Stream[Any]], Stream[Any]]

WORDS: Records = ["ape", "Bee", "", "ape", "İ", "ǅ", "cow " * 9]
DICTS: Records = [
    {"user": f"u{n % 3}", "amount": n, "price": n / 4, "tags": ["x"] * (n % 3)} for n in range(40)
]
NUMBERS: Records = [0, 1, -1, 2**62, 2**63 - 1, -(2**63), 2**64, 1.5, True, 7]

FLOWS: dict[str, tuple[Records, Flow]] = {
    "pairs of words": (WORDS, lambda s: s.map(lambda w: (w, 1))),
    "texts": (WORDS, lambda s: s.map(lambda w: (w.lower(), w.strip(), len(w)))),
    "splits": (WORDS, lambda s: s.flat_map(lambda w: w.split())),
    "filters": (WORDS, lambda s: s.filter(lambda w: len(w) > 2).filter(lambda w: w != "ape")),
    "numbers": (NUMBERS, lambda s: s.map(lambda n: n * 2 + 1)),
    "quotients": (NUMBERS, lambda s: s.map(lambda n: (n // 3, n % 3, n / 7))),
    "projections": (
        DICTS,
        lambda s: s.map(lambda r: {"user": r["user"], "total": r["amount"] * r["price"]}),
    ),
    "merges": (DICTS, lambda s: s.map(lambda r: {**r, "double": 2 * r["amount"]})),
    "chains": (
        DICTS,
        lambda s: (
            s.map(lambda r: (r["user"], r["amount"]))
            .filter(lambda r: r[1] % 2 == 0)
            .flat_map(lambda r: [r, (r[0], -r[1])])
        ),
    ),
    "branches": (
        DICTS,
        lambda s: s.map(lambda r: "many" if r["amount"] > 20 else r["amount"] or None),
    ),
}
KEYS: dict[str, tuple[Records, Callable[[Any], Any]]] = {
    "an item": (DICTS, lambda r: r["user"]),
    "a tuple": (DICTS, lambda r: (r["user"], r["amount"] % 2)),
    "a text": (WORDS, lambda w: w[:1]),
    "a number": (NUMBERS, lambda n: n % 2),
}


def split(records: Records) -> Stream[Any]:
    """The records of a source in other tasks: they come over channels."""
    return source(Collection(records)).rebalance()


def outcome(flow: Stream[Any], **settings: Any) -> list[Any]:
    """What comes out, in order of its text; the error's text where it fails."""
    try:
        (found,) = run(flow.sink(Collect()), **settings).values()
    except engine.EngineError as error:
        return [type(error).__name__, str(error)]
    return sorted(map(repr, found))


@pytest.mark.parametrize("mode", ["auto", "require", "check"])
@pytest.mark.parametrize("place", ["before a gate", "behind a gate", "between gates", "alone"])
@pytest.mark.parametrize("name", FLOWS)
def test_records_are_those_of_python(name: str, place: str, mode: str) -> None:
    records, flow = FLOWS[name]
    begin = source(Collection(records)) if place in ("before a gate", "alone") else split(records)
    out = flow(begin)
    if place in ("before a gate", "between gates"):
        out = out.rebalance().map_batches(lambda batch: batch)
    for parallelism, size in ((1, 1000), (2, 3)):
        settings = {"parallelism": parallelism, "batch_size": size}
        wanted = outcome(out, native="off", **settings)
        assert outcome(out, native=mode, **settings) == wanted


@pytest.mark.parametrize("mode", ["auto", "check"])
@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_keys_are_those_of_python(name: str, mode: str, parallelism: int) -> None:
    records, key = KEYS[name]
    out = source(Collection(records)).key_by(key).count(emit="final")
    wanted = outcome(out, native="off", parallelism=parallelism)
    assert outcome(out, native=mode, parallelism=parallelism) == wanted


COLUMNS = pa.record_batch(
    {
        "n": pa.array([1, 2, None, 4, 5], "int32"),
        "x": pa.array([0.5, 1.5, 2.5, -0.0, 9.0]),
        "word": pa.array(["a", "b", "a", None, "İ"]).dictionary_encode(),
    }
)
OVER_COLUMNS: dict[str, Flow] = {
    "filter": lambda s: s.filter(lambda r: r["x"] > 1),
    "filter of a column with nulls": lambda s: s.filter(lambda r: r["n"] > 1),
    "filter of nulls": lambda s: s.filter(lambda r: r["n"] is not None),
    "map to dicts": lambda s: s.map(lambda r: {"word": r["word"], "twice": r["x"] * 2}),
    "map to tuples": lambda s: s.map(lambda r: (r["word"], r["x"])),
    "map to numbers": lambda s: s.map(lambda r: r["x"] + 1),
    "merge": lambda s: s.map(lambda r: {**r, "y": -r["x"]}),
    "missing column": lambda s: s.map(lambda r: r["y"]),
    "filter and map": lambda s: s.filter(lambda r: r["x"] > 1).map(lambda r: r["x"]),
    "text": lambda s: s.filter(lambda r: r["word"] == "a"),
}


@pytest.mark.parametrize("mode", ["auto", "require", "check"])
@pytest.mark.parametrize("place", ["before a gate", "behind a gate", "alone"])
@pytest.mark.parametrize("name", OVER_COLUMNS)
def test_columns_give_what_their_rows_give(name: str, place: str, mode: str) -> None:
    begin: Stream[Any] = source(Collection(pa.Table.from_batches([COLUMNS] * 2)))
    if place == "behind a gate":
        begin = begin.rebalance()
    out = OVER_COLUMNS[name](begin)
    if place == "before a gate":
        out = out.rebalance().map_batches(lambda batch: batch)
    wanted = outcome(out, native="off")
    assert outcome(out, native=mode) == wanted


MANY_TYPES = pa.record_batch(
    {
        "small": pa.array([1, None, -3], "int8"),
        "unsigned": pa.array([1, 2, 3], "uint32"),
        "long": pa.array([1, 2, 2**64 - 1], "uint64"),
        "single": pa.array([0.1, None, 2], "float32"),
        "flag": pa.array([True, None, False]),
        "text": pa.array(["a", None, "c"], "string_view"),
        "code": pa.array(["a", None, "a"]).dictionary_encode(),
        "coded flag": pa.array([True, None, False]).dictionary_encode(),
        "coded nulls": pa.DictionaryArray.from_arrays(
            pa.array([0, 0, 0]), pa.array([None], pa.string())
        ),
        "data": pa.array([b"a", None, b""], "large_binary"),
        "nothing": pa.nulls(3),
        "only nulls": pa.nulls(3, pa.string()),
        "time": pa.array([1, None, 3], pa.timestamp("ms", "UTC")),
        "items": pa.array([[1], None, []]),
    }
)


@pytest.mark.parametrize("mode", ["auto", "check"])
@pytest.mark.parametrize("name", [*MANY_TYPES.schema.names, None])
@pytest.mark.parametrize("start", [0, 1, 3])
def test_columns_of_dicts_of_columns_have_the_types_of_the_values(
    name: str | None, mode: str, start: int
) -> None:
    batch = MANY_TYPES if name is None else MANY_TYPES.select([name])
    begin: Stream[Any] = source(Collection([batch.slice(start)]))
    for flow in (
        begin.map(lambda r: {**r, "new": 1}).to_columns(),
        begin.to_records().to_columns(),
        begin.to_records().filter(lambda r: len(r) > 0).to_columns(),
        begin.to_records().rebalance().map_batches(lambda batch: batch),
    ):
        assert outcome(flow, native=mode) == outcome(flow, native="off")


@pytest.mark.parametrize(
    "flow",
    [
        lambda s: s.to_records().filter(lambda r: r["n"] == 100).to_columns(),
        lambda s: s.filter(lambda r: r["n"] == 100).map(lambda r: {"n": 1}).to_columns(),
        lambda s: s.map(lambda r: {}).to_columns(),
        lambda s: s.map(lambda r: {"n": r["n"] * 100}).to_columns(pa.schema([("n", "int8")])),
        lambda s: s.map(lambda r: {"n": r["n"]}).to_columns(pa.schema([("n", "int64")])),
    ],
)
def test_no_rows_and_rows_that_fit_no_column_are_as_dicts_are(flow: Flow) -> None:
    begin = source(Collection([pa.record_batch({"n": list(range(20))})]))
    assert outcome(flow(begin), native="auto") == outcome(flow(begin), native="off")


def test_rows_of_columns_with_one_name_are_refused_where_they_become_records() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    name, text = outcome(source(Collection([batch])).to_records().map(lambda r: r["a"]))
    assert name == "OperatorError"
    assert "operator 'to_records'" in text


def result_of(stream: Stream[Any], **settings: Any) -> JobResult:
    from engine.job import JobHandle
    from engine.testing.threads import ThreadLauncher

    config = JobConfig.of({"name": "test", "progress": "none", **settings})
    handle = JobHandle(Plan.of(stream.sink(Collect()), config), ThreadLauncher(None, None))
    try:
        return handle.wait_finished()
    finally:
        handle.cancel()
        handle.wait_stopped()


def summary(result: JobResult, name: str) -> Any:
    return next(each for each in result.statistics.operators if each.name == name)


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_records_in_and_out_are_counted(mode: str) -> None:
    stream = (
        split(list(range(100)))
        .filter(lambda n: n % 2 == 0)
        .map(lambda n: n + 1)
        .flat_map(lambda n: [n, n])
        .rebalance()
        .map_batches(list)
    )
    result = result_of(stream, native=mode, batch_size=20)
    counts = [(each.records_in, each.records_out) for each in result.statistics.operators[1:4]]
    assert counts == [(100, 50), (50, 50), (50, 100)]
    natively = [each.native for each in result.statistics.operators[1:4]]
    assert natively == ([100, 50, 50] if mode == "auto" else [0, 0, 0])


def test_what_is_unusual_goes_through_the_function_and_is_told() -> None:
    stream = split([1, 2, 2**63 - 1, 4] * 10).map(lambda n: n + 1).rebalance().map_batches(list)
    result = result_of(stream, native="auto", batch_size=16)
    assert sorted(result.output) == sorted([2, 3, 2**63, 5] * 10)
    found = summary(result, "map")
    assert found.fallbacks >= 1
    assert "64 bits" in found.first_fallback
    assert f"such as for {found.first_fallback}" in str(result)


def test_what_a_function_reads_may_change() -> None:
    def limited(records: Iterable[int]) -> list[int]:
        return [each for each in records if each < LIMIT[0]]

    out = split([1, 2, 3]).filter(lambda n: n < TOP).rebalance().map_batches(limited)
    assert outcome(out, native="auto") == ["1", "2", "3"]


TOP, LIMIT = 10, [5]


@pytest.mark.parametrize("mode", ["auto", "require"])
def test_a_failure_tells_the_record_and_the_traceback(mode: str) -> None:
    out = split([{"a": 1}, {"b": 2}]).map(lambda r: r["a"]).rebalance().map_batches(list)
    name, text = outcome(out, native=mode)
    assert name == "OperatorError"
    assert "KeyError: 'a'" in text
    assert "{'b': 2}" in text
    assert [name, text] == outcome(out, native="off")


@pytest.mark.parametrize("on_error", ["skip", "side"])
def test_records_that_fail_are_left_out(on_error: Any) -> None:
    mapped = split([4, 0, 2, 0, 1, *[8] * 19]).map(lambda n: 8 // n, on_error=on_error)
    sinks = [mapped.rebalance().map_batches(list).sink(Collect())]
    if on_error == "side":
        sinks.append(mapped.side("errors").sink(Collect()))
    found = run(sinks, batch_size=8)
    assert sorted(found["collect"]) == [*[1] * 19, 2, 4, 8]
    if on_error == "side":
        assert [record for record, _ in found["collect-2"]] == [0, 0]


def test_require_says_what_is_not_understood() -> None:
    stream = split(["1"]).map(lambda text: print(text))
    with pytest.raises(engine.GraphError, match=r"operator 'map' is to run natively.*calls print"):
        run(stream.sink(Collect()), native="require")
    with pytest.raises(engine.GraphError, match="calls print"):
        run(stream.native("require").sink(Collect()))


TIMES: Records = [{"k": n % 3, "t": n, "n": 1} for n in range(60)]
PARSED = lambda r: datetime.fromisoformat(r["t"])  # noqa: E731
WINDOWS: dict[str, tuple[Flow, str]] = {
    "reduce": (lambda w: w.reduce(lambda a, b: {**a, "n": a["n"] + b["n"]}), "native"),
    "reduced by print": (lambda w: w.reduce(lambda a, b: print(a)), "Python: calls print, line"),
    "reduced with on_error": (
        lambda w: w.reduce(lambda a, b: a, on_error="skip"),
        "Python: on_error='skip' looks at each record",
    ),
    "count": (lambda w: w.count(), "native"),
}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_in_the_plan_and_the_result(name: str, parallelism: int) -> None:
    flow, way = WINDOWS[name]
    timed = source(Collection(TIMES)).with_event_time(lambda r: r["t"], unit="s").key_by("k")
    stream = flow(timed.window(Tumbling(timedelta(seconds=10))))
    plan = Plan.of(stream.sink(Collect()), JobConfig.of({"name": "t", "native": "auto"}))
    (found,) = plan.ways.values()
    assert found.startswith(way)
    if way != "native":
        with pytest.raises(engine.GraphError, match="is to run natively"):
            run(stream.sink(Collect()), native="require")
        return
    given = [outcome(stream, native=mode, parallelism=parallelism) for mode in MODES]
    assert given[0] == given[1] == given[2] == given[3] != []
    for mode in ("auto", "check"):
        result = result_of(stream, native=mode, parallelism=parallelism)
        told = summary(result, name)
        assert (told.native, told.fallbacks) == (60, 0)


def test_a_function_of_time_that_is_not_understood_is_told() -> None:
    timed = source(Collection([])).with_event_time(PARSED).key_by("k")
    counted = timed.window(Tumbling(timedelta(seconds=10))).count().sink(Collect())
    with pytest.raises(engine.GraphError, match=r"'count' is to run natively.*fromisoformat"):
        run(counted, native="require")


MODES = ["off", "auto", "check", "require"]


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(engine.GraphError, match=r"native\(\) got 'on', expected one of 'auto'"):
        split([1]).map(abs).native("on")  # type: ignore[arg-type]
    with pytest.raises(engine.ConfigError, match="native is 'on', expected one of auto"):
        JobConfig(native="on")  # type: ignore[arg-type]


@dataclasses.dataclass
class Point:
    x: int


@dataclasses.dataclass
class Twice:
    x: int

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return found * 2 if name == "x" else found


@pytest.mark.parametrize(("kind", "result"), [(Point, 3), (Twice, 6)])
@pytest.mark.parametrize("mode", ["off", "auto", "check"])
def test_fields_are_read_as_the_class_reads_them(kind: type, result: int, mode: str) -> None:
    stream = split([kind(3)] * 8).map(lambda point: point.x)
    assert outcome(stream, native=mode) == [str(result)] * 8
