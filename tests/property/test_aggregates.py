"""Aggregates of statistics, bools, bits, and about: what plain Python makes of all records."""

from __future__ import annotations

import functools
import math
import operator
import statistics
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.testing import run
from operators import (
    ApproxCountDistinct,
    ApproxQuantiles,
    Array,
    BitAnd,
    BitOr,
    BitXor,
    BoolAnd,
    BoolOr,
    Correlation,
    Count,
    Covariance,
    Max,
    Mean,
    Regression,
    Session,
    Sliding,
    Stddev,
    Stream,
    Sum,
    Tumbling,
    Variance,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection
from tests.part import examples
from tests.property.test_state import cut, once, planned
from tests.windowing import us

NAMES = ("k", "n", "x", "ok", "has", "at")
numbers = st.integers(-5, 5) | st.integers(-(2**40), 2**40)
floats = st.floats(-1e6, 1e6) | st.floats(1e9, 1e9 + 10)
row = st.tuples(
    st.sampled_from("abc"), numbers, floats, st.booleans(), st.booleans(), st.integers(0, 100)
)
rows = st.lists(row, min_size=1, max_size=40)
WANTED: dict[str, Any] = {
    "variance": Variance("n"),
    "stddev": Stddev("x", population=True),
    "covariance": Covariance("n", "x"),
    "correlation": Correlation("x", "n"),
    "line": Regression("n", "x"),
    "all": BoolAnd("ok"),
    "any": BoolOr("ok"),
    "and": BitAnd("n"),
    "or": BitOr("n"),
    "xor": BitXor("n"),
    "array": Array("n"),
    "distinct": ApproxCountDistinct("n"),
    "quantiles": ApproxQuantiles("n", [0, 1]),
    "where": Sum("n", where="has"),
    "count": Count(where="has"),
    "mean": Mean("n", where="has"),
    "most": Max("x", where="has"),
    "spread": Variance("x", population=True, where="has"),
    "numbers": Array("n", where="has"),
}


def expected(own: list[Any]) -> dict[str, Any]:
    """Of the rows of a key."""
    n, x, ok = ([each[at] for each in own] for at in (1, 2, 3))
    some = [each for each in own if each[4]]
    some_n, some_x = [each[1] for each in some], [each[2] for each in some]
    mean_n, mean_x = statistics.fmean(n), statistics.fmean(x)
    syy = math.fsum((each - mean_n) ** 2 for each in n)
    sxx = math.fsum((each - mean_x) ** 2 for each in x)
    sxy = math.fsum((a - mean_n) * (b - mean_x) for a, b in zip(n, x, strict=True))
    return {
        "variance": statistics.variance(map(float, n)) if len(n) > 1 else None,
        "stddev": statistics.pstdev(x),
        "covariance": sxy / (len(n) - 1) if len(n) > 1 else None,
        "line": {"count": len(n), "avg_y": mean_n, "avg_x": mean_x, "syy": syy, "sxx": sxx},
        "all": all(ok),
        "any": any(ok),
        "and": functools.reduce(operator.and_, n),
        "or": functools.reduce(operator.or_, n),
        "xor": functools.reduce(operator.xor, n),
        "array": sorted(n),
        "distinct": len(set(n)),
        "quantiles": [float(min(n)), float(max(n))],
        "where": sum(some_n) if some else None,
        "count": len(some),
        "mean": sum(some_n) / len(some) if some else None,
        "most": max(some_x) if some else None,
        "spread": statistics.pvariance(some_x) if some else None,
        "numbers": sorted(some_n),
    }


def agree(found: dict[str, Any], own: list[Any]) -> None:
    """What was found is what Python makes of the rows, as exactly as floats can."""
    n, x = (max(map(abs, (each[at] for each in own))) for at in (1, 2))
    scales = {"variance": n * n, "covariance": n * x, "spread": x * x, "stddev": x}
    for name, value in expected(own).items():
        got = found[name]
        if name == "line":
            assert got["count"] == value["count"]
            for figure, scale in {"avg_y": n, "avg_x": x, "syy": n * n, "sxx": x * x}.items():
                near = 1e-9 * scale * len(own) + 1e-9
                assert got[figure] == pytest.approx(value[figure], rel=1e-9, abs=near), figure
        elif name in scales and value is not None:
            assert got == pytest.approx(value, rel=1e-6, abs=1e-10 * scales[name] * len(own) + 1e-9)
        elif name in ("array", "numbers"):
            assert sorted(got) == value
        else:
            assert got == value, name
    correlation = found["correlation"]
    assert correlation is None or -1 <= correlation <= 1


def columns(some: list[Any], size: int) -> list[Any]:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
    schema = schema.append(pa.field("ok", pa.bool_())).append(pa.field("has", pa.bool_()))
    schema = schema.append(pa.field("at", pa.int64()))
    dicts = [dict(zip(NAMES, each, strict=True)) for each in some]
    return [
        pa.RecordBatch.from_pylist(dicts[at : at + size], schema)
        for at in range(0, len(dicts), size)
    ]


def by_key(some: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for each in some:
        found.setdefault(each[0], []).append(each)
    return found


def records(some: list[Any]) -> list[Any]:
    return [dict(zip(NAMES, each, strict=True)) for each in some]


def batches_of_records(some: list[Any], size: int) -> list[Any]:
    return [records(some[at : at + size]) for at in range(0, len(some), size)]


def shown(found: list[Any]) -> list[dict[str, Any]]:
    """Each result as a dict."""
    rows: list[dict[str, Any]] = []
    for each in found:
        if isinstance(each, pa.RecordBatch):
            rows += each.to_pylist()
        elif isinstance(each, list):
            rows += shown(each)
        elif isinstance(each, tuple):
            key, value, *bounds = each
            rows.append({"k": key, **value, **dict(zip(BOUNDS, bounds, strict=False))})
        else:
            rows.append(each)
    return rows


@settings(max_examples=examples(15))
@given(
    before=rows,
    after=rows,
    size=st.integers(1, 9),
    tasks=st.integers(1, 4),
    others=st.integers(1, 4),
)
@pytest.mark.parametrize("of_columns", [False, True])
def test_keys_of_tasks_that_change(
    before: list[Any], after: list[Any], size: int, tasks: int, others: int, *, of_columns: bool
) -> None:
    flow = planned(lambda s: s.key_by("k").aggregate(**WANTED, emit="final"))
    make = columns if of_columns else batches_of_records
    first, then = make(before, size), make(after, size)
    for found in (once(flow, first + then), cut(flow, first, then, tasks, others)):
        of_keys = {each.pop("k"): each for each in shown(found)}
        own = by_key(before + after)
        assert of_keys.keys() == own.keys()
        for key, value in of_keys.items():
            agree(value, own[key])


@settings(max_examples=examples(6))
@given(some=rows, size=st.integers(1, 9))
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("of_columns", [False, True])
def test_without_a_key(some: list[Any], size: int, parallelism: int, *, of_columns: bool) -> None:
    form = columns(some, size) if of_columns else records(some)
    stream: Stream[Any] = source(Collection(form)).aggregate(**WANTED, emit="final")
    (found,) = shown(
        run(stream.sink(Collect()), parallelism=parallelism, batch_size=size)["collect"]
    )
    agree(found, some)


WINDOWS: dict[str, Any] = {
    "tumbling": (Tumbling(us(30)), lambda at: [at - at % 30], 30),
    "sliding": (Sliding(us(40), us(10)), lambda at: range(at - at % 10 - 30, at + 1, 10), 40),
}


@settings(max_examples=examples(6))
@given(some=rows, size=st.integers(1, 9))
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("of_columns", [False, True])
def test_windows(
    some: list[Any], size: int, windows: str, *, is_keyed: bool, of_columns: bool
) -> None:
    assigner, starts, width = WINDOWS[windows]
    form = columns(some, size) if of_columns else records(some)
    stream: Any = source(Collection(form))
    stream = (stream.key_by("k") if is_keyed else stream).window(assigner, time="at")
    found = run(stream.aggregate(**WANTED).sink(Collect()), parallelism=1)["collect"]
    if not is_keyed:
        found = [("", *each) if isinstance(each, tuple) else each for each in found]
    own: dict[Any, list[Any]] = {}
    for each in some:
        for start in starts(each[5]):
            own.setdefault((each[0] if is_keyed else "", start), []).append(each)
    results = {(each.get("k", ""), each["window_start"]): each for each in shown(found)}
    assert results.keys() == own.keys()
    for key, value in results.items():
        assert value["window_end"] == key[1] + width
        agree(value, own[key])


@settings(max_examples=examples(10))
@given(some=rows)
def test_sessions_of_columns_are_those_of_records(some: list[Any]) -> None:
    found = []
    for form in (records(some), columns(some, 4)):
        windows = source(Collection(form)).window(Session(us(5)), time="at")
        stream = windows.aggregate(v=Variance("x"), a=Array("n"), d=ApproxCountDistinct("n"))
        found.append(run(stream.sink(Collect()), parallelism=1)["collect"])
    of_records = [(each[0], *each[1:]) for each in found[0]]
    of_columns = [
        ({name: each[name] for name in "vad"}, each["window_start"], each["window_end"])
        for each in shown(found[1])
    ]
    assert [each[1:] for each in of_records] == [each[1:] for each in of_columns]
    for (left, *_), (right, *_) in zip(of_records, of_columns, strict=True):
        assert (sorted(left["a"]), left["d"]) == (sorted(right["a"]), right["d"])
        assert left["v"] == pytest.approx(right["v"], rel=1e-6, abs=1e-3)


BOUNDS = ("window_start", "window_end")
