"""Different and most frequent values over columns: what plain Python makes of all rows."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.columns import is_columns
from engine.testing import run
from operators import Count, CountDistinct, CountWindow, Session, Sliding, Top, Tumbling, source
from operators.sinks import Collect
from operators.sources import Collection
from tests.part import examples
from tests.property.test_state import cut, once, planned
from tests.windowing import us

TEXTS = st.sampled_from(["", "a", "b", "\u00fc", "twelve bytes", "x" * 22, "x" * 23, "y" * 500])
FLOATS = st.sampled_from([0.0, -0.0, 1.0, 0.5, -0.5, math.nan, math.inf, 2.0**60])
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-3, 3)),
    "int64": (pa.int64(), st.integers(-2, 2) | st.sampled_from([2**63 - 1, -(2**63), 2**40])),
    "uint64": (pa.uint64(), st.sampled_from([0, 1, 127, 128, 2**63 - 1, 2**63, 2**64 - 1])),
    "float16": (pa.float16(), st.sampled_from([0.0, -0.0, 1.0, 0.5, math.nan])),
    "float32": (pa.float32(), FLOATS),
    "float64": (pa.float64(), FLOATS | st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "null": (pa.null(), st.none()),
    "string": (pa.string(), TEXTS | st.text("ab", max_size=3)),
    "large_string": (pa.large_string(), TEXTS),
    "string_view": (pa.string_view(), TEXTS),
    "binary": (pa.binary(), TEXTS.map(str.encode)),
    "binary_view": (pa.binary_view(), TEXTS.map(str.encode)),
    "fixed_size_binary": (pa.binary(2), st.sampled_from([b"aa", b"ab", b"\0\0"])),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    "dictionary of numbers": (pa.dictionary(pa.int8(), pa.int64()), st.integers(-3, 3)),
    "date": (pa.date32(), st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 3))),
    "timestamp": (
        pa.timestamp("us"),
        st.sampled_from([dt.datetime(1900, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 4)]),
    ),
    "instant": (
        pa.timestamp("ms", "UTC"),
        st.sampled_from([dt.datetime(2024, 1, day, tzinfo=dt.timezone.utc) for day in (1, 2)]),
    ),
    "duration": (pa.duration("s"), st.sampled_from([dt.timedelta(0), dt.timedelta(days=-1)])),
}


def batches(kind: str) -> st.SearchStrategy[Any]:
    data_type, values = TYPES[kind]
    schema = pa.schema({"k": pa.string(), "x": data_type})
    row = st.fixed_dictionaries({"k": st.sampled_from("abc"), "x": values | st.none()})
    rows = st.lists(row, min_size=1, max_size=30)
    return st.lists(rows.map(lambda it: pa.RecordBatch.from_pylist(it, schema)), max_size=3)


def tops(values: Iterable[Any], most: int) -> list[Any]:
    """The most frequent values, as they first came, and how often they did."""
    counts: dict[Any, list[Any]] = {}
    for value in values:
        if value is not None:
            key = "nan" if value != value else value
            counts.setdefault(key, [value, 0])[1] += 1
    return sorted(counts.values(), key=lambda it: -it[1])[:most]


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=examples(12))
@given(data=st.data(), tasks=st.integers(1, 3), others=st.integers(1, 3))
def test_values_are_told_apart_as_in_python(
    kind: str, data: st.DataObject, tasks: int, others: int
) -> None:
    wanted: Any = {"n": CountDistinct("x"), "t": Top("x", 3), "all": Top("x", 1000)}
    flow = planned(lambda s: s.key_by("k").aggregate(**wanted, emit="final"))
    before, after = data.draw(batches(kind)), data.draw(batches(kind))
    had: dict[str, list[Any]] = {}
    for batch in [*before, *after]:
        for row in batch.to_pylist():
            had.setdefault(row["k"], []).append(row["x"])
    expected = {
        key: {"n": len(tops(own, 1000)), "t": tops(own, 3), "all": tops(own, 1000)}
        for key, own in had.items()
    }
    for found in (once(flow, before + after), cut(flow, before, after, tasks, others)):
        rows = [row for batch in found if is_columns(batch) for row in batch.to_pylist()]
        shown = {
            row["k"]: {
                "n": row["n"],
                **{name: [[*top.values()] for top in row[name]] for name in ("t", "all")},
            }
            for row in rows
        }
        assert len(rows) == len(shown)
        assert repr(sorted(shown.items())) == repr(sorted(expected.items()))


WINDOWS: dict[str, Any] = {
    "tumbling": Tumbling(us(40)),
    "sliding": Sliding(us(40), us(10)),
    "sessions": Session(us(5)),
    "counts": CountWindow(10, 4),
}


@pytest.mark.table(2)
@pytest.mark.parametrize("kind", ["int64", "float64", "string", "dictionary", "date"])
@pytest.mark.parametrize("windows", WINDOWS)
@settings(max_examples=examples(10))
@given(data=st.data())
def test_windows_of_columns_give_what_those_of_records_do(
    windows: str, kind: str, data: st.DataObject
) -> None:
    data_type, values = TYPES[kind]
    schema = pa.schema({"k": pa.string(), "x": data_type, "at": pa.int64()})
    row = st.tuples(st.sampled_from("abc"), values, st.integers(0, 120))
    given = data.draw(st.lists(row, min_size=1, max_size=60))
    dicts = [dict(zip(schema.names, each, strict=True)) for each in given]
    frames = [
        pa.RecordBatch.from_pylist(dicts[at : at + 7], schema) for at in range(0, len(dicts), 7)
    ]
    wanted: Any = {"n": Count(), "d": CountDistinct("x"), "t": Top("x", 2)}
    found = []
    for records in (dicts, frames):
        keyed = source(Collection(records)).key_by("k")
        time: Any = {} if windows == "counts" else {"time": "at"}
        flow = keyed.window(WINDOWS[windows], **time).aggregate(**wanted)
        found.append(run(flow.sink(Collect()))["collect"])
    of_records = [(key, own["n"], own["d"], own["t"]) for key, own, *_ in found[0]]
    of_columns = [
        (row["k"], row["n"], row["d"], [tuple(top.values()) for top in row["t"]])
        for batch in found[1]
        for row in batch.to_pylist()
    ]
    assert sorted(map(repr, of_records)) == sorted(map(repr, of_columns)) != []


@pytest.mark.parametrize(("keys", "values"), [(1, 100_000), (100_000, 1), (300, 300)])
@pytest.mark.parametrize("are_texts", [False, True])
def test_many_keys_and_many_values(keys: int, values: int, are_texts: bool) -> None:
    pairs = [(at % keys, at // keys) for at in range(keys * values)]
    key, value = (pa.array(each) for each in zip(*pairs, strict=True))
    if are_texts:
        value = value.cast(pa.string())
    batch = pa.RecordBatch.from_arrays([key, value], names=["k", "x"])
    keyed = source(Collection([batch, batch])).key_by("k")
    flow = keyed.aggregate(n=CountDistinct("x"), t=Top("x", 1), emit="final")
    found = pa.Table.from_batches(run(flow.sink(Collect()))["collect"])
    assert found.num_rows == keys
    assert set(found["n"].to_pylist()) == {values}
    first = "0" if are_texts else 0
    assert all(tops == [{"value": first, "count": 2}] for tops in found["t"].to_pylist())
