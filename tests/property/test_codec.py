"""What goes into a channel comes out of it, type included; equal keys go to one task."""

import contextlib
import copy
import datetime as dt
import math
import struct
import zoneinfo
from collections import defaultdict
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.network import Aggregate, Batch, DecodeError, encode_parts, partition

integers = st.integers() | st.integers(-(2**70), 2**70) | st.integers(-300, 300)
texts = st.text() | st.text(st.characters(), max_size=3)
timezones = st.sampled_from(
    [dt.timezone.utc, dt.timezone(dt.timedelta(hours=-3), "X"), zoneinfo.ZoneInfo("Europe/Berlin")]
)
comparable = st.none() | st.booleans() | integers | st.floats() | texts | st.binary() | st.dates()
scalar_dtypes = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes()
    | hnp.floating_dtypes()
    | hnp.complex_number_dtypes()
    | hnp.datetime64_dtypes()
    | hnp.timedelta64_dtypes()
)
array_dtypes = (
    scalar_dtypes
    | hnp.unicode_string_dtypes()
    | hnp.byte_string_dtypes()
    | hnp.array_dtypes(scalar_dtypes)
)
numpy_values = scalar_dtypes.flatmap(hnp.from_dtype) | array_dtypes.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
scalars = (
    comparable
    | st.datetimes(timezones=st.none() | timezones)
    | st.times(timezones=st.none() | timezones)
    | st.timedeltas()
    | st.uuids()
    | st.decimals()
    | st.complex_numbers()
    | st.binary().map(bytearray)
    | timezones
)
hashable = st.recursive(
    comparable,
    lambda inner: st.tuples(inner) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
records = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
        | st.frozensets(hashable, max_size=4)
    ),
    max_leaves=10,
)


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same type all the way down; NaN equals NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, set | frozenset):
        return same(sorted(left, key=repr), sorted(right, key=repr))
    if isinstance(left, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or struct.pack("d", left) == struct.pack("d", right)
    if isinstance(left, complex):
        return same((left.real, left.imag), (right.real, right.imag))
    if isinstance(left, dt.datetime | dt.time):
        return same_time(left, right)
    return repr(left) == repr(right) and (isinstance(left, Decimal) or left == right)


def same_time(left: Any, right: Any) -> bool:
    naive = left.replace(tzinfo=None) == right.replace(tzinfo=None)
    return naive and repr(left.tzinfo) == repr(right.tzinfo) and left.fold == right.fold


@given(names=st.lists(st.text(max_size=40), max_size=9, unique=True), times=st.integers(1, 3))
def test_names_that_came_before_are_encoded_as_new_ones(names: list[str], times: int) -> None:
    expected = b"".join(encode_parts({str(name.encode(), "utf8"): 1 for name in names}))
    for _ in range(times):
        assert b"".join(encode_parts(dict.fromkeys(names, 1))) == expected


def test_more_names_than_are_kept_arrive_as_they_were_sent() -> None:
    names = [f"name {number}" for number in range(5000)]
    records = [{name: number} for number, name in enumerate(names)]
    for _ in range(2):
        assert Batch.from_list(records).to_list() == records
    assert Batch.from_list([dict.fromkeys(names, "a")]).to_list() == [dict.fromkeys(names, "a")]


@given(st.lists(records, max_size=5))
def test_records_arrive_as_they_were_sent(batch: list[Any]) -> None:
    encoded = Batch.from_list(batch)
    assert len(encoded) == len(batch)
    assert same(encoded.to_list(), batch)
    assert same(encoded.to_list(), batch)


@given(numpy_values)
def test_numpy_values_arrive_as_they_were_sent(value: Any) -> None:
    (arrived,) = Batch.from_list([value]).to_list()
    assert type(arrived) is type(value)
    assert arrived.dtype == value.dtype
    assert arrived.dtype.char == value.dtype.char or isinstance(value, np.ndarray)
    assert arrived.shape == value.shape
    assert np.asarray(arrived).tobytes() == np.asarray(value).tobytes()


@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_bytes_are_records_or_an_error(data: bytes, count: int) -> None:
    # An extension of code 2 is a set: its payload is decoded as it stands.
    payload = b"\xc7" + bytes([len(data)]) + b"\x02" + data
    batch = Batch.from_bytes(payload, 1)
    with contextlib.suppress(DecodeError):
        assert len(batch.to_list()) == 1
    with contextlib.suppress(DecodeError):
        assert len(Batch.from_bytes(data, count).to_list()) == count


@given(hashable, st.integers(1, 1000))
def test_equal_keys_go_to_one_task(key: Any, channels: int) -> None:
    (target,) = partition([key], channels)
    assert 0 <= target < channels
    assert partition([copy.deepcopy(key)], channels) == [target]
    assert partition(Batch.from_list([key]).to_list(), channels) == [target]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**80), 2**80).map(float))
def test_equal_numbers_are_one_key(number: float) -> None:
    keys: list[Any] = [number, np.float64(number), Decimal(number), complex(number)]
    if number.is_integer():
        keys += [int(number), Decimal(int(number))]
    if number in (0, 1):
        keys += [bool(number), np.int8(number), np.bool_(number)]
    if number == 0:
        keys += [0.0, -0.0]
    assert len(set(keys)) == 1
    assert len(set(partition(keys, 1 << 60))) == 1
    assert len(set(partition([(key, "x") for key in keys], 1 << 60))) == 1
    assert len(set(partition([frozenset([key, "x"]) for key in keys], 1 << 60))) == 1


@given(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=timezones))
def test_equal_times_are_one_key(moment: dt.datetime) -> None:
    keys = [moment, moment.astimezone(dt.timezone(dt.timedelta(hours=5)))]
    if keys[0] == keys[1]:  # not so in the hour that a change of the clocks skips
        assert len(set(partition(keys, 1 << 60))) == 1


keys = st.sampled_from([0, 1, True, 1.0, -0.0, 2.5, "a", "b", b"a", None, 10**20, 1e20, (1, "a")])
keys |= st.sampled_from([(1.0, "a"), (), math.nan, dt.date(2020, 1, 1), "ü", "\ud800", -(2**63)])
numbers = st.integers(-(2**64), 2**64) | st.floats(allow_nan=False) | st.booleans()


@given(st.lists(st.lists(st.tuples(keys, numbers), max_size=20), max_size=4))
@pytest.mark.parametrize("kind", ["count", "sum", "min", "max", "mean", "first"])
def test_aggregates_do_what_a_dict_does(kind: str, batches: list[list[tuple[Any, Any]]]) -> None:
    aggregate, at_last = (Aggregate([[0]], [(kind, [1])]) for _ in range(2))
    beside = Aggregate([[0]], [("count", []), (kind, [1])], ["n", "value"])
    nan = Batch.from_list([math.nan]).to_list()[0]
    values: dict[Any, list[Any]] = {}
    for batch in batches:
        touched: dict[Any, None] = {}
        for key, value in batch:
            key = nan if key is math.nan else key
            if kind != "first" or key not in values:
                touched[key] = None
            values.setdefault(key, []).append(value)
        encoded = Batch.from_list(batch)
        at_last.add(encoded)
        beside.update(encoded)
        expected = [
            (key, _aggregated(kind, values[key])) for key in _first_spelling(values, touched)
        ]
        assert same(aggregate.update(encoded), expected)
    expected = [(key, _aggregated(kind, found)) for key, found in values.items()]
    assert same(_in_parts(at_last, 3), expected)
    assert len(aggregate) == len(values)
    beside.add(Batch.from_list([(key, 0) for key in values]))
    counts = [(key, pair["n"]) for key, pair in _in_parts(beside, 1)]
    assert same(counts, [(key, len(found) + 1) for key, found in values.items()])


def _aggregated(kind: str, values: list[Any]) -> Any:
    if kind == "count":
        return len(values)
    if kind == "first":
        return values[0]
    if kind in ("min", "max"):
        return {"min": min, "max": max}[kind](values)
    total = int(values[0]) if isinstance(values[0], bool) else values[0]
    for value in values[1:]:  # not sum(), which compensates for rounding
        total += value
    return total if kind == "sum" else total / len(values)


def _in_parts(aggregate: Aggregate, most: int) -> list[Any]:
    """What it has come to, asked for some keys at a time."""
    found: list[Any] = []
    while part := aggregate.updates(len(found), most):
        assert len(part) <= most
        found += part
    return found


def _first_spelling(expected: dict[Any, Any], touched: dict[Any, Any]) -> list[Any]:
    """The keys of `touched` as they were first spelled: 1 may have come before True."""
    spelling = {key: key for key in expected}
    return [spelling[key] for key in touched]


@given(st.lists(st.tuples(st.text(max_size=2), st.text() | st.just("")), max_size=30))
def test_text_is_ordered_by_code_points(records: list[tuple[str, str]]) -> None:
    greatest: defaultdict[str, str] = defaultdict(str)
    for key, value in records:
        greatest[key] = max(greatest[key], value)
    aggregate = Aggregate([[0]], [("max", [1])])
    assert dict(aggregate.update(Batch.from_list(records))) == greatest
