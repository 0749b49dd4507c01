"""`over`: each record with what the records of its key before it come to, in whole jobs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import engine.testing
from engine.errors import GraphError, OperatorError
from operators import (
    Accumulator,
    ApproxQuantile,
    Array,
    BitOr,
    Count,
    CountDistinct,
    Covariance,
    First,
    Last,
    Mean,
    Min,
    Quantiles,
    Sum,
    Top,
    Tumbling,
    Variance,
    source,
)
from operators.keyed_stream import KeyedStream
from operators.sinks import Collect
from operators.sources import Collection
from tests.rolling import NAMES, RollingTasks, alike, expected, of, over
from tests.windowing import us

pytestmark = pytest.mark.usefixtures("nothing_left")

SECOND = timedelta(seconds=1)
RECORDS = [("abc"[n % 3], n * 77 % 401, n) for n in range(200)]
"""Out of order, each with a time of its own: sources in several tasks have no order of arrival."""
SPANS: dict[str, Any] = {"short": us(25), "long": us(210), "few": 3}


def run(stream: Any, **settings: Any) -> list[Any]:
    """Its results; of columns as rows."""
    output = engine.testing.run(stream.sink(Collect()), **settings)["collect"]
    return [
        row
        for each in output
        for row in (each.to_pylist() if isinstance(each, pa.RecordBatch) else [each])
    ]


def keyed(records: list[Any], *, by: Any = 0, **settings: Any) -> KeyedStream[Any, Any]:
    """Records by key, whose second item is their time, however late."""
    disorder = timedelta(days=10_000)
    timed = source(Collection(records)).with_event_time(1, out_of_orderness=disorder, **settings)
    return timed.key_by(by)


def columns(records: list[Any], size: int = 7, types: Any = None) -> KeyedStream[Any, Any]:
    """The same in batches of columns."""
    rows = [dict(zip(NAMES, record, strict=True)) for record in records]
    table = pa.Table.from_pylist(rows, types)
    batches = table.combine_chunks().to_batches(size)
    timed = source(Collection(batches)).with_event_time("time", out_of_orderness=timedelta(days=1))
    return timed.key_by("key")


@pytest.mark.table(3)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("form", ["records", "pairs", "columns"])
def test_every_aggregation_of_every_span(form: str, parallelism: int) -> None:
    if form == "columns":
        aggregations = {
            name: each if name == "count" else replace(each, item="number")
            for name, each in of().items()
        }
        aggregations["line"] = replace(of()["line"], item="number", other="time")  # type: ignore[call-arg]
        rows = run(
            columns(RECORDS).over(**SPANS).aggregate(**aggregations), parallelism=parallelism
        )
        found = [
            (tuple(map(row.pop, NAMES)), row)  # what is left is what was computed
            for row in rows
        ]
    else:
        by: Any = 0 if form == "records" else lambda record: record[0]
        stream = keyed(RECORDS, by=by).over(**SPANS).aggregate(**of())
        found = run(stream, parallelism=parallelism, batch_size=9)
    assert alike(found, expected(RECORDS, SPANS))


def test_methods_of_one_span() -> None:
    records = [("a", 1, 5), ("a", 3, 2), ("a", 4, 9), ("a", 9, 1)]

    def found(compute: Callable[[Any], Any]) -> list[Any]:
        results = run(compute(keyed(records).over(us(3))))
        assert [record for record, _ in results] == records
        rows = run(
            compute(columns(records).over(us(3))) if compute is counted else of_columns(compute)
        )
        names = set(rows[0]) - set(NAMES)
        assert [row[name] for row in rows for name in names] == [value for _, value in results]
        return [value for _, value in results]

    def of_columns(compute: Callable[[Any], Any]) -> Any:
        return compute(_Named(columns(records).over(us(3))))

    assert found(counted) == [1, 2, 3, 1]
    assert found(lambda spans: spans.sum(2)) == [5, 7, 16, 1]
    assert found(lambda spans: spans.min(2)) == [5, 2, 2, 1]
    assert found(lambda spans: spans.max(2)) == [5, 5, 9, 1]
    assert found(lambda spans: spans.mean(2)) == [5, 3.5, 16 / 3, 1]
    assert found(lambda spans: spans.first(2)) == [5, 5, 5, 1]
    assert found(lambda spans: spans.last(2)) == [5, 2, 9, 1]


def counted(spans: Any) -> Any:
    return spans.count()


class _Named:
    """Spans of columns, whose third is named as the third item of a record."""

    def __init__(self, spans: Any) -> None:
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        return lambda item: getattr(self._spans, name)("number")


def test_both_bounds_are_included_and_peers_see_each_other() -> None:
    records = [("a", 10, 1), ("a", 20, 2), ("a", 20, 4), ("a", 31, 8), ("b", 20, 16)]
    of_time = run(keyed(records).over(us(10)).sum(2))
    assert dict(of_time) == {
        ("a", 10, 1): 1,
        ("a", 20, 2): 7,
        ("a", 20, 4): 7,
        ("a", 31, 8): 8,
        ("b", 20, 16): 16,
    }
    of_two = run(keyed(records).over(rows=2).sum(2))
    assert [value for record, value in of_two if record[0] == "a"] == [1, 3, 6, 12]


@pytest.mark.parametrize("form", ["records", "columns"])
def test_what_a_span_has_where_no_record_counts(form: str) -> None:
    place: Any = 3 if form == "records" else "has"
    other: Any = 2 if form == "records" else "number"
    records = [("a", at, number, has) for at, number, has in ((1, 5, True), (3, 2, None))]
    where: dict[str, Any] = {"where": place}
    wanted: dict[str, tuple[Any, Any, Any]] = {
        "n": (Count(**where), 1, 0),
        "sum": (Sum(other, **where), 5, None),
        "least": (Min(other, **where), 5, None),
        "spread": (Variance(other, population=True, **where), 0.0, None),
        "line": (Covariance(other, 1, population=True, **where), 0.0, None),
        "list": (Array(other, **where), [5], []),
        "several": (CountDistinct(other, **where), 1, 0),
        "half": (ApproxQuantile(other, **where), 5.0, None),
        "ends": (Quantiles(other, [0, 1], **where), [5.0, 5.0], []),
        "top": (Top(other, **where), [(5, 1)], []),
        "bits": (BitOr(other, **where), 5, None),
    }
    if form == "columns":
        names = (*NAMES, "has")
        batch = pa.RecordBatch.from_pylist([dict(zip(names, r, strict=True)) for r in records])
        stream = source(Collection([batch])).with_event_time("time").key_by("key")
    else:
        stream = keyed(records)
    spans = stream.over(us(1)).aggregate(**{name: each for name, (each, *_) in wanted.items()})
    for at, row in enumerate(run(spans)):
        found = {name: row[name] for name in wanted} if form == "columns" else row[1]
        if form == "columns":
            found["top"] = [tuple(each.values()) for each in found["top"]]
        assert found == {name: values[at + 1] for name, values in wanted.items()}


@pytest.mark.parametrize("emit", ["final", "updates"])
@pytest.mark.parametrize("by", [0, lambda record: record[0]])
def test_a_function_of_the_values_of_a_span(by: Any, emit: Any) -> None:
    records = [("a", 1, 5), ("a", 3, 2), ("b", 3, 4), ("a", 4, 9), ("a", 9, 1)]
    spans = keyed(records, by=by).over(us(3), emit=emit)
    assert run(spans.apply(list, 2)) == list(
        zip(records, [[5], [5, 2], [4], [5, 2, 9], [1]], strict=True)
    )
    assert run(spans.apply(lambda seen: seen[0]))[3] == (records[3], records[0])
    inverse = spans.apply(lambda seen: 1 / (seen[-1] - 9), 2, on_error="skip")
    assert [record for record, _ in run(inverse)] == [*records[:3], records[4]]
    named = keyed(records, by=by).over(few=2, long=us(3), emit=emit).apply(sum, 2)
    assert run(named)[3] == (records[3], {"few": 11, "long": 16})


def test_a_function_goes_on_with_the_values_of_a_span() -> None:
    stream = over({"n": us(100)}).apply(sum, 2)
    tasks = RollingTasks(stream, 2)
    tasks.take([("a", 1, 5), ("b", 2, 7), 2, ("a", 3, 1)])
    tasks = RollingTasks(stream, 3, tasks.snapshot())
    found = [each for given in (*tasks.take([("b", 3, 1)]), *tasks.end()) for each in given]
    assert sorted(found) == [(("a", 3, 1), {"n": 6}), (("b", 3, 1), {"n": 8})]


def test_a_function_of_columns_is_refused() -> None:
    spans = columns([("a", 1, 5)]).over(us(3))
    with pytest.raises(OperatorError, match=r"\(key, time, number, array\), expected records"):
        run(spans.apply(sum, "number"))


def test_results_have_the_time_of_their_record() -> None:
    for stream, counted in (
        (keyed(RECORDS).over(us(9)).count(), lambda result: result[0][0]),
        (columns(RECORDS).over(us(9)).count(), "key"),
        (columns(RECORDS).over(us(9)).count().to_records(), "key"),
    ):
        windows = stream.key_by(counted).window(Tumbling(us(10))).count()
        rows = [tuple(row.values()) if isinstance(row, dict) else row for row in run(windows)]
        found = {(key, start): count for key, count, start, _ in rows}
        wanted: dict[Any, int] = {}
        for key, time, _ in RECORDS:
            at = key, time // 10 * 10
            wanted[at] = wanted.get(at, 0) + 1
        assert found == wanted


def test_late_records_of_a_job() -> None:
    timed = source(Collection([("a", 50, 1), ("a", 10, 2), ("a", 60, 3)])).with_event_time(1)
    counts = timed.key_by(lambda record: record[0]).over(us(100)).count()
    sinks = [counts.sink(Collect()), counts.side("late").sink(Collect()).named("late")]
    found = engine.testing.run(sinks, batch_size=1)
    seen = [record for record, _ in found["collect"]] + found["late"]
    assert sorted(seen) == [("a", 10, 2), ("a", 50, 1), ("a", 60, 3)]


def test_records_that_fail_count_for_no_other() -> None:
    records: list[Any] = [("a", 1, 1), ("a", 2, None), ("a", 3, "x"), ("a", 4, 2)]
    found = run(keyed(records, unit="s").over(9 * SECOND, time=1, unit="s").sum(2, on_error="skip"))
    assert found == [(("a", 1, 1), 1), (("a", 4, 2), 3)]
    with pytest.raises(OperatorError, match="its value None is no number"):
        run(keyed(records[:2]).over(us(9)).sum(2))
    mixed = [("a", 1, "x"), ("a", 2, 7), ("a", 3, "w")]
    found = run(keyed(mixed).over(us(9)).min(2, on_error="skip"))
    assert found == [(("a", 1, "x"), "x"), (("a", 3, "w"), "w")]


def test_values_of_all_kinds() -> None:
    moment = datetime(2026, 1, 1)
    for kind, values in {
        "decimals": [Decimal("0.1"), Decimal("0.2"), Decimal("-3"), Decimal(7)],
        "large": [1 << 140, -(1 << 141), 3, 1 << 62],
        "mixed": [1, 2.5, 0, 4],
        "durations": [SECOND, 2 * SECOND, 3 * SECOND, -SECOND],
    }.items():
        records = [("a", at, value) for at, value in enumerate(values)]
        sums = [value for _, value in run(keyed(records).over(rows=2).sum(2))]
        assert sums == [values[0], *(one + other for one, other in pairwise(values))], kind
        least = [value for _, value in run(keyed(records).over(rows=2).min(2))]
        assert least == [values[0], *map(min, pairwise(values))], kind
    texts = ["b", "a", "c", None, {}, ()]
    records = [("a", at, value) for at, value in enumerate(texts)]
    assert [value for _, value in run(keyed(records).over(rows=2).first(2))] == ["b", *texts[:-1]]
    assert [value for _, value in run(keyed(records).over(rows=2).last(2))] == texts
    moments = [("a", moment + each * SECOND, each) for each in (0, 1, 5)]
    counts = run(keyed(moments).over(3 * SECOND).count())
    assert [value for _, value in counts] == [1, 2, 1]


def test_nan_counts_where_it_comes_first() -> None:
    nan = math.nan
    records = [("a", at, value) for at, value in enumerate([3.0, nan, 1.0, nan, 2.0])]
    for stream in (keyed(records).over(us(2)).min(2), columns(records).over(us(2)).min("number")):
        found = [row["min"] if isinstance(row, dict) else row[1] for row in run(stream)]
        assert np.array_equal(found, [3, 3, 1, nan, 1], equal_nan=True)


def test_floats_do_not_drift() -> None:
    records = [("a", at, value) for at, value in enumerate([1e300, 0.1, 0.2, -1e300, 0.5, 0.25])]
    for stream in (keyed(records).over(rows=2).sum(2), columns(records).over(rows=2).sum("number")):
        found = [row["sum"] if isinstance(row, dict) else row[1] for row in run(stream)]
        assert found[2] == 0.1 + 0.2
        assert found[5] == 0.75


def test_columns_keep_their_types_and_leave_nulls_out() -> None:
    schema = pa.schema(
        [
            ("key", pa.dictionary(pa.int8(), pa.string())),
            ("time", pa.int64()),
            ("number", pa.float32()),
        ]
    )
    records = [("a", 1, None), ("a", 2, 1.5), ("b", 2, None), ("a", 3, None), ("a", 9, None)]
    kinds = {"sum": Sum, "mean": Mean, "low": Min, "first": First, "last": Last}
    aggregations = {name: kind("number") for name, kind in kinds.items()}
    stream = columns(records, 2, schema).over(us(2)).aggregate(number=Count(), **aggregations)
    output = engine.testing.run(stream.sink(Collect()))["collect"]
    for batch in output:
        batch.validate(full=True)
        types = {field.name: field.type for field in batch.schema}
        assert types == {
            "key": pa.dictionary(pa.int32(), pa.string()),
            "time": pa.int64(),
            "number": pa.float32(),
            "number_right": pa.int64(),
            "sum": pa.float64(),
            "mean": pa.float64(),
            "low": pa.float32(),
            "first": pa.float32(),
            "last": pa.float32(),
        }
    found = {(row["key"], row["time"]): tuple(row.values())[3:] for row in run(stream)}
    assert found == {
        ("a", 1): (1, *[None] * 5),
        ("a", 2): (2, *[1.5] * 5),
        ("b", 2): (1, *[None] * 5),
        ("a", 3): (3, *[1.5] * 5),
        ("a", 9): (1, *[None] * 5),
    }


def test_columns_of_another_kind_are_refused() -> None:
    batches = [
        pa.record_batch({"key": ["a"], "time": [1]}),
        pa.record_batch({"key": ["a"], "at": [1]}),
    ]
    timed = source(Collection(batches)).with_parallelism(1).key_by("key")
    with pytest.raises(OperatorError, match="columns of type key: Utf8 and at: Int64 after"):
        run(timed.over(us(5), time="time").count())
    texts = columns([("a", 1, "x")])
    with pytest.raises(OperatorError, match='sum of column "number" of type Utf8'):
        run(texts.over(us(5)).sum("number"))
    sums = columns([("a", 1, 1 << 62), ("a", 2, 1 << 62)]).over(us(5)).sum("number")
    with pytest.raises(OperatorError, match="9223372036854775808 is no Int64"):
        run(sums)


def test_declarations() -> None:
    spans = keyed([])
    for arguments, message in (
        ({}, "over() got nothing, expected one span"),
        ({"last": SECOND, "rows": 3}, "over() got several of last, rows"),
        ({"last": SECOND, "h1": SECOND}, "over() got several of last, rows"),
        ({"last": 3}, "over(): last is 3, expected a timedelta"),
        ({"last": timedelta(0)}, "over(): last is datetime.timedelta(0), expected more than 0"),
        ({"rows": 0}, "over() got rows=0, expected an int of at least 1"),
        ({"rows": True}, "over() got rows=True"),
        ({"h1": "1h"}, "over() got h1='1h', expected a timedelta, or an int"),
        ({"last": SECOND, "emit": "soon"}, "over() got emit='soon', expected 'final' or 'updates'"),
        ({"last": timedelta.max}, "expected at most 36,000 years"),
    ):
        with pytest.raises(GraphError) as refused:
            spans.over(**arguments)  # type: ignore[arg-type]
        assert message in str(refused.value)
    with pytest.raises(GraphError, match=r"over\(\) needs the time of each record"):
        source(Collection([])).key_by(0).over(SECOND)
    with pytest.raises(GraphError, match=r"\.map\(\) follows \.over\(\)"):
        spans.over(SECOND).map(str)  # type: ignore[attr-defined]
    with pytest.raises(GraphError, match="expected aggregations that run in Rust"):
        spans.over(SECOND).aggregate(own=_Last())  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"apply\(\) got \[1\], expected an index"):
        spans.over(SECOND).apply(len, [1])  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="gives 'a_b_c' twice"):
        spans.over(b_c=SECOND, c=SECOND).aggregate(a=Count(), a_b=Count())
    assert repr(spans.over(h1=SECOND, n=3)).endswith("-> h1=0:00:01, n=3 rows>")


class _Last(Accumulator[Any, Any, Any]):
    def create(self) -> Any:
        return None

    def add(self, accumulated: Any, record: Any) -> Any:
        return record

    def merge(self, left: Any, right: Any) -> Any:
        return right
