"""Which records travel, and what is said about those that do not."""

import datetime as dt
import decimal
import math
import uuid
from typing import Any

import numpy as np
import pytest

from engine.network import Batch, DecodeError, EncodeError, partition
from engine.record import dict_key


def roundtrip(*records: Any) -> list[Any]:
    return Batch.from_list(list(records)).to_list()


@pytest.mark.parametrize(
    "record",
    [
        None,
        True,
        (1, "word", 2.5, b"bytes"),
        [],
        {"nested": [{"a": ({1}, frozenset([2]))}]},
        2**63,
        -(2**63) - 1,
        10**400,
        -(10**400),
        "ü" * 300,
        "\ud800",
        "x" * 70_000,
        b"x" * 70_000,
        list(range(70_000)),
        dict.fromkeys(range(70_000)),
        dt.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=dt.timezone.utc),
        dt.timezone(dt.timedelta(0), "UTC"),
        decimal.Decimal("1.500"),
        decimal.Decimal("-0"),
        uuid.UUID(int=7),
        np.str_("a\0"),
        np.bytes_(b"a\0"),
        np.longlong(3),
        np.float16(1.5),
        np.void(b"ab"),
        np.datetime64("2020-01-01T00:00:00.000000001"),
    ],
    ids=lambda record: repr(record)[:30],
)
def test_a_record_arrives_as_it_was_sent(record: Any) -> None:
    (arrived,) = roundtrip(record)
    assert arrived == record
    assert type(arrived) is type(record)
    assert repr(arrived) == repr(record)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::3],
        np.array(7, dtype=">i2"),
        np.empty((0, 3), dtype="float32"),
        np.array(["a", "bcd"]),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([(1, 2)], dtype=np.dtype([("a", "i1"), ("b", "i8")], align=True)),
    ],
    ids=lambda array: str(array.dtype),
)
def test_an_array_arrives_writable_with_its_dtype_shape_and_order(array: Any) -> None:
    (arrived,) = roundtrip(array)
    assert arrived.dtype == array.dtype
    assert arrived.shape == array.shape
    assert arrived.flags.f_contiguous == (array.flags.f_contiguous or array.ndim < 2)
    assert arrived.flags.writeable
    assert (arrived == array).all()


def test_all_nan_are_one_key_of_a_dict() -> None:
    first, second = roundtrip(math.nan, (float("-nan"),))
    assert math.isnan(first)
    assert {first, second[0]} == {first}


def test_equal_short_texts_are_one_object() -> None:
    first, second = roundtrip("a word", "a word")
    assert first is second


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (type("Words", (list,), {})(), "list(value)"),
        (type("Number", (int,), {})(1), "int(value)"),
        (type("Table", (dict,), {})(a=1), "dict(value)"),
        (iter([]), "flat_map"),
        (object(), "parts"),
        (np.array([object()]), "tolist()"),
        (np.array(["a"], dtype=np.dtypes.StringDType()), "astype"),
        (dt.datetime(2020, 1, 1, tzinfo=type("Zone", (dt.tzinfo,), {})()), "astimezone"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_arrive_as_it_was_sent_is_refused(record: Any, expected: str) -> None:
    with pytest.raises(EncodeError) as raised:
        roundtrip("fine", ("inside", record))
    message = str(raised.value)
    assert message.startswith("record 1 of the batch, ('inside', ")
    assert expected in message[message.index("\n\nhint: ") :]


def test_the_record_in_a_message_is_shortened() -> None:
    with pytest.raises(EncodeError) as raised:
        roundtrip(("x" * 1_000_000, object()))
    assert len(str(raised.value)) < 1000


def test_a_record_that_contains_itself_is_refused() -> None:
    record: list[Any] = []
    record.append(record)
    with pytest.raises(EncodeError, match="does it contain itself"):
        roundtrip(record)


def test_deep_records_travel_up_to_the_limit() -> None:
    record: Any = 1
    for _ in range(100):
        record = [(record,)]
    assert roundtrip(record) == [record]


def test_an_exception_of_the_users_own_passes_unchanged() -> None:
    class Zone(dt.tzinfo):
        def __repr__(self) -> str:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        roundtrip(dt.datetime(2020, 1, 1, tzinfo=Zone()))


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (b"", 1, "1 values in 0 bytes"),
        (b"\x01\x02", 1, "1 bytes follow"),
        (b"\xa5ab", 1, "past the end"),
        (b"\xc1", 1, "starts no value"),
        (b"\xa1\xff", 1, "utf-8"),
        (b"\xdd\xff\xff\xff\xff\x00", 1, "4294967295 values"),
        (b"\x91" * 300 + b"\xc0", 1, "nested too deeply"),
        (b"\x81\x80\x01", 1, "unhashable"),
        (b"\xc7\x02\x02\x91\x80", 1, "unhashable"),
        (b"\xd4\x7f\x00", 1, "extension code 127"),
        (b"\xd4\x11\x00", 1, "extension 17"),
        (b"\xc7\x00\x04", 1, "sign"),
        (b"\xd4\x01\x07", 1, "list"),
        (b"\xc7\x03\x01\x91\x01\x02", 1, "follow"),
    ],
)
def test_bytes_that_are_no_records_are_refused(data: bytes, count: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        Batch.from_bytes(data, count).to_list()


def test_a_payload_does_not_make_objects_of_its_bytes() -> None:
    head = repr(("|O", (1,), "C")).encode()
    payload = len(head).to_bytes(4, "little") + head + bytes(8)
    data = b"\xc7" + bytes([len(payload), 49]) + payload
    with pytest.raises(DecodeError, match="has objects"):
        Batch.from_bytes(data, 1).to_list()


@pytest.mark.parametrize(
    ("key", "equal"),
    [
        (np.longdouble(2), 2),
        (np.longdouble(0.1), 0.1),
        (np.longdouble(2**63 + 1), 2**63 + 1),
        (np.longdouble("1e4000"), int(np.longdouble("1e4000"))),
        (np.longdouble("-inf"), float("-inf")),
        (np.clongdouble(2**60), 2**60),
        (np.clongdouble(1 + 2j), 1 + 2j),
        (np.longdouble("0.1"), np.longdouble("0.1")),
        (np.complex64(2), 2.0),
        (np.float16(0.5), decimal.Decimal("0.5")),
        ("\ud800", "\ud800"),
    ],
    ids=repr,
)
def test_equal_keys_go_to_one_task(key: Any, equal: Any) -> None:
    assert key == equal
    assert len(set(partition([key, equal], 1_000_003))) == 1


def test_a_key_as_a_dict_finds_it_again() -> None:
    for key in ("a", 1, 1.5, b"a", None, (), (1, ("a",)), frozenset([1]), decimal.Decimal(1), 1j):
        assert dict_key(key) is key
    assert dict_key((1, (decimal.Decimal("sNaN"), 2))) == (1, (math.nan, 2))
    assert dict_key(frozenset([np.float64("nan")])) == frozenset([math.nan])
    unhashable = [1]
    assert dict_key(unhashable) is unhashable
