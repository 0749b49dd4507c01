"""Lookup joins: values by keys, looked up once in a batch, and kept for a while."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import GraphError, OperatorError
from engine.graph.context import TaskContext
from engine.testing import run
from operators import Cache, Lookup, Stream, source
from operators.lookup_join import LookupJoin
from operators.sinks import Collect
from operators.sources import Collection

CITIES = {"ann": "Oslo", "bob": "Rome", ("eve", 1): "Bonn", 7: "Lima"}
SECOND = timedelta(seconds=1)


def found(stream: Stream[Any], **settings: Any) -> list[Any]:
    return list(run(stream.sink(Collect()), **settings)["collect"])


class Table(Lookup):
    """Cities, as a database has them."""

    def __init__(self) -> None:
        self.is_open = False

    def open(self) -> None:
        self.is_open = True

    def find(self, keys: list[Any]) -> Mapping[Any, Any]:
        assert self.is_open
        assert len(set(keys)) == len(keys)
        return {key: CITIES[key] for key in keys if key in CITIES}


@pytest.mark.parametrize("lookup", [CITIES, MappingProxyType(CITIES), CITIES.get, Table()])
@pytest.mark.parametrize("cache", [None, Cache(1), Cache(100), Cache(2, SECOND)])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_record_with_its_value(lookup: Any, cache: Any, parallelism: int) -> None:
    names = ["ann", "cid", "bob", "ann", 7, 7.0] * 20
    stream = source(Collection([(name, at) for at, name in enumerate(names)]))
    settings = {"batch_size": 7, "parallelism": parallelism}
    pairs = [((name, at), CITIES.get(name)) for at, name in enumerate(names)]
    inner = found(stream.lookup_join(lookup, 0, cache=cache), **settings)
    assert sorted(inner, key=lambda pair: pair[0][1]) == [pair for pair in pairs if pair[1]]
    left = found(stream.lookup_join(lookup, 0, cache=cache, how="left"), **settings)
    assert sorted(left, key=lambda pair: pair[0][1]) == pairs


def test_keys_are_items_or_functions() -> None:
    dicts = source(Collection([{"name": "eve", "n": 1}]))
    assert found(dicts.lookup_join(CITIES, ("name", "n"), lambda _, city: city)) == ["Bonn"]
    assert found(dicts.lookup_join(CITIES, lambda record: record["n"] + 6, max_city)) == ["Lima"]
    assert found(source(Collection(["ann"])).lookup_join(CITIES, None)) == [("ann", "Oslo")]


def max_city(_: Any, city: str) -> str:
    return city


class Counting:
    """Counts how often each key is looked up, and has another value each time."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, key: Any) -> Any:
        self.calls.append(key)
        return None if key == "none" else (key, len(self.calls))


def opened(lookup: Any, cache: Cache | None) -> Any:
    context = TaskContext("t", 0, 1, 100, "job")
    return LookupJoin(lookup, None, how="left", cache=cache).open(context)


def test_a_key_is_looked_up_once_in_a_batch_and_in_its_time() -> None:
    now = [0]
    lookup = Counting()
    context = TaskContext("t", 0, 1, 100, "job", now_ns=lambda: now[0])
    cache = Cache(100, timedelta(seconds=10))
    function = LookupJoin(lookup, None, how="left", cache=cache).open(context)
    first = function.process(["a", "none", "a", "b"])
    assert first == [("a", ("a", 1)), ("none", None), ("a", ("a", 1)), ("b", ("b", 3))]
    now[0] = 9_999_999_999
    assert function.process(["a", "none", "c"]) == [
        ("a", ("a", 1)),
        ("none", None),
        ("c", ("c", 4)),
    ]
    now[0] = 10_000_000_000
    assert function.process(["a", "c"]) == [("a", ("a", 5)), ("c", ("c", 4))]
    assert lookup.calls == ["a", "none", "b", "c", "a"]


def test_without_a_cache_each_batch_looks_up() -> None:
    lookup = Counting()
    function = opened(lookup, None)
    function.process(["a", "a"])
    function.process(["a"])
    assert lookup.calls == ["a", "a"]


@settings(deadline=None)
@given(
    size=st.integers(1, 4),
    batches=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6), max_size=12),
)
def test_the_cache_keeps_what_was_used_last(size: int, batches: list[list[int]]) -> None:
    lookup = Counting()
    function = opened(lookup, Cache(size))
    used: list[int] = []  # what was used last at the end
    for batch in batches:
        lookup.calls.clear()
        function.process(batch)
        keys = list(dict.fromkeys(batch))
        kept = used[-size:]
        assert lookup.calls == [key for key in keys if key not in kept]
        for key in [*(each for each in keys if each in kept), *lookup.calls]:
            used = [*(each for each in used if each != key), key]
        assert len(function._kept._values) <= size


def test_a_key_that_is_nan() -> None:
    lookup = Counting()
    function = opened(lookup, Cache(10))
    for _ in range(3):
        function.process([float("nan"), float("nan")])
    assert len(lookup.calls) == 1


def test_what_fails_is_told_with_its_record() -> None:
    stream = source(Collection([("ann", 1), ("bob", 2)]))
    with pytest.raises(OperatorError, match="ConnectionError: no such host") as caught:
        run(stream.lookup_join(unreachable, 1).sink(Collect()))
    assert caught.value.record == "('ann', 1)"
    with pytest.raises(OperatorError, match="IndexError") as caught:
        run(stream.lookup_join(CITIES, 5).sink(Collect()))
    assert caught.value.record == "('ann', 1)"
    with pytest.raises(OperatorError, match="not hashable"):
        run(source(Collection([[1], [2]])).lookup_join(CITIES, None).sink(Collect()))
    with pytest.raises(OperatorError, match=r"Odd\.find\(\) gave list \[1\], expected a dict"):
        run(stream.lookup_join(Odd(), 0).sink(Collect()))


NAMES = ["ann", "cid", None, "bob", "ann", "eve"] * 20


def rows(stream: Stream[Any], **settings: Any) -> list[dict[str, Any]]:
    return [row for batch in found(stream, **settings) for row in batch.to_pylist()]


@pytest.mark.table(3)
@pytest.mark.parametrize("lookup", [CITIES, CITIES.get, Table()])
@pytest.mark.parametrize("cache", [None, Cache(1), Cache(100), Cache(2, SECOND)])
@pytest.mark.parametrize(("batch_size", "parallelism"), [(1, 1), (7, 3), (1000, 2)])
def test_values_beside_columns(lookup: Any, cache: Any, batch_size: int, parallelism: int) -> None:
    names = pa.array(NAMES)
    for column in (names, names.dictionary_encode()):
        batch = pa.record_batch({"name": column, "at": range(len(NAMES))})
        stream = source(Collection([batch, batch.slice(0, 0)]))
        settings = {"batch_size": batch_size, "parallelism": parallelism}
        left = rows(stream.lookup_join(lookup, "name", cache=cache, how="left"), **settings)
        assert sorted(left, key=lambda row: row["at"]) == [
            {"name": name, "at": at, "value": CITIES.get(name)} for at, name in enumerate(NAMES)
        ]
        inner = rows(stream.lookup_join(lookup, "name", cache=cache), **settings)
        assert sorted(row["at"] for row in inner) == [row["at"] for row in left if row["value"]]
        assert all(row["value"] == CITIES[row["name"]] for row in inner)


def test_columns_of_keys() -> None:
    batch = pa.record_batch({"n": [1.0, 7.0, float("nan")], "name": ["eve", "bob", None]})
    stream = source(Collection([batch]))
    table = {**CITIES, float("nan"): "Pisa", None: "Riga"}
    assert [row["value"] for row in rows(stream.lookup_join(table, ("name", "n")))] == ["Bonn"]
    assert [row["value"] for row in rows(stream.lookup_join(table, 1))] == ["Rome", "Riga"]
    assert [row["value"] for row in rows(stream.lookup_join(CITIES, "n"))] == ["Lima"]
    nan = rows(stream.lookup_join(dict_key_is_nan, "n"))
    assert len(nan) == 1


def dict_key_is_nan(key: float) -> bool | None:
    return True if key != key else None


def test_a_column_of_values_beside_one_of_that_name() -> None:
    batch = pa.record_batch({"value": ["ann", "bob"]})
    details = {"ann": {"city": "Oslo", "n": 1}, "bob": {"city": "Rome", "n": None}}
    joined = source(Collection([batch])).lookup_join(details, "value")
    assert rows(joined, parallelism=2) == [
        {"value": name, "value_right": details[name]} for name in ("ann", "bob")
    ]


def test_values_of_a_type_that_is_told() -> None:
    batch = pa.record_batch({"name": ["cid", "ann", "bob"]})
    joined = source(Collection([batch])).lookup_join(
        {"ann": 1, "bob": 2.5}, "name", how="left", value_type=pa.float64()
    )
    batches = found(joined.rebalance(), batch_size=1, parallelism=2)
    assert {batch.schema.field("value").type for batch in batches} == {pa.float64()}
    values = [value for batch in batches for value in batch["value"].to_pylist()]
    assert sorted(map(str, values)) == ["1.0", "2.5", "None"]


def test_values_that_are_no_column_are_told() -> None:
    stream = source(
        Collection([pa.record_batch({"name": ["ann"]}), pa.record_batch({"name": [1]})])
    )
    with pytest.raises(OperatorError, match=r"expected all of type string: .*"):
        run(stream.lookup_join({"ann": "Oslo", 1: 5}, "name").sink(Collect()), batch_size=1)
    with pytest.raises(OperatorError, match="no column, expected all of one type"):
        run(stream.lookup_join({"ann": object(), 1: 5}, "name").sink(Collect()))
    lists = source(Collection([pa.record_batch({"name": [["ann"]]})]))
    with pytest.raises(OperatorError, match=r"column 'name' of type list<.*> holds no keys"):
        run(lists.lookup_join(CITIES, "name").sink(Collect()))
    with pytest.raises(OperatorError, match="the key is column 'id', and there are name"):
        run(stream.lookup_join(CITIES, "id").sink(Collect()))
    with pytest.raises(OperatorError, match="ConnectionError: no such host") as caught:
        run(stream.lookup_join(unreachable, "name").sink(Collect()))
    assert caught.value.record == "'ann'"


DAY, MOMENT = date(2026, 1, 1), datetime(2026, 1, 1, 5)


@pytest.mark.parametrize(
    ("first", "then", "kind"),
    [
        (1, 2.5, pa.float64()),
        ([1], [2.5], pa.list_(pa.float64())),
        ({"x": 1}, {"x": 2.5}, pa.struct([("x", pa.float64())])),
        ({"x": 1}, {"x": 1, "y": 2}, pa.struct([("x", pa.int64()), ("y", pa.int64())])),
        ([{"x": 1}], [{"y": 2}], pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())]))),
        (1, 2**70, pa.decimal128(38)),
        (DAY, MOMENT, None),
        ({"at": DAY}, {"at": MOMENT}, None),
    ],
)
def test_a_later_value_is_never_cut_off(first: Any, then: Any, kind: pa.DataType | None) -> None:
    stream = source(Collection([pa.record_batch({"name": ["ann", "bob"]})]))
    values = {"ann": first, "bob": then}
    with pytest.raises(OperatorError, match=r"no column, expected all of type .*") as caught:
        run(stream.lookup_join(values, "name").sink(Collect()), batch_size=1)
    assert "TypeError: lookup_join() found" in str(caught.value)
    assert "\n\nhint: value_type=" in str(caught.value)
    if kind is not None:
        told = rows(stream.lookup_join(values, "name", value_type=kind), batch_size=1)
        assert [row["value"] for row in told] == pa.array([first, then], kind).to_pylist()


@pytest.mark.parametrize("values", [[2**63], [1, 2**70], [{"n": 2**70}], [DAY, MOMENT]])
def test_values_of_one_batch_that_no_type_holds_are_told(values: list[Any]) -> None:
    stream = source(Collection([pa.record_batch({"at": range(len(values))})]))
    with pytest.raises(OperatorError, match="no column, expected all of one type") as caught:
        run(stream.lookup_join(dict(enumerate(values)), "at").sink(Collect()))
    assert "\n\nhint: value_type=" in str(caught.value)


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2.5, NAN], [1.0, 2.5, NAN]),
        ([[1, NAN], None, [2.5]], [[1.0, NAN], None, [2.5]]),
        ([(1, 2), (3,)], [[1, 2], [3]]),
        ([np.array([1, 2]), np.array([], np.int64)], [[1, 2], []]),
        ([np.array([1.5, np.nan], np.float32)], [[1.5, NAN]]),
        ([np.int32(5), np.int32(6)], [5, 6]),
        ([np.float32(0.1), np.float32("nan")], [float(np.float32(0.1)), NAN]),
        ([np.datetime64("2026-01-01T05", "us")], [MOMENT]),
        ([np.datetime64("2026-01-01T05", "ns")], [MOMENT]),
        ([np.array(["2026-01-01T05"], "M8[ns]")], [[MOMENT]]),
        ([pa.scalar(5), pa.scalar(6)], [5, 6]),
        ([pa.scalar({"a": [1]})], [{"a": [1]}]),
        ([{5}, {6, 7}, {"a": 8}.values()], [[5], [6, 7], [8]]),
        ([{"a": 1}, {"b": (2.5,)}], [{"a": 1, "b": None}, {"a": None, "b": [2.5]}]),
        ([{"a": {"b": NAN}}, {"a": {}}], [{"a": {"b": NAN}}, {"a": {"b": None}}]),
        ([b"a", bytearray(b"b")], [b"a", b"b"]),
    ],
)
def test_values_of_one_batch_that_are_a_column(values: list[Any], expected: list[Any]) -> None:
    stream = source(Collection([pa.record_batch({"at": range(len(values))})]))
    found = rows(stream.lookup_join(dict(enumerate(values)).get, "at", how="left"))
    assert repr([row["value"] for row in found]) == repr(expected)


def unreachable(key: Any) -> Any:
    raise ConnectionError("no such host")


class Odd(Lookup):
    def find(self, keys: list[Any]) -> Any:
        return [1]


def test_what_cannot_work_is_refused() -> None:
    stream = source(Collection([1]))
    with pytest.raises(GraphError, match="expected a dict, a function or a Lookup"):
        stream.lookup_join(5, 0)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="how='full', expected one of 'inner', 'left'"):
        stream.lookup_join(CITIES, 0, how="full")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="got cache=100, expected a Cache"):
        stream.lookup_join(CITIES, 0, cache=100)  # type: ignore[arg-type]
    with pytest.raises(
        GraphError, match="got value_type=<class 'str'>, expected a type of PyArrow"
    ):
        stream.lookup_join(CITIES, 0, value_type=str)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="size"):
        Cache(0)
    with pytest.raises(GraphError, match="ttl"):
        Cache(1, timedelta(0))
    with pytest.raises(GraphError, match="got -1, expected an index"):
        stream.lookup_join(CITIES, -1)
