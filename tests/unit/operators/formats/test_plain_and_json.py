"""Messages as bytes, texts and JSON: what each becomes, and what is rejected and why."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pytest

from engine.graph.failing import FailureContext
from operators.formats import Bytes, Format, Json, Text

DEEP = b"[" * 100_000

GOOD: list[tuple[Format, bytes | None, Any]] = [
    (Bytes(), b"\xff\x00", b"\xff\x00"),
    (Bytes(), b"", b""),
    (Bytes(), None, None),
    (Text(), "größer €".encode(), "größer €"),
    (Text(), b"", ""),
    (Text(), None, None),
    (Json(), b'{"a": 1, "b": [1.5, null, true]}', {"a": 1, "b": [1.5, None, True]}),
    (Json(), b" [1] \n", [1]),
    (Json(), b"null", None),
    (Json(), None, None),
    (Json(), b"123456789012345678901234567890", 123456789012345678901234567890),
    (Json(), b'{"a": 1, "a": 2}', {"a": 2}),
    (Json(), '"größer"'.encode(), "größer"),
    (Json(), rb'"\ud83d\ude00\u00e4"', "😀ä"),
]
BAD: list[tuple[Format, bytes, str]] = [
    (Text(), b"ab\xffcd", "not UTF-8: byte 0xff at place 2"),
    (Text(), b"\xc3", "not UTF-8: byte 0xc3 at place 0"),
    (Json(), b"", "empty"),
    (Json(), b" \n", "empty"),
    (Json(), b'{"a": 1', "not JSON: Expecting ',' delimiter: line 1 column 8 (char 7)"),
    (Json(), b'{"a": 1}}', "not JSON: Extra data: line 1 column 9 (char 8)"),
    (Json(), b'{"a": 1}\n{"a": 2}', "not JSON: Extra data: line 2 column 1 (char 9)"),
    (Json(), b'{"a": NaN}', "not JSON: NaN is no value in it"),
    (Json(), b"-Infinity", "not JSON: -Infinity is no value in it"),
    (Json(), b'{"a": "\xff"}', "not UTF-8: byte 0xff at place 7"),
    (Json(), b'\xef\xbb\xbf{"a": 1}', "not JSON: "),
    (Json(), '{"a": 1}'.encode("utf-16-le"), "not JSON: "),
    (Json(), rb'{"a": "\ud800"}', "not JSON: half of a surrogate pair"),
    (Json(), DEEP, "not JSON that can be read: it is nested too deeply"),
    (Json(), b"1" * 5000, "not JSON: "),
    (Json(), b'{"a": 01}', "not JSON: "),
    (Json(), b"{'a': 1}", "not JSON: "),
]


@pytest.mark.parametrize(("kind", "message", "record"), GOOD)
def test_a_message_becomes_a_record(kind: Format, message: bytes | None, record: Any) -> None:
    assert kind.decoder()([message]) == ([record], [])


@pytest.mark.parametrize(("kind", "message", "reason"), BAD)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_no_such_message_is_rejected_with_a_reason(
    kind: Format, message: bytes, reason: str, place: int
) -> None:
    messages: list[bytes | None] = [b"1", b"2"]
    messages.insert(place, message)
    decoded, rejected = kind.decoder()(messages)
    assert len(decoded) == 2
    [(at, error)] = rejected
    assert at == place
    assert str(error).startswith(reason)


@pytest.mark.parametrize("kind", [Text(), Json()])
def test_all_may_be_rejected(kind: Format) -> None:
    decoded, rejected = kind.decoder()([b"\xff"] * 3)
    assert decoded == []
    assert [place for place, _ in rejected] == [0, 1, 2]


WRITTEN: list[tuple[Format, Any, bytes | None]] = [
    (Bytes(), b"\xff", b"\xff"),
    (Bytes(), None, None),
    (Text(), "ä", "ä".encode()),
    (Json(), {"a": [1, None, "ä"]}, '{"a":[1,null,"ä"]}'.encode()),
    (Json(), datetime.date(2026, 1, 2), b'"2026-01-02"'),
    (Json(), decimal.Decimal("1.10"), b'"1.10"'),
    (Json(), None, None),
]
REFUSED: list[tuple[Format, Any, type[Exception], str]] = [
    (Bytes(), "text", TypeError, "got str 'text', expected bytes"),
    (Text(), b"bytes", TypeError, "got bytes b'bytes', expected a text"),
    (Text(), "\ud800", UnicodeEncodeError, "surrogates not allowed"),
    (Json(), float("nan"), ValueError, "Out of range float values are not JSON compliant"),
    (Json(), {1, 2}, TypeError, "set is not JSON serializable"),
    (Json(), "\ud800", UnicodeEncodeError, "surrogates not allowed"),
]


@pytest.mark.parametrize(("kind", "record", "message"), WRITTEN)
def test_a_record_becomes_a_message(kind: Format, record: Any, message: bytes | None) -> None:
    assert kind.encoder()([record], FailureContext()) == [message]


@pytest.mark.parametrize(("kind", "record", "error", "words"), REFUSED)
def test_a_record_that_is_no_message_is_named(
    kind: Format, record: Any, error: type[Exception], words: str
) -> None:
    failing = FailureContext()
    good: Callable[[], Any] = {Bytes: lambda: b"1", Text: lambda: "1", Json: lambda: 1}[type(kind)]
    with pytest.raises(error, match=words):
        kind.encoder()([good(), record, good()], failing)
    assert failing.record == (record,)
