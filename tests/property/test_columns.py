"""Columns of any type travel through a channel and come out equal."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.testing
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

scalars: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=8),
    pa.large_binary(): st.binary(max_size=8),
    pa.string_view(): st.text(max_size=20),
    pa.date32(): st.dates(),
    pa.decimal128(20, 3): st.decimals(-1000, 1000, places=3),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b", "c"]),
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(0, 9), max_size=3),
    pa.struct({"a": pa.string(), "b": pa.int8()}): st.fixed_dictionaries(
        {"a": st.none() | st.text(max_size=3), "b": st.integers(0, 9)}
    ),
}


@st.composite
def batches(draw: st.DrawFn) -> list[pa.RecordBatch]:
    """Batches of one schema, or of another one now and then, and slices of them."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        types = draw(st.lists(st.sampled_from(list(scalars)), min_size=1, max_size=4))
        for _ in range(draw(st.integers(1, 3))):
            rows = draw(st.integers(0, 30))
            columns = [
                pa.array(
                    draw(st.lists(st.none() | scalars[kind], min_size=rows, max_size=rows)), kind
                )
                for kind in types
            ]
            batch = pa.record_batch(columns, [f"column {at}" for at in range(len(types))])
            start = draw(st.integers(0, rows))
            found.append(batch.slice(start, draw(st.integers(0, rows - start))))
    return found


def rows(found: list[pa.RecordBatch]) -> list[tuple[str, dict[str, Any]]]:
    return [(str(batch.schema), row) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("way", ["rebalance", "broadcast"])
@given(sent=batches())
def test_columns_come_out_as_they_went_in(way: str, sent: list[pa.RecordBatch]) -> None:
    stream = getattr(source(Collection(sent)), way)()
    output = engine.testing.run(stream.sink(Collect()))["collect"]
    for batch in output:
        batch.validate(full=True)
    assert rows(output) == rows(sent)
