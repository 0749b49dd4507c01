"""What becomes of values in columns of declared types, and of columns as records."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import OperatorError
from engine.gateway.columns import row_of
from engine.record.column_values import array_of, values_of
from engine.testing import run
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

UTC = timezone.utc
MOMENT = datetime(2026, 3, 1, 5, 6, 7, 8)
WHOLE = MOMENT.replace(microsecond=0)
HERE = timezone(timedelta(hours=2))
POINT = pa.struct([("x", pa.int64()), pa.field("y", pa.float64(), nullable=False)])


def some(kind: Any) -> pa.Schema:
    return pa.schema([("n", kind)])


def not_null(kind: Any) -> pa.Schema:
    return pa.schema([pa.field("n", kind, nullable=False)])


HELD: list[tuple[Any, Any, Any]] = [
    (2, pa.int8(), 2),
    (2.0, pa.int64(), 2),
    (Decimal("2.0"), pa.int64(), 2),
    (np.float64(2.0), pa.int64(), 2),
    (np.int8(-2), pa.int64(), -2),
    (None, pa.int64(), None),
    (2, pa.float64(), 2.0),
    (2**53, pa.float64(), 2.0**53),
    (0.1, pa.float32(), float(np.float32(0.1))),
    (float("inf"), pa.float32(), float("inf")),
    (2, pa.decimal128(5, 2), Decimal("2.00")),
    (Decimal("1.5"), pa.decimal128(5, 2), Decimal("1.50")),
    (True, pa.bool_(), True),
    ("a", pa.string(), "a"),
    ("a", pa.dictionary(pa.int8(), pa.string()), "a"),
    (b"a", pa.string(), "a"),
    ("é", pa.binary(), "é".encode()),
    (bytearray(b"a"), pa.binary(), b"a"),
    (MOMENT, pa.timestamp("us"), MOMENT),
    (WHOLE, pa.timestamp("s"), WHOLE),
    (MOMENT, pa.timestamp("ns"), MOMENT),
    (MOMENT.replace(tzinfo=HERE), pa.timestamp("us"), MOMENT - timedelta(hours=2)),
    (MOMENT, pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC)),
    (np.datetime64(7, "us"), pa.timestamp("us"), datetime(1970, 1, 1, microsecond=7)),
    (7, pa.timestamp("us"), datetime(1970, 1, 1, microsecond=7)),
    (datetime(2026, 3, 1), pa.date32(), date(2026, 3, 1)),
    (date(2026, 3, 1), pa.date32(), date(2026, 3, 1)),
    (7, pa.date32(), date(1970, 1, 8)),
    (time(5, 6), pa.time32("s"), time(5, 6)),
    (timedelta(seconds=5), pa.duration("s"), timedelta(seconds=5)),
    ([1.0, None], pa.list_(pa.int64()), [1, None]),
    (np.array([1, 2]), pa.list_(pa.int64()), [1, 2]),
    ({"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    ([("a", 1)], pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    ({"x": 1.0, "y": 2, "z": 3}, POINT, {"x": 1, "y": 2.0}),
    ({"y": 2.5}, POINT, {"x": None, "y": 2.5}),
    (None, POINT, None),
]
REFUSED: list[tuple[Any, Any]] = [
    (2.75, pa.int64()),
    (Decimal("2.75"), pa.int64()),
    (np.float64(2.75), pa.int64()),
    (float("nan"), pa.int64()),
    (1e300, pa.int64()),
    (-1, pa.uint8()),
    (300, pa.int8()),
    (2**64, pa.uint64()),
    ("2", pa.int64()),
    (2**53 + 1, pa.float64()),
    (2**24 + 1, pa.float32()),
    (1e300, pa.float32()),
    (Decimal("1.239"), pa.decimal128(5, 2)),
    (10**6, pa.decimal128(5, 2)),
    (1, pa.string()),
    (1, pa.bool_()),
    ("abc", pa.binary(2)),
    (MOMENT, pa.timestamp("s")),
    (MOMENT, pa.timestamp("ms", "UTC")),
    (5.5, pa.timestamp("us")),
    (MOMENT, pa.date32()),
    (MOMENT, pa.date64()),
    (2.5, pa.date32()),
    (MOMENT.time(), pa.time32("s")),
    (timedelta(microseconds=5), pa.duration("s")),
    ([1, 2.5], pa.list_(pa.int64())),
    ([1, 2, 3], pa.list_(pa.int64(), 2)),
    (np.array([1.5]), pa.list_(pa.int64())),
    ({"a": 1.5}, pa.map_(pa.string(), pa.int64())),
    ({"x": 1.5, "y": 1.0}, POINT),
    ({"x": 1, "y": None}, POINT),
    ({"x": 1}, POINT),
    ([{"x": 1.5, "y": 1.0}], pa.list_(POINT)),
    ([None], pa.list_(pa.field("item", pa.int64(), nullable=False))),
    (2.75, pa.dictionary(pa.int8(), pa.int64())),
]


def columns(records: list[Any], schema: Any = None) -> list[Any]:
    stream = source(Collection(records)).to_columns(schema).to_records()
    return list(run(stream.sink(Collect()))["collect"])


@pytest.mark.parametrize(("value", "kind", "expected"), HELD, ids=str)
def test_what_a_type_holds(value: Any, kind: Any, expected: Any) -> None:
    found = values_of(array_of([value, None], kind))
    assert found == [expected, None]
    assert type(found[0]) is type(expected)


@pytest.mark.parametrize(("value", "kind"), REFUSED, ids=str)
def test_what_it_does_not_hold_is_refused_by_name(value: Any, kind: Any) -> None:
    # In one batch with others, whose types decide what PyArrow looks at.
    stream = source(Collection([{"n": None}, {"n": value, "of": "ann"}])).to_columns(some(kind))
    with pytest.raises(OperatorError) as failed:
        run(stream.sink(Collect()))
    told = str(failed.value)
    assert told.startswith("operator 'to_columns'")
    assert f"field 'n' is {value!r:.80}, expected {kind}: " in told
    assert "'of': 'ann'" in told.partition("failed on record ")[2]
    assert "hint: convert it in .map(...) first" in told


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), POINT, pa.list_(pa.int64())], ids=str)
@pytest.mark.parametrize("record", [{"n": None}, {}])
def test_null_is_refused_where_it_may_not_be(kind: Any, record: Any) -> None:
    told = r"field 'n' is None, expected .* and not null: 'n' would be null"
    with pytest.raises(OperatorError, match=told):
        columns([record], not_null(kind))


def test_columns_become_what_the_schema_says() -> None:
    given = pa.record_batch({"a": [1, 2], "n": [2.0, 3.0], "s": ["x", "y"]})
    schema = pa.schema([("s", pa.string()), ("n", pa.int64()), ("t", pa.float64())])
    assert columns([given], schema) == [
        {"s": "x", "n": 2, "t": None},
        {"s": "y", "n": 3, "t": None},
    ]
    for batch in (
        pa.record_batch({"n": [2.75]}),
        pa.record_batch({"n": ["x"]}),
        pa.record_batch({"n": pa.array([None], pa.int64())}),
        pa.record_batch({"m": [1]}),
        pa.record_batch([[1], [2]], ["n", "n"]),
    ):
        with pytest.raises(OperatorError, match=r"column 'n' cannot be int64 and not null: "):
            columns([batch], not_null(pa.int64()))


@pytest.mark.parametrize("sort", ["plain", "dictionary", "list", "struct", "map", "sliced"])
@pytest.mark.parametrize(
    ("given", "kind", "is_held"),
    [
        (pa.array([MOMENT, None]), pa.date32(), False),
        (pa.array([datetime(2026, 3, 1), None]), pa.date32(), True),
        (pa.array([datetime(2026, 3, 1)]).cast(pa.timestamp("s", "UTC")), pa.date64(), True),
        (pa.array([datetime(2026, 3, 1, 12, tzinfo=UTC)]), pa.date32(), False),
        (pa.array([MOMENT]), pa.time64("us"), False),
        (pa.array([MOMENT]), pa.timestamp("ns"), True),
        (pa.array([0, 1, None]), pa.bool_(), True),
        (pa.array([5]), pa.bool_(), False),
        (pa.array([0.5]), pa.bool_(), False),
        (pa.array([1e300, None]), pa.float32(), False),
        (pa.array([1e5]), pa.float16(), False),
        (pa.array([0.1, float("inf"), float("nan"), None]), pa.float32(), True),
    ],
    ids=str,
)
def test_columns_are_refused_that_a_type_does_not_hold(
    sort: str, given: Any, kind: Any, is_held: bool
) -> None:
    if sort == "dictionary":
        given = given.dictionary_encode()
    elif sort == "sliced":
        given = pa.concat_arrays([given, pa.nulls(1, given.type)])[: len(given)]
    elif sort == "list":
        offsets = pa.array([0, 0, len(given)], pa.int32())
        given, kind = pa.ListArray.from_arrays(offsets, given), pa.list_(kind)
    elif sort == "struct":
        given, kind = pa.StructArray.from_arrays([given], ["x"]), pa.struct([("x", kind)])
    elif sort == "map":
        keys = pa.array(map(str, range(len(given))))
        offsets = pa.array([0, len(given)], pa.int32())
        given, kind = pa.MapArray.from_arrays(offsets, keys, given), pa.map_(pa.string(), kind)
    batch = pa.record_batch({"n": given})
    if is_held:
        expected = pa.record_batch({"n": given.cast(kind)}).to_pylist()
        assert repr(columns([batch], some(kind))) == repr(expected)
        return
    with pytest.raises(OperatorError, match=r"column 'n' cannot be .*: values of .* would be"):
        columns([batch], some(kind))


def test_values_of_several_types_without_a_schema() -> None:
    assert columns([{"n": 1}, {"n": 2.5}]) == [{"n": 1.0}, {"n": 2.5}]
    for values in ([date(2026, 3, 1), MOMENT], [1, True], [1, "a"]):
        with pytest.raises(
            OperatorError, match=r"field 'n' is .*, expected a value that goes into a column"
        ):
            columns([{"n": value} for value in values])


@pytest.mark.parametrize(
    ("kind", "value", "is_held"),
    [
        ("int64", "2.75", False),
        ("int64", "2.0", True),
        ("uint8", "-1", False),
        ("list<int64>", "[2.5]", False),
        ("float32", "1e300", False),
        ("float64", "9007199254740993", False),
        ("float64", "0.1", True),
    ],
)
def test_bodies_of_requests_are_held_alike(kind: str, value: str, is_held: bool) -> None:
    inner = pa.list_(pa.int64()) if kind.startswith("list") else pa.type_for_alias(kind)
    _, wrong = row_of(f'{{"n": {value}}}'.encode(), some(inner))
    assert bool(wrong) != is_held


def test_a_lookup_whose_type_is_told_cuts_nothing_off() -> None:
    names = pa.record_batch({"id": [1, 2]})
    stream = source(Collection([names])).lookup_join({1: 2.0, 2: 2.75}, "id", value_type=pa.int64())
    with pytest.raises(OperatorError, match=r"2\.75 would be 2"):
        run(stream.sink(Collect()))


# --- as records -------------------------------------------------------------------------------

NS = 1_772_341_567_000_008_000
IN_NS: list[tuple[Any, Any, Any]] = [
    (pa.timestamp("ns"), NS, datetime(2026, 3, 1, 5, 6, 7, 8)),
    (pa.timestamp("ns", "UTC"), NS, datetime(2026, 3, 1, 5, 6, 7, 8, UTC)),
    (pa.duration("ns"), 8_000, timedelta(microseconds=8)),
    (pa.time64("ns"), 8_000, time(microsecond=8)),
]


@pytest.mark.parametrize(("kind", "number", "value"), IN_NS, ids=str)
def test_nanoseconds_are_what_python_has(kind: Any, number: int, value: Any) -> None:
    """So they are where pandas is installed, whose classes PyArrow gives otherwise."""
    flat = pa.array([number, None], pa.int64()).cast(kind)
    offsets = pa.array([0, 1, 2], pa.int32())
    nested = {
        "flat": flat,
        "lists": pa.ListArray.from_arrays(offsets, flat),
        "structs": pa.StructArray.from_arrays([flat], ["a"]),
        "maps": pa.MapArray.from_arrays(offsets, ["a", "b"], flat),
        "coded": flat.dictionary_encode(),
    }
    wanted = {"flat": value, "lists": [value], "structs": {"a": value}, "maps": [("a", value)]}
    (first, _) = columns([pa.record_batch(nested)])
    assert first == {**wanted, "coded": value}
    assert type(first["flat"]) is type(value)
    finer = pa.array([number, number + 1], pa.int64()).cast(kind)
    with pytest.raises(OperatorError, match=r"column 'at': .* holds what is finer than a micro"):
        columns([pa.record_batch({"at": finer})])
