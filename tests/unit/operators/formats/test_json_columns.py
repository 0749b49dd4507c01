"""JSON by a schema becomes columns: how schemas are given, and what is rejected."""

from __future__ import annotations

import pickle
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import engine.testing
from engine import GraphError
from engine.graph.failing import FailureContext
from engine.network import DecodeError
from operators import source
from operators.formats import Json
from operators.sinks import Collect
from tests.unit.operators.formats.test_decode import Log

SCHEMA = {
    "user": "string",
    "at": "timestamp[us]",
    "tags": ["int64"],
    "place": {"x": "double"},
    "price": pa.decimal128(6, 2),
}
MESSAGE = (
    b'{"user": "ann", "at": "2026-01-02T03:04:05Z", "tags": [1, null], "place": {"x": 1},'
    b' "price": "1.25", "more": {}}'
)
ROW = {
    "user": "ann",
    "at": datetime(2026, 1, 2, 3, 4, 5),
    "tags": [1, None],
    "place": {"x": 1.0},
    "price": Decimal("1.25"),
}
NOTHING = dict.fromkeys(SCHEMA)


def test_messages_become_rows_of_the_schema() -> None:
    decoded, rejected = Json(SCHEMA).decoder()([MESSAGE, b"{}", None, b"[", b"\xff"])
    assert decoded.to_pylist() == [ROW, NOTHING, NOTHING]
    assert [place for place, _ in rejected] == [3, 4]
    assert all(isinstance(error, DecodeError) for _, error in rejected)
    assert str(rejected[0][1]).startswith("not JSON: EOF")


def test_a_dict_and_a_schema_of_pyarrow_mean_the_same() -> None:
    whole = pa.schema(
        [
            ("user", pa.string()),
            ("at", pa.timestamp("us")),
            ("tags", pa.list_(pa.int64())),
            ("place", pa.struct([("x", pa.float64())])),
            ("price", pa.decimal128(6, 2)),
        ]
    )
    assert Json(whole) == Json(SCHEMA)
    decoded, _ = pickle.loads(pickle.dumps(Json(SCHEMA))).decoder()([])
    assert (decoded.schema, decoded.num_rows) == (whole, 0)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("int64", "Json got the schema 'int64', expected a pyarrow.Schema or a dict"),
        ({}, "Json got a schema without a field"),
        ({"a": "integer"}, "Json got the type 'integer' for 'a', expected one such as 'string'"),
        ({"a": {"b": None}}, "Json got the type None for 'b'"),
        ({"a": ["int64", "int64"]}, "Json got the type ['int64', 'int64'] for 'a'"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "with two fields of a name"),
        ({"a": pa.month_day_nano_interval()}, "Json got a schema with a type that JSON cannot"),
        ({"a": {"b": pa.dense_union([])}}, "Json got a schema with a type that JSON cannot"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        Json(schema)
    assert message in str(raised.value)


def test_columns_are_aggregated_as_those_of_other_sources() -> None:
    messages = [b'{"user": "%s", "n": %d}' % (user, n) for n, user in enumerate([b"a", b"b"] * 50)]
    events = source(Log([*messages, b"x"], Json({"user": "string", "n": "int64"}), "skip"))
    found = engine.testing.run(
        events.key_by("user").sum("n", emit="final").to_records().sink(Collect()),
        parallelism=2,
        batch_size=7,
    )
    sums = {tuple(row.values()) for row in found["collect"]}
    assert sums == {("a", 2450), ("b", 2500)}


def test_rows_become_messages() -> None:
    batch = pa.RecordBatch.from_pylist([ROW, NOTHING], Json(SCHEMA).schema)
    assert Json().encoder()(batch, FailureContext()) == [
        b'{"user":"ann","at":"2026-01-02T03:04:05","tags":[1,null],"place":{"x":1.0},'
        b'"price":"1.25"}',
        b'{"user":null,"at":null,"tags":null,"place":null,"price":null}',
    ]
