"""Tests of what batches hold, and of those made of rows of columns."""

import pyarrow as pa
import pytest

from engine.columns import rows
from engine.network import Batch


def test_a_batch_says_whether_it_has_columns() -> None:
    assert Batch.from_columns(pa.record_batch({"a": [1]})).has_columns
    assert Batch.from_columns(pa.record_batch({"a": pa.array([], "int64")})).has_columns
    assert not Batch.from_list([{"a": 1}]).has_columns
    assert not Batch.from_list([]).has_columns


def encoded(batch: Batch) -> list[tuple[int, bytes]]:
    (frames,) = batch.__reduce__()[1]
    return [(count, bytes(body)) for count, body in frames]


VALUES = [1, 0, None, 3, 1]
COLUMNS: dict[str, pa.Array] = {
    **{
        kind: pa.array(VALUES, kind)
        for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "large": pa.array([2**63 - 1, -(2**63), None, 255, 256]),
    "larger": pa.array([2**64 - 1, 2**63, None, 0, 1], "uint64"),
    "float16": pa.array([0.5, -0.0, None, float("inf"), 1], "float16"),
    "float32": pa.array([0.1, -0.0, None, float("inf"), 1], "float32"),
    "float64": pa.array([0.1, -0.0, None, float("nan"), 1]),
    "bool": pa.array([True, False, None, True, False]),
    "none": pa.nulls(5),
    **{
        kind: pa.array(["a", "İ", None, "", "b" * 300], kind)
        for kind in ("string", "large_string", "string_view")
    },
    **{
        kind: pa.array([b"a", b"\xff", None, b"", b"b" * 70000], kind)
        for kind in ("binary", "large_binary", "binary_view")
    },
    "dictionary": pa.array(["a", "b", None, "a", "c"]).dictionary_encode(),
    "empty dictionary": pa.nulls(5, pa.dictionary(pa.int8(), pa.string())),
    "null in a dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 1, 0]), pa.array([None, 7])
    ),
    "date": pa.array([0, 1, None, 3, 1], "date32"),
    "timestamp": pa.array(VALUES, pa.timestamp("us", "UTC")),
    "list": pa.array([[1], [], None, [None], [2, 3]]),
    "struct": pa.array([{"a": 1}, {"a": None}, None, {"a": 2}, {}]),
}


@pytest.mark.parametrize("names", [*([name] for name in COLUMNS), [*COLUMNS], []])
@pytest.mark.parametrize("part", [slice(0, 5), slice(1, 4), slice(2, 2)])
def test_rows_are_encoded_as_their_dicts_are(names: list[str], part: slice) -> None:
    batch = pa.RecordBatch.from_arrays([COLUMNS[name] for name in names], names)
    batch = batch.slice(part.start, part.stop - part.start)
    assert encoded(Batch.of_rows(batch)) == encoded(Batch.from_list(rows(batch)))


def test_rows_of_columns_that_share_a_name_are_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(ValueError, match="would have a once"):
        Batch.of_rows(batch)
