"""Golden outputs of Arroyo (tests/cases/arroyo): those of its queries of tables that change."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.testing import run
from operators import source
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
