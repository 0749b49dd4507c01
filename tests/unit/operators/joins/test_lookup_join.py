"""Lookup joins: values by keys, looked up once in a batch, and kept for a while."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import GraphError, OperatorError
from engine.graph.operator import TaskContext
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
    def broken(key: Any) -> Any:
        raise ConnectionError("no such host")

    stream = source(Collection([("ann", 1), ("bob", 2)]))
    with pytest.raises(OperatorError, match="ConnectionError: no such host") as caught:
        run(stream.lookup_join(broken, 1).sink(Collect()))
    assert caught.value.record == "('ann', 1)"
    with pytest.raises(OperatorError, match="IndexError") as caught:
        run(stream.lookup_join(CITIES, 5).sink(Collect()))
    assert caught.value.record == "('ann', 1)"
    with pytest.raises(OperatorError, match="not hashable"):
        run(source(Collection([[1], [2]])).lookup_join(CITIES, None).sink(Collect()))
    with pytest.raises(OperatorError, match=r"Odd\.find\(\) gave list \[1\], expected a dict"):
        run(stream.lookup_join(Odd(), 0).sink(Collect()))
    batch = pa.RecordBatch.from_pylist([{"name": "ann"}])
    with pytest.raises(OperatorError, match=r"call \.to_records\(\) before \.lookup_join\(\)"):
        run(source(Collection([batch])).lookup_join(CITIES, "name").sink(Collect()))


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
    with pytest.raises(GraphError, match="size"):
        Cache(0)
    with pytest.raises(GraphError, match="ttl"):
        Cache(1, timedelta(0))
    with pytest.raises(GraphError, match="got -1, expected an index"):
        stream.lookup_join(CITIES, -1)
