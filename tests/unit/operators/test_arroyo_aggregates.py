"""Golden outputs of Arroyo (tests/cases/arroyo): those of its queries of updating aggregates.

They give a changelog; what counts is the last state of each key. Each runs in one, two and three
tasks, over records and over columns.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.testing import run
from operators import (
    ApproxCountDistinct,
    ApproxQuantile,
    BitAnd,
    BitOr,
    BitXor,
    BoolAnd,
    BoolOr,
    Correlation,
    Count,
    CountDistinct,
    Covariance,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Regression,
    Stddev,
    Stream,
    Sum,
    Variance,
    source,
)
from operators.sinks import Collect
from operators.sources import Collection
from tests.unit.operators.windows.test_arroyo_cases import rows, time_of

DRIVER, SECONDS = "driver_id", "seconds"
EVERY: dict[str, Any] = {
    "avg_driver": Mean(DRIVER),
    "bit_and_driver": BitAnd(DRIVER),
    "bit_or_driver": BitOr(DRIVER),
    "bit_xor_driver": BitXor(DRIVER),
    "bool_and_driver": BoolAnd("is_driver"),
    "bool_or_driver": BoolOr("is_driver"),
    "cnt": Count(),
    "max_driver": Max(DRIVER),
    "median_driver": Quantile(DRIVER, 0.5),
    "min_driver": Min(DRIVER),
    "sum_driver": Sum(DRIVER),
    "corr_driver_ts": Correlation(DRIVER, SECONDS),
    "covar_pop_driver_ts": Covariance(DRIVER, SECONDS, population=True),
    "covar_samp_driver_ts": Covariance(DRIVER, SECONDS),
    "stddev_driver": Stddev(DRIVER),
    "stddev_pop_driver": Stddev(DRIVER, population=True),
    "var_driver": Variance(DRIVER),
    "var_pop_driver": Variance(DRIVER, population=True),
    "regr": Regression(DRIVER, SECONDS),
    "approx_distinct_driver": ApproxCountDistinct(DRIVER),
    "approx_median_driver": ApproxQuantile(DRIVER, 0.5),
    "approx_percentile_cont_driver": ApproxQuantile(DRIVER, 0.5),
}
LINE = {"avgx": "avg_x", "avgy": "avg_y", **{name: name for name in ("sxx", "syy", "sxy", "r2")}}
LINE |= {name: name for name in ("slope", "intercept", "count")}
ABOUT = ("approx_median_driver", "approx_percentile_cont_driver")


def given(records: list[dict[str, Any]], *, of_columns: bool) -> Stream[Any]:
    if not of_columns:
        return source(Collection(records)).with_parallelism(1)
    batches = pa.Table.from_pylist(records).to_batches(max_chunksize=100)
    return source(Collection(batches)).with_parallelism(1)


def found(stream: Stream[Any], parallelism: int) -> dict[Any, Any]:
    """The values of each key."""
    results = run(stream.sink(Collect()), parallelism=parallelism, batch_size=100)["collect"]
    shown: dict[Any, Any] = {}
    for each in results:
        if not isinstance(each, pa.RecordBatch):
            shown[each[0]] = each[1]
            continue
        for row in each.to_pylist():
            key = row.pop(each.schema.names[0])
            shown[key] = row
    return shown


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("of_columns", [False, True])
def test_every_aggregate(parallelism: int, *, of_columns: bool) -> None:
    cars = [
        {
            "event_type": row["event_type"],
            DRIVER: row[DRIVER],
            "is_driver": row[DRIVER] > 0,
            SECONDS: int(time_of(row).timestamp()),
        }
        for row in rows("input_cars.json.gz")
    ]
    keyed = given(cars, of_columns=of_columns).key_by("event_type")
    results = found(keyed.aggregate(**EVERY, emit="final"), parallelism)
    expected = {row["after"]["event_type"]: row["after"] for row in rows(EXPECTED)}
    assert results.keys() == expected.keys()
    for key, own in results.items():
        line = own.pop("regr")
        own |= {f"regr_{name}": line[figure] for name, figure in LINE.items()}
        wanted = dict(expected[key])
        del wanted["event_type"], wanted["approx_percentile_cont_weighted_driver"]
        for name in ABOUT:
            assert abs(own.pop(name) - wanted.pop(name)) <= 1
        assert own == pytest.approx(wanted, rel=1e-9, abs=5.1e-5)  # they have four digits


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("of_columns", [False, True])
def test_aggregates_without_a_key(parallelism: int, *, of_columns: bool) -> None:
    impulse = given([{"n": row["counter"]} for row in rows(IMPULSE)], of_columns=of_columns)
    wanted: dict[str, Any] = {"min": Min("n"), "max": Max("n"), "sum": Sum("n")}
    totals = impulse.aggregate(**wanted, count=Count(), avg=Mean("n"), emit="final")
    (result,) = run(totals.sink(Collect()), parallelism=parallelism, batch_size=7)["collect"]
    (expected,) = rows("expected_aggregates.json")
    assert (result.to_pylist()[0] if of_columns else result) == expected["after"]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("of_columns", [False, True])
def test_a_changelog_is_aggregated(parallelism: int, *, of_columns: bool) -> None:
    """The last change of an order tells what is left of it."""
    changes = given(
        [
            {
                "id": (row["after"] or row["before"])["id"],
                "product": "p_" + (row["after"] or row["before"])["product_name"],
                "customer": (row["after"] or row["before"])["customer_name"],
                "q": (row["after"] or row["before"])["quantity"] + 5,
                "is_left": row["op"] != "d",
            }
            for row in rows("input_changes.json.gz")
        ],
        of_columns=of_columns,
    )
    names = ("product", "customer", "q", "is_left")
    if of_columns:
        wanted: dict[str, Any] = {name: Last(name) for name in names}
        last = changes.key_by("id").aggregate(**wanted, emit="final")
    else:
        last = changes.key_by("id").last(emit="final").map(lambda pair: pair[1])
    totals: dict[str, Any] = {
        "c": Count(where="is_left"),
        "d": CountDistinct("customer", where="is_left"),
        "q": Sum("q", where="is_left"),
    }
    results = found(last.key_by("product").aggregate(**totals, emit="final"), parallelism)
    expected = {row["after"]["id"]: row["after"] for row in rows("expected_debezium_agg.json")}
    shown = {key: {"id": key, **own, "q": own["q"] + 10} for key, own in results.items()}
    assert shown == expected


EXPECTED, IMPULSE = "expected_every_aggregate.json", "input_impulse.json"
