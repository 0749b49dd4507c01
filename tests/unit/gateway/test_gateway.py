"""Requests and responses as records, without a server."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import numpy as np
import pytest

from engine.gateway import Request

BOUNDARY = "multipart/form-data; boundary=x"


def request(body: bytes = b"", kind: str = "") -> Request:
    return Request(
        9, "POST", "/a%20b?n=", f"content-type: {kind}\r\nx: 1\r\nx: 2\r\n".encode(), body, 0
    )


def test_what_a_request_says() -> None:
    asked = request(b'{"n": [1]}', "application/json")
    assert (asked.path, asked.query) == ("/a b", {"n": ""})
    assert asked.headers == {"content-type": "application/json", "x": "1, 2"}
    assert asked.json() == {"n": [1]}
    with pytest.raises(ValueError, match="Expecting value"):
        request().json()


@pytest.mark.parametrize(
    ("value", "kind", "body"),
    [
        (b"a", "application/octet-stream", b"a"),
        (memoryview(b"ab"), "application/octet-stream", b"ab"),
        ("ä", "text/plain; charset=utf-8", "ä".encode()),
        ({"a": [1, None, "ä"]}, "application/json", '{"a":[1,null,"ä"]}'.encode()),
        (0.5, "application/json", b"0.5"),
        (date(2026, 1, 31), "application/json", b'"2026-01-31"'),
        ([np.int64(3), Decimal("1.10")], "application/json", b'[3,"1.10"]'),
        (iter(["a", date(2026, 1, 31)]), "text/event-stream", b'data: a\n\ndata: "2026-01-31"\n\n'),
    ],
)
def test_answers(value: Any, kind: str, body: bytes) -> None:
    reply = request().reply(value)
    told = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
    assert (reply.id, reply.status, told) == (9, 200, body)
    assert reply.head.startswith(f"content-type: {kind}\r\n".encode())


def test_headers_of_an_answer() -> None:
    reply = request().reply(status=204, headers={"a": "b", "c": "d"})
    assert (reply.status, reply.head, reply.body) == (204, b"a: b\r\nc: d\r\n", b"")
    reply = request().reply("<p>", headers={"Content-Type": "text/html"})
    assert reply.head == b"Content-Type: text/html\r\n"
    for name, value in (("a", "b\r\nset-cookie: c"), ("a\n", "b")):
        with pytest.raises(ValueError, match="is not one line"):
            request().reply(headers={name: value})
    with pytest.raises(TypeError):
        request().reply(object())
    with pytest.raises(ValueError, match="not JSON compliant"):
        request().reply([float("nan")])
    for name, value in (("a b", "c"), ("", "c"), ("a:", "c"), ("a", "\0"), ("a", "\x7f")):
        with pytest.raises(ValueError, match="has what no header may have"):
            request().reply(headers={name: value})


@pytest.mark.parametrize("status", [0, -1, 99, 101, 199, 600, 1 << 70, "200", 200.0, None, True])
def test_statuses_that_http_has_not(status: Any) -> None:
    with pytest.raises(ValueError, match="expected a number from 200 to 599"):
        request().reply(status=status)
    assert request().reply(status=HTTPStatus.NOT_FOUND).status == 404


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[" * 100_000, b"NaN", b"[-Infinity]", b"9" * 5000, b'{"a": 1,}', b"1 2"],
)
def test_bodies_that_are_no_json(body: bytes) -> None:
    with pytest.raises(ValueError):
        request(body).json()


def test_of_a_name_that_comes_twice_the_last_counts() -> None:
    assert request(b'{"a": 1, "a": 2}').json() == {"a": 2}


def test_headers_that_come_several_times() -> None:
    lines = b"cookie: a=1\r\nx: 1\r\ncookie: b=2; c=3\r\nx: 2\r\n"
    asked = Request(1, "GET", "/", lines, b"", 0)
    assert asked.headers == {"cookie": "a=1; b=2; c=3", "x": "1, 2"}


@pytest.mark.parametrize("target", ["//a/b?c=//d", "/[?c=//d", "/a:b@c?c=//d"])
def test_targets_are_no_addresses(target: str) -> None:
    asked = Request(1, "GET", target, b"", b"", 0)
    assert (asked.path, asked.query) == (target.partition("?")[0], {"c": "//d"})


def test_parts_of_a_form() -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="n"\r\n\r\n5\r\n'
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n\x00\xff\r\n\r\n--x--\r\n"
    )
    field, file = request(body, BOUNDARY).parts()
    assert field == ("n", None, "text/plain", b"5")
    assert file == ("f", "a.bin", "application/octet-stream", b"\x00\xff\r\n")


CONTENTS = [
    b"",
    b"\r\n",
    b"\r\n\r\n--y\r\n",
    b"a\n--x\n",
    b"\r\n--xy",
    b"\r\n--x-",
    b"\x00\xff\r\n\n\r",
    b"From: a\r\nSubject: b\r\n\r\nhello",
    b'--z\r\nContent-Disposition: form-data; name="n"\r\n\r\n5\r\n--z--\r\n',
    b"aGVsbG8=",
]
KINDS = [
    "text/plain",
    "message/rfc822",
    "multipart/mixed; boundary=z",
    "multipart/form-data; boundary=z",
    "message/delivery-status",
    "application/octet-stream",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [b"", b"\r\n", b"  \r\nwhat comes behind", b"\r\n--x\r\n\r\n"])
def test_each_part_comes_as_it_was_sent(kind: str, ending: bytes) -> None:
    head = f"content-type: {kind}\r\nContent-Transfer-Encoding: base64\r\n\r\n".encode()
    parts = [
        f'Content-Disposition: form-data; name="{n}"\r\n'.encode() + head + content
        for n, content in enumerate(CONTENTS)
    ]
    body = b"in front\r\n--x\r\n" + b"\r\n--x \t\r\n".join(parts) + b"\r\n--x--" + ending
    found = request(body, BOUNDARY).parts()
    of_kind = kind.partition(";")[0]
    assert found == [(f"{n}", None, of_kind, each) for n, each in enumerate(CONTENTS)]


@pytest.mark.parametrize(
    ("said", "name", "filename"),
    [
        ('name="a"; filename="b;c=\\"d\\".txt"', "a", 'b;c="d".txt'),
        ("name=a; filename=b", "a", "b"),
        ('name="ä"; filename="日本.txt"', "ä", "日本.txt"),
        ("name=\"a\"; filename*=UTF-8''%E6%97%A5.txt", "a", "日.txt"),
        ('filename=""; name=""', "", ""),
        ("x", "", None),
    ],
)
def test_names_of_parts(said: str, name: str, filename: str | None) -> None:
    body = f"--x\r\nContent-Disposition: form-data; {said}\r\n\r\n5\r\n--x--".encode()
    (part,) = request(body, 'Multipart/Form-Data; charset=utf-8; boundary="x"').parts()
    assert part == (name, filename, "text/plain", b"5")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"--x\r\n\r\n", BOUNDARY),
        (b"--x\r\na: b\r\n--x--", BOUNDARY),
        (b"--x--", BOUNDARY),
        (b"", BOUNDARY),
        (b"--y\r\n\r\n", BOUNDARY),
        (b"", "text/plain"),
        (b"--x", ""),
    ],
)
def test_forms_that_are_none(body: bytes, kind: str) -> None:
    with pytest.raises(ValueError, match=r"no parts|broken off|expected "):
        request(body, kind).parts()
