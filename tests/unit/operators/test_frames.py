"""Tables, frames and arrays where records are given: by collections and functions of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from engine.errors import OperatorError
from engine.graph.context import TaskContext
from engine.testing import run
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"]})


@pytest.mark.parametrize(
    "given",
    [TABLE, TABLE.to_batches()[0], pl.from_arrow(TABLE)],
    ids=["table", "batch", "polars"],
)
def test_a_collection_of_a_table_or_a_frame_has_its_rows(given: Any) -> None:
    columns = source(Collection(given))
    assert run(columns.to_records().sink(Collect()))["collect"] == TABLE.to_pylist()
    totals = run(columns.key_by("b").sum("a", emit="final").sink(Collect()), parallelism=2)
    rows = [row for batch in totals["collect"] for row in batch.to_pylist()]
    assert sorted(rows, key=str) == [{"b": "x", "sum": 4}, {"b": "y", "sum": 2}]


def test_tasks_share_the_rows_of_a_large_table() -> None:
    table = pa.table({"a": range(20_000)})
    parts = [Collection(table).open(TaskContext("t", i, 2, 1000, "job")) for i in range(2)]
    rows = [sum(batch.num_rows for batch in part) for part in parts]
    assert sum(rows) == 20_000
    assert min(rows) > 5_000
    assert run(source(Collection(table[:0])).to_records().sink(Collect()))["collect"] == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (lambda batch: np.array(batch) * 2.0, [2.0, 4.0]),
        (lambda batch: np.array(batch, "f4"), [1.0, 2.0]),
        (lambda batch: np.array(["a", "b"]), ["a", "b"]),
        (lambda batch: pl.Series(batch), [1, 2]),
    ],
)
def test_map_batches_takes_arrays_and_series(given: Any, expected: list[Any]) -> None:
    found = run(source(Collection([1, 2])).map_batches(given).sink(Collect()))["collect"]
    assert found == expected
    assert [type(each) for each in found] == [type(each) for each in expected]


def test_map_batches_takes_rows_of_arrays_and_frames() -> None:
    numbers = source(Collection([1, 2]))
    (first, second) = run(numbers.map_batches(np.diag).sink(Collect()))["collect"]
    assert (first.tolist(), second.tolist()) == ([1, 0], [0, 2])
    frames = numbers.map_batches(lambda batch: pl.DataFrame({"n": batch}))
    assert run(frames.to_records().sink(Collect()))["collect"] == [{"n": 1}, {"n": 2}]
    keyed = numbers.map(lambda n: {"k": 0, "n": n}).to_columns().key_by("k")
    last = keyed.reduce_batches(lambda rows: pl.from_arrow(rows)[-1:], emit="final")  # type: ignore[index]
    assert run(last.to_records().sink(Collect()))["collect"] == [{"k": 0, "n": 2}]
    models = source(Collection([3])).broadcast()
    scaled = numbers.map_batches_with_model(models, int, lambda k, batch: np.array(batch) * k)
    assert run(scaled.sink(Collect()))["collect"] == [3, 6]


@pytest.mark.parametrize("given", [tuple, np.sum, lambda batch: (n for n in batch), lambda _: None])
def test_map_batches_refuses_what_is_no_batch(given: Any) -> None:
    with pytest.raises(
        OperatorError, match=r"expected a list, an array of NumPy[\s\S]*hint: return"
    ):
        run(source(Collection([1, 2])).map_batches(given).sink(Collect()))


def test_a_frame_of_objects_is_refused() -> None:
    def objects(batch: list[Any]) -> Any:
        return pl.DataFrame(
            {"a": batch, "b": [object()] * len(batch)}, schema_overrides={"b": pl.Object}
        )

    with pytest.raises(OperatorError, match=r"column 'b' of the DataFrame has Python objects"):
        run(source(Collection([1, 2])).map_batches(objects).sink(Collect()))


@pytest.mark.parametrize("nothing", [pl.DataFrame, lambda: pa.table({}), list])
@pytest.mark.parametrize("max_records", [None, 2])
def test_a_frame_without_columns_is_no_records(nothing: Any, max_records: int | None) -> None:
    def small(batch: list[int]) -> Any:
        return pl.DataFrame({"n": [0] * len(batch)}) if batch[0] < 4 else nothing()

    frames = source(Collection(range(8))).map_batches(small, max_records=max_records)
    counted = frames.key_by("n").count(emit="final").to_records().sink(Collect())
    assert run(counted, parallelism=2, batch_size=2)["collect"] == [{"n": 0, "count": 4}]
