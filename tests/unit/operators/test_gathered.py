"""Last, distinct and most frequent values in Rust: what plain Python makes of all records."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.network import Aggregate, AggregateError, Batch
from engine.testing import run
from operators import (
    Count,
    CountDistinct,
    CountWindow,
    Last,
    Quantile,
    Quantiles,
    Top,
    Tumbling,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection
from tests.part import examples
from tests.windowing import us

pytestmark = pytest.mark.usefixtures("nothing_left")

NAMES = ["last", "count_distinct", "top"]
WANTED: Any = [("last", [1]), ("count_distinct", [1]), ("top", [1], [3.0])]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.integers(),
    st.sampled_from([0.0, -0.0, 1.0, 0.5, math.inf, "", "a", "\ud800", b"", b"a"]),
)
values = scalars | st.tuples(scalars, scalars)
records = st.lists(st.tuples(st.sampled_from("abc"), values), max_size=40)


def expected(records: list[Any]) -> dict[str, Any]:
    had: dict[str, list[Any]] = {}
    for key, value in records:
        had.setdefault(key, []).append(value)
    return {
        key: {
            "last": own[-1],
            "count_distinct": len(set(own)),
            "top": Counter(own).most_common(3),
        }
        for key, own in had.items()
    }


@settings(max_examples=examples(150), deadline=None)
@given(records=records)
def test_values_are_told_apart_as_in_python(records: list[Any]) -> None:
    aggregate = Aggregate([[0]], WANTED, NAMES)
    found: dict[str, Any] = {}
    for at in range(0, len(records), 7):
        batch = records[at : at + 7]
        updates = dict(aggregate.update(Batch.from_list(batch)))
        assert set(updates) == {key for key, _ in batch}
        found |= updates
        assert repr(found) == repr({key: expected(records[: at + 7])[key] for key in found})


@settings(max_examples=examples(80), deadline=None)
@given(before=records, after=records)
def test_others_go_on_where_one_was(before: list[Any], after: list[Any]) -> None:
    first, then = (Aggregate([[0]], WANTED, NAMES) for _ in range(2))
    first.add(Batch.from_list(before))
    layout, entries = first.snapshot()
    then.restore(layout, entries, True)
    assert then.snapshot() == (layout, entries)
    then.add(Batch.from_list(after))
    assert dict(then.updates(0, 100)) == expected(before + after)


def test_values_that_cannot_be_told_apart_are_refused() -> None:
    aggregate = Aggregate([[0]], [("count_distinct", [1])])
    with pytest.raises(AggregateError, match=r"record 1 of the batch.*cannot be told from others"):
        aggregate.add(Batch.from_list([("a", 1), ("a", [1])]))


COLUMNS: dict[str, Any] = {
    "integers": [3, None, 3, -1, 2**40],
    "floats": [0.5, math.nan, None, 0.5, -0.0],
    "bools": [True, None, True, True, False],
    "texts": ["a", "", None, "a", "\u00fc"],
    "bytes": [b"a", b"", None, b"a", b"b"],
    "times": pa.array([5, 1, None, 5, 5], pa.timestamp("ms")),
    "coded": pa.array(["x", "y", None, "x", "x"]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns(kind: str) -> None:
    column = pa.array(COLUMNS[kind])
    batch = pa.RecordBatch.from_arrays([pa.array(list("aabab")), column], names=["key", "value"])
    keyed = source(Collection([batch.slice(0, 2), batch.slice(2)])).key_by("key")
    wanted = keyed.aggregate(
        last=Last("value"), count_distinct=CountDistinct("value"), top=Top("value", 3), emit="final"
    )
    (found,) = run(wanted.sink(Collect()))["collect"]
    rows = {row.pop("key"): row for row in found.to_pylist()}
    own = {"a": [0, 1, 3], "b": [2, 4]}
    for key, at in own.items():
        given = [column[row].as_py() for row in at]
        there = [value for value in given if value is not None]
        tops = [(top["value"], top["count"]) for top in rows[key]["top"]]
        assert rows[key]["last"] == given[-1]
        assert rows[key]["count_distinct"] == len(set(there))
        assert repr(tops) == repr(Counter(there).most_common(3))


@pytest.mark.parametrize("is_columns", [False, True])
@settings(max_examples=examples(20), deadline=None)
@given(
    numbers=st.lists(st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9), min_size=1, max_size=30),
    share=st.floats(0, 1),
)
def test_quantiles(is_columns: bool, numbers: list[Any], share: float) -> None:
    if is_columns:
        numbers = [float(number) for number in numbers]
        arrays = [pa.array(["a"] * len(numbers)), pa.array(numbers)]
        given: Any = [pa.RecordBatch.from_arrays(arrays, names=["key", "value"])]
        keyed, item = source(Collection(given)).key_by("key"), "value"
    else:
        given = [{"key": "a", "value": number} for number in numbers]
        keyed, item = source(Collection(given)).key_by("key"), "value"
    windows = keyed.window(CountWindow(len(numbers)))
    wanted = windows.aggregate(one=Quantile(item, share), all=Quantiles(item, [0, share, 1]))
    (found,) = run(wanted.sink(Collect()))["collect"]
    row = found.to_pylist()[0] if is_columns else found[1]
    exact = [float(numpy.quantile(numpy.array(numbers, float), at)) for at in (0, share, 1)]
    assert row["all"] == pytest.approx(exact, rel=1e-12)
    assert row["one"] == row["all"][1]


def test_what_has_no_numbers_is_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["key", "value"])
    windows = source(Collection([batch])).key_by("key").window(CountWindow(1))
    with pytest.raises(engine.OperatorError, match='quantiles of column "value" of type Utf8'):
        run(windows.quantiles("value", [0.5]).sink(Collect()))
    words = source(Collection([("a", "b")])).key_by(0).window(CountWindow(1))
    with pytest.raises(engine.OperatorError, match="its value 'b' is no number"):
        run(words.quantiles(1, [0.5]).sink(Collect()))


def test_windows_that_overlap_count_a_value_once() -> None:
    records = [(f"key {at % 3}", at % 7, at) for at in range(200)]
    keyed = source(Collection(records)).key_by(0)
    for windows in (keyed.window(Tumbling(us(40)), time=2), keyed.window(CountWindow(10, 4))):
        wanted = windows.aggregate(n=Count(), d=CountDistinct(1), t=Top(1, 1))
        for _, found, _, _ in run(wanted.sink(Collect()))["collect"]:
            ((_, most),) = found["t"]
            assert found["d"] == min(found["n"], 7)
            assert most == -(-found["n"] // 7)
