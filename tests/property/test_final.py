"""What comes at the end is what a plain loop finds: over records and columns, by any key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import engine.testing
from operators import Count, First, Max, Mean, Min, Stream, Sum, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.part import examples

words = st.text("abü", max_size=2) | st.none()
rows = st.fixed_dictionaries(
    {
        "word": words,
        "day": st.integers(-2, 2),
        "n": st.integers(-(2**40), 2**40),
        "x": st.floats(-1e6, 1e6),
    }
)
keys = pytest.mark.parametrize("key", [("word",), ("day",), ("word", "day"), ("day", "word")])
flows = {
    "batches": st.lists(st.lists(rows, min_size=1, max_size=12), max_size=5),
    "parallelism": st.integers(1, 3),
    "batch_size": st.sampled_from([1, 3, 100]),
}

AGGREGATIONS = {
    "count": Count(),
    "sum": Sum("n"),
    "least": Min("x"),
    "most": Max("n"),
    "mean": Mean("n"),
    "average": Mean("x"),
    "earliest": First("x"),
}


NEGATIVE_ZERO = {"word": "a", "day": 0, "n": 0, "x": -0.0}


def oracle(batches: list[list[dict[str, Any]]], key: tuple[str, ...]) -> dict[Any, Any]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in (row for batch in batches for row in batch):
        found = tuple(row[name] for name in key)
        groups.setdefault(found, []).append(row)
    return {
        found: {
            "count": len(group),
            "sum": sum(row["n"] for row in group),
            "least": min(row["x"] for row in group),
            "most": max(row["n"] for row in group),
            "mean": sum(row["n"] for row in group) / len(group),
            "average": added(row["x"] for row in group) / len(group),
            "earliest": group[0]["x"],
        }
        for found, group in groups.items()
    }


def added(numbers: Iterable[float]) -> float:
    return reduce(add, numbers)  # not sum(), which compensates for rounding and makes 0.0 of -0.0


def collected(stream: Stream[Any], **job: Any) -> list[Any]:
    found: list[Any] = engine.testing.run(stream.sink(Collect()), **job)["collect"]
    return found


def same(found: dict[Any, Any], expected: dict[Any, Any]) -> bool:
    return repr(sorted(found.items(), key=repr)) == repr(sorted(expected.items(), key=repr))


@keys
@settings(max_examples=examples(25))
@given(**flows)
@example(batches=[[NEGATIVE_ZERO]], parallelism=1, batch_size=1)
def test_records(
    key: tuple[str, ...], batches: list[list[Any]], parallelism: int, batch_size: int
) -> None:
    # One source task: which of the tasks' records is the first of its key is not determined.
    records = source(Collection([row for batch in batches for row in batch])).with_parallelism(1)
    stream = records.key_by(*key).aggregate(**AGGREGATIONS, emit="final")
    found = collected(stream, parallelism=parallelism, batch_size=batch_size)
    assert len(found) == len(dict(found))
    pairs = {key if isinstance(key, tuple) else (key,): values for key, values in found}
    assert same(pairs, oracle(batches, key))


@keys
@settings(max_examples=examples(25))
@given(**flows)
@example(batches=[[NEGATIVE_ZERO]], parallelism=1, batch_size=1)
def test_columns(
    key: tuple[str, ...], batches: list[list[Any]], parallelism: int, batch_size: int
) -> None:
    schema = pa.schema({"word": pa.string(), "day": pa.int8(), "n": pa.int64(), "x": pa.float64()})
    columns = [pa.RecordBatch.from_pylist(batch, schema) for batch in batches]
    stream = source(Collection(columns)).with_parallelism(1).key_by(*key)
    found = collected(
        stream.aggregate(**AGGREGATIONS, emit="final"),
        parallelism=parallelism,
        batch_size=batch_size,
    )
    assert all(batch.num_rows <= batch_size for batch in found)
    results = [row for batch in found for row in batch.to_pylist()]
    values = {
        tuple(row[name] for name in key): {name: row[name] for name in AGGREGATIONS}
        for row in results
    }
    assert len(values) == len(results)
    assert same(values, oracle(batches, key))


REDUCES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "by field": (lambda a, b: a | {"n": a["n"] + b["n"]}, lambda s: s.key_by("word")),
    "by function": (lambda a, b: a | {"n": a["n"] + b["n"]}, lambda s: s.key_by(word_of)),
}


def word_of(row: dict[str, Any]) -> Any:
    return row["word"]


@pytest.mark.parametrize("how", REDUCES)
@settings(max_examples=examples(25))
@given(**flows)
def test_reduce(how: str, batches: list[list[Any]], parallelism: int, batch_size: int) -> None:
    function, key_by = REDUCES[how]
    records = source(Collection([row for batch in batches for row in batch])).with_parallelism(1)
    stream = key_by(records).reduce(function, emit="final")
    found = collected(stream, parallelism=parallelism, batch_size=batch_size)
    expected: dict[Any, Any] = {}
    for row in (row for batch in batches for row in batch):
        known = expected.get(row["word"])
        expected[row["word"]] = row if known is None else function(known, row)
    assert same({row["word"]: row for row in found}, expected)
    assert len(found) == len(expected)
