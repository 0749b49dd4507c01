"""Tests of the form of what a batch holds."""

import pyarrow as pa

from engine.network import Batch


def test_a_batch_says_whether_it_has_columns() -> None:
    assert Batch.from_columns(pa.record_batch({"a": [1]})).has_columns
    assert Batch.from_columns(pa.record_batch({"a": pa.array([], "int64")})).has_columns
    assert not Batch.from_list([{"a": 1}]).has_columns
    assert not Batch.from_list([]).has_columns
