"""Spans give what DuckDB makes of all records by SQL's OVER … RANGE | ROWS, with FILTER."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    CountDistinct,
    Covariance,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Quantiles,
    Regression,
    Stddev,
    Sum,
    Top,
    Variance,
)
from tests.part import examples
from tests.property.test_rolling import SPANS, run
from tests.rolling import over, same
from tests.windowing import us

COLUMNS = pa.schema(
    [
        ("key", pa.string()),
        ("time", pa.int64()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("ok", pa.bool_()),
        ("has", pa.bool_()),
        ("came", pa.int64()),
    ]
)
FIGURES = ("slope", "intercept", "r2", "count", "avgy", "avgx", "syy", "sxx", "sxy")
HAS = "FILTER (WHERE has)"
WANTED: dict[str, tuple[Any, str]] = {
    "count": (Count(), "count(*)"),
    "sum": (Sum(2), "sum(n)"),
    "total": (Sum(3), "sum(x)"),
    "min": (Min(2), "min(n)"),
    "max": (Max(3), "max(x)"),
    "mean": (Mean(3), "avg(x)"),
    "first": (First(2), "arg_min(n, place)"),
    "last": (Last(3), "arg_max(x, place)"),
    "distinct": (CountDistinct(2), "count(DISTINCT n)"),
    "median": (Quantile(3), "quantile_cont(x, 0.5)"),
    "quarters": (Quantiles(2, [0.25, 1]), "coalesce(quantile_cont(n, [0.25, 1]) @, [])"),
    "variance": (Variance(3), "var_samp(x)"),
    "spread": (Stddev(2, population=True), "stddev_pop(n)"),
    "covariance": (Covariance(2, 3), "covar_samp(n, x)"),
    "correlation": (Correlation(3, 2), "corr(x, n)"),
    "line": (Regression(2, 3), f"[{', '.join(f'regr_{name}(n, x) @' for name in FIGURES)}]"),
    "all": (BoolAnd(4), "bool_and(ok)"),
    "any": (BoolOr(4), "bool_or(ok)"),
    "and": (BitAnd(2), "bit_and(n)"),
    "or": (BitOr(2), "bit_or(n)"),
    "xor": (BitXor(2), "bit_xor(n)"),
    "array": (Array(2), "coalesce(list(n) FILTER (WHERE n IS NOT NULL) @, [])"),
    "about": (ApproxCountDistinct(3), "count(DISTINCT x)"),
    "ends": (ApproxQuantiles(2, [0, 1]), "coalesce(quantile_cont(n, [0.0, 1.0]) @, [])"),
    "count_where": (Count(where=5), f"count(*) {HAS}"),
    "sum_where": (Sum(2, where=5), f"sum(n) {HAS}"),
    "mean_where": (Mean(3, where=5), f"avg(x) {HAS}"),
    "most_where": (Max(2, where=5), f"max(n) {HAS}"),
    "last_where": (Last(2, where=5), f"arg_max(n, place) {HAS}"),
    "distinct_where": (CountDistinct(2, where=5), f"count(DISTINCT n) {HAS}"),
    "median_where": (Quantile(2, where=5), f"quantile_cont(n, 0.5) {HAS}"),
    "variance_where": (Variance(2, where=5, population=True), f"var_pop(n) {HAS}"),
    "line_where": (Covariance(2, 3, where=5, population=True), f"covar_pop(n, x) {HAS}"),
    "all_where": (BoolAnd(4, where=5), f"bool_and(ok) {HAS}"),
    "xor_where": (BitXor(2, where=5), f"bit_xor(n) {HAS}"),
    "array_where": (
        Array(2, where=5),
        "coalesce(list(n) FILTER (WHERE has AND n IS NOT NULL) @, [])",
    ),
}


@pytest.fixture(scope="module")
def connection() -> Any:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@pytest.mark.parametrize("form", ["records", "columns"])
@settings(max_examples=examples(60), deadline=None)
@given(spans=SPANS, data=st.data())
def test_results_are_those_of_sql(
    connection: Any, form: str, spans: dict[str, timedelta | int], data: Any
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(WANTED)), min_size=2, max_size=6))
    wanted = {name: WANTED[name] for name in names}
    columns: Any = COLUMNS if form == "columns" else ()
    events = data.draw(programs(nulls=bool(columns)))
    stream = over(spans).aggregate(**{name: each for name, (each, _) in wanted.items()})
    found = run(stream, events, data, columns)
    rows = [event for event in events if isinstance(event, tuple)]
    by_row = dict(found)
    assert len(found) == len(by_row) == len(rows)
    for row, named in expected(connection, rows, wanted, spans):
        assert named.keys() <= by_row[row].keys() or len(spans) * len(wanted) == 1
        for name, value in named.items():
            got = by_row[row][name]
            assert alike(got, value), f"{name} of {row}: {got}, in SQL {value}"


@st.composite
def programs(draw: st.DrawFn, nulls: bool) -> list[Any]:
    """Records out of order, with watermarks between them, which none comes behind."""
    maybe: Any = (lambda some: some | st.none()) if nulls else lambda some: some
    values = st.tuples(
        maybe(st.integers(-9, 9) | st.integers(-999, 999)),
        maybe(st.integers(-36, 36).map(lambda number: number / 4)),
        maybe(st.booleans()),
        st.booleans() | st.none(),
    )
    events: list[Any] = []
    watermark = -1
    for came in range(draw(st.integers(1, 60))):
        if draw(st.integers(0, 3)) == 0:
            watermark += draw(st.integers(0, 20))
            events.append(watermark)
        key, ahead = draw(st.sampled_from("abc")), draw(st.integers(1, 30))
        events.append((key, watermark + ahead, *draw(values), came))
    return events


def expected(
    connection: Any,
    rows: list[Any],
    wanted: dict[str, tuple[Any, str]],
    spans: dict[str, timedelta | int],
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The results of each record by one query."""
    dicts = [dict(zip(COLUMNS.names, row, strict=True)) for row in rows]
    connection.register("records", pa.Table.from_pylist(dicts, COLUMNS))
    windows = [
        f"{name} AS (PARTITION BY key ORDER BY {_frame(span)} PRECEDING AND CURRENT ROW)"
        for name, span in spans.items()
    ]
    names = [f"{each}_{name}" for name in spans for each in wanted]
    values = [_over(sql, name) for name in spans for _, sql in wanted.values()]
    if len(wanted) == 1:
        names = list(spans)
    found = connection.execute(
        f"WITH placed AS (SELECT *, row_number() OVER (ORDER BY time, came) AS place FROM records) "
        f"SELECT {', '.join(COLUMNS.names)}, {', '.join(values)} FROM placed "
        f"WINDOW {', '.join(windows)}"
    )
    width = len(COLUMNS)
    for row in found.fetchall():
        yield row[:width], dict(zip(names, row[width:], strict=True))


def _over(sql: str, span: str) -> str:
    """The aggregate functions in it over this span: where the sign is, or that it is."""
    return (sql if "@" in sql else f"{sql} @").replace("@", f"OVER {span}")


def _frame(span: timedelta | int) -> str:
    if isinstance(span, int):
        return f"place ROWS BETWEEN {span - 1}"
    return f"time RANGE BETWEEN {span // us(1)}"


def alike(got: Any, value: Any) -> bool:
    """Whether they are the same, but for the order of a list and the end of floats."""
    if isinstance(got, dict):  # a line
        got = list(got.values())
        return all(alike(one, other) for one, other in zip(got, value, strict=True))
    if isinstance(value, float) and math.isnan(value):
        value = None  # where SQL divides by 0
    if isinstance(value, list):
        return same(sorted(got), sorted(value))
    if isinstance(got, float) and value is not None:
        return math.isclose(got, value, rel_tol=1e-6, abs_tol=1e-6)
    return bool(got == value)


def test_all_that_sql_has_is_compared() -> None:
    kinds = {type(each) for each, _ in WANTED.values()}
    assert kinds >= {Count, Sum, Mean, Min, Max, Variance, Regression, Array}
    assert Top not in kinds  # equally frequent values have another order there
