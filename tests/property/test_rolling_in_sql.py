"""Spans give what DuckDB makes of all records by SQL's OVER … RANGE | ROWS."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_rolling import NUMBERS, SPANS, records, run, runs
from tests.rolling import AGGREGATIONS, NAMES, alike, of, over
from tests.windowing import Event, us

KINDS: list[Any] = [(NUMBERS, pa.int64()), (st.floats(-9, 9), pa.float64())]
IN_SQL = {
    "count": "count(*)",
    "sum": "sum(number)",
    "min": "min(number)",
    "max": "max(number)",
    "mean": "avg(number)",
    "first": "arg_min(number, place)",
    "last": "arg_max(number, place)",
    "distinct": "count(DISTINCT number)",
    "median": "quantile_cont(number, 0.5)",
    "quarters": "coalesce(quantile_cont(number, [0.25, 1]), [])",
}


@pytest.fixture(scope="module")
def connection() -> Any:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@pytest.mark.parametrize("form", ["records", "columns"])
@settings(max_examples=25, deadline=None)
@given(spans=SPANS, data=st.data())
def test_results_are_those_of_sql(
    connection: Any, form: str, spans: dict[str, timedelta | int], data: Any
) -> None:
    (numbers, data_type) = data.draw(st.sampled_from(KINDS))
    columns: Any = ()
    if form == "columns":
        numbers = st.none() | numbers
        types = [pa.string(), pa.int64(), data_type]
        columns = pa.schema(list(zip(NAMES, types, strict=True)))
    events = data.draw(runs(numbers))
    found = run(over(spans).aggregate(**of(IN_SQL)), events, data, columns)
    assert alike(found, expected(connection, events, spans))


def expected(connection: Any, events: list[Event], spans: dict[str, timedelta | int]) -> list[Any]:
    """The result of each record by one query."""
    rows = [(*record, at) for at, record in enumerate(records(events))]
    columns = zip(*rows, strict=True) if rows else [[], [], [], []]
    names = [*NAMES, "came"]
    table = pa.table([pa.array(column) for column in columns], names=names)
    windows = [
        f"{name} AS (PARTITION BY key ORDER BY {_frame(span)} PRECEDING AND CURRENT ROW)"
        for name, span in spans.items()
    ]
    names = [f"{each}_{name}" for name in spans for each in IN_SQL]
    values = [each.replace(")", f") OVER {name}", 1) for name in spans for each in IN_SQL.values()]
    connection.register("records", table)
    found = connection.execute(
        f"WITH placed AS (SELECT *, row_number() OVER (ORDER BY time, came) AS place FROM records) "
        f"SELECT key, time, number, {', '.join(values)} FROM placed WINDOW {', '.join(windows)}"
    ).fetchall()
    return [(row[:3], dict(zip(names, row[3:], strict=True))) for row in found]


def _frame(span: timedelta | int) -> str:
    if isinstance(span, int):
        return f"place ROWS BETWEEN {span - 1}"
    return f"time RANGE BETWEEN {span // us(1)}"


def test_all_but_the_most_frequent_are_compared() -> None:
    assert set(AGGREGATIONS) - set(IN_SQL) == {"top"}
