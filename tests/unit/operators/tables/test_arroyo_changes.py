"""Golden outputs of Arroyo (tests/cases/arroyo): those of its queries of tables that change."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.testing import run
from operators import Change, Count, CountDistinct, Stream, Sum, source
from operators.sinks import Collect
from operators.sources import Collection

FOLDER = Path(__file__).parents[3] / "cases" / "arroyo"


def rows(name: str) -> list[dict[str, Any]]:
    path = FOLDER / name
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


def expected(name: str) -> list[Any]:
    return in_order(row["after"] for row in rows(name))


def in_order(found: Any) -> list[Any]:
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_updating_inner_join(parallelism: int) -> None:
    impulse = source(Collection(rows("input_impulse.json")))
    odd = impulse.filter(lambda row: row["counter"] % 2 == 1)
    joined = impulse.key_by("counter").join(
        odd.key_by("counter"),
        lambda left, right: {"left_count": left["counter"], "right_count": right["counter"]},
    )
    found = run(joined.sink(Collect()), parallelism=parallelism, batch_size=10)["collect"]
    assert in_order(found) == expected("expected_updating_inner_join.json")


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_updating_inner_join_of_columns(parallelism: int) -> None:
    batches = pa.Table.from_pylist(rows("input_impulse.json")).to_batches(max_chunksize=10)
    impulse = source(Collection(batches))
    odd = impulse.map_batches(
        lambda batch: batch.filter(pc.equal(pc.bit_wise_and(batch["counter"], 1), 1))
    )
    joined = impulse.key_by("counter").join(odd.key_by("counter")).to_records()
    found = run(joined.sink(Collect()), parallelism=parallelism)["collect"]
    names = {"counter": "left_count", "counter_right": "right_count"}
    found = [{names[name]: row[name] for name in names} for row in found]
    assert in_order(found) == expected("expected_updating_inner_join.json")


def changes(message: dict[str, Any]) -> Iterator[Change]:
    """The changes in a message of Debezium."""
    before, after = message["before"], message["after"]
    if before is not None:
        yield Change("-D" if after is None else "-U", before)
    if after is not None:
        yield Change("+I" if before is None else "+U", after)


AGGREGATES = {"c": Count(), "d": CountDistinct("customer_name"), "q": Sum("of_five")}


def with_five(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "of_five": row["quantity"] + 5, "id": "p_" + row["product_name"]}


def table_of(changes: Stream[Any], parallelism: int) -> dict[str, Any]:
    """The last row of each key; what goes was there."""
    found = run(changes.sink(Collect()), parallelism=parallelism, batch_size=50)["collect"]
    there: dict[str, Any] = {}
    for change in found:
        kind = change.pop("kind")
        if kind in ("-U", "-D"):
            assert there.pop(change["id"]) == change
        else:
            assert change["id"] not in there
            there[change["id"]] = change
    return there


def messages() -> list[dict[str, Any]]:
    return rows("input_changes.json.gz")


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_debezium_agg(parallelism: int) -> None:
    orders = source(Collection(messages())).with_parallelism(1)
    orders = orders.flat_map(changes).with_parallelism(1)
    orders = orders.map(lambda change: change._replace(record=with_five(change.record)))
    orders = orders.with_parallelism(1)
    products = orders.key_by(lambda change: change.record["id"]).as_table()
    found = products.aggregate(**AGGREGATES).changes()
    flat = found.map(lambda c: {"kind": c.kind, "id": c.key, **c.record[1]})
    there = table_of(flat, parallelism)
    assert in_order(as_arroyo(row) for row in there.values()) == expected(
        "expected_debezium_agg.json"
    )


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_debezium_agg_of_columns(parallelism: int) -> None:
    given = [
        {"kind": change.kind, **with_five(change.record)}
        for message in messages()
        for change in changes(message)
    ]
    batches = pa.Table.from_pylist(given).to_batches(max_chunksize=50)
    products = source(Collection(batches)).with_parallelism(1).key_by("id").as_table()
    there = table_of(products.aggregate(**AGGREGATES).changes().to_records(), parallelism)
    assert in_order(as_arroyo(row) for row in there.values()) == expected(
        "expected_debezium_agg.json"
    )


def as_arroyo(row: dict[str, Any]) -> dict[str, Any]:
    """With 10 more in the sum, as the query says."""
    return {**row, "q": row["q"] + 10}
