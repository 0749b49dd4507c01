"""Rows of columns are what PyArrow makes of them, and columns of dicts what it makes of those."""

from datetime import timedelta, timezone
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.columns
from engine.columns import columns_of, rows
from tests import arrow_types
from tests.part import examples

UTC = timezone.utc
HERE = timezone(timedelta(hours=2))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**31), 2**31) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63]),
    "small": st.integers(-128, 300),
    "float": st.floats() | st.sampled_from([1e300, -0.0]),
    "str": st.text(max_size=5),
    "surrogate": st.sampled_from(["a", "\ud800"]),
    "bool": st.booleans(),
    "bytes": st.binary(max_size=3),
    "none": st.none(),
    "date": st.dates(),
    "datetime": st.datetimes(),
    "instant": st.datetimes(timezones=st.just(UTC)),
    "local": st.datetimes(timezones=st.sampled_from([UTC, HERE])),
    "times": st.dates() | st.datetimes() | st.integers(0, 9),
    "numbers": st.integers(-9, 9) | st.floats(-9, 9) | st.booleans(),
    "decimal": st.decimals(-100, 100, places=2),
    "list": st.lists(st.integers(0, 9), max_size=2),
    "dict": st.fixed_dictionaries({"a": st.integers(0, 9)}),
}
TYPES = [
    *(pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
    *(pa.bool_(), pa.null(), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us")),
    *(pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Paris")),
    *(pa.decimal128(9, 2), pa.list_(pa.int64()), pa.struct({"a": pa.int64()})),
    *(pa.dictionary(pa.int8(), pa.string()), pa.duration("us")),
]


class Text(str):
    """Not exactly a str."""


@st.composite
def dicts(draw: st.DrawFn) -> tuple[list[Any], list[str]]:
    """Dicts with values of a kind for each name, mostly, in some order, and these names."""
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    names = draw(st.lists(st.text(max_size=3), min_size=len(kinds), max_size=9, unique=True))
    found: list[Any] = []
    for _ in range(draw(st.integers(0, 8))):
        record = {}
        for name, kind in draw(st.permutations(list(zip(names, kinds, strict=False)))):
            if draw(st.integers(0, 9)):
                record[name] = draw(
                    st.none() | VALUES[kind] if draw(st.booleans()) else VALUES[kind]
                )
        found.append(record)
    if found and not draw(st.integers(0, 9)):
        odd = draw(st.sampled_from([{1: 2}, {Text(names[0]): 1}, 7, {"\ud800": 1}, {}]))
        found.insert(draw(st.integers(0, len(found))), odd)
    return found, names


@given(drawn=dicts(), data=st.data())
@settings(max_examples=examples(150))
def test_columns_of_dicts_are_those_of_pyarrow(
    drawn: tuple[list[Any], list[str]], data: st.DataObject
) -> None:
    records, names = drawn
    schema = None
    if data.draw(st.booleans()):
        chosen = data.draw(st.lists(st.sampled_from([*names, "other"]), max_size=4))
        schema = pa.schema(
            [
                pa.field(
                    name,
                    kind := data.draw(st.sampled_from(TYPES)),
                    nullable=kind == pa.null() or data.draw(st.integers(0, 3)) > 0,
                    metadata={"of": "a field"},
                )
                for name in chosen
            ],
            {"of": "the schema"},
        )
    found = _columns(records, schema)
    with patch.object(engine.columns, "columns_of_dicts", return_value=None):
        expected = _columns(records, schema)
    assert found == expected


def _columns(records: list[Any], schema: pa.Schema | None) -> tuple[Any, ...]:
    """What tells batches apart, or errors."""
    try:
        batch = columns_of(records, schema)
    except (OverflowError, TypeError, ValueError) as error:
        return type(error), str(error)
    batch.validate(full=True)
    described = batch.schema.to_string(show_field_metadata=True, show_schema_metadata=True)
    return described, len(batch), _made(batch.to_pylist)


SCALARS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float16(): st.floats(width=16),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=8),
    pa.large_string(): st.text(max_size=80),
    pa.string_view(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=8),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.binary_view(): st.binary(max_size=20),
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.timestamp("s"): st.integers(-(2**40), 2**40),
    pa.timestamp("us"): st.datetimes() | st.integers(-(2**62), 2**62),
    pa.timestamp("ms", "UTC"): st.integers(-(10**13), 10**13),
    pa.timestamp("us", "Europe/Paris"): st.datetimes(timezones=st.just(UTC)),
    pa.time64("us"): st.times(),
    pa.duration("us"): st.timedeltas(timedelta(-(10**6)), timedelta(10**6)),
    pa.decimal128(20, 3): st.decimals(-1000, 1000, places=3),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b", "c"]),
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(0, 9), max_size=3),
    pa.large_list(pa.string()): st.lists(st.none() | st.text(max_size=2), max_size=3),
    pa.list_(pa.decimal128(20, 3)): st.lists(st.decimals(-9, 9, places=3), max_size=2),
    pa.list_(pa.int32(), 2): st.lists(st.integers(0, 9), min_size=2, max_size=2),
    pa.map_(pa.string(), pa.int8()): st.dictionaries(st.text(max_size=2), st.integers(0, 9)).map(
        lambda found: list(found.items())
    ),
    pa.struct({"a": pa.string(), "b": pa.list_(pa.int8())}): st.fixed_dictionaries(
        {"a": st.none() | st.text(max_size=3), "b": st.none() | st.lists(st.integers(0, 9))}
    ),
}


@given(data=st.data())
@settings(max_examples=examples(100))
def test_rows_are_those_of_pyarrow(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 12))
    kinds = data.draw(st.lists(st.sampled_from(list(SCALARS)), min_size=1, max_size=4))
    values = (st.lists(st.none() | SCALARS[kind], min_size=count, max_size=count) for kind in kinds)
    columns = [pa.array(data.draw(each), kind) for kind, each in zip(kinds, values, strict=True)]
    start = data.draw(st.integers(0, count))
    names = st.lists(st.text(max_size=3), min_size=len(kinds), max_size=len(kinds), unique=True)
    batch = pa.record_batch(columns, data.draw(names))
    batch = batch.slice(start, data.draw(st.integers(0, count - start)))
    assert _made(lambda: rows(batch)) == _made(batch.to_pylist)


def _made(make: Any) -> str:
    try:
        return repr(make())
    except (OverflowError, ValueError) as error:
        return repr(error)


def test_rows_of_each_type_are_those_of_pyarrow() -> None:
    for name in arrow_types.ALL:
        for batch in arrow_types.batches(name):
            names = ["in", "\0"]
            nested = pa.StructArray.from_arrays([batch["x"], batch["k"]], names)
            if "union" not in name:
                batch = batch.append_column("s", nested)
            assert repr(rows(batch)) == repr(batch.to_pylist()), name
