"""Requests and responses as records, without a server."""

from __future__ import annotations

from typing import Any

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
    ],
)
def test_answers(value: Any, kind: str, body: bytes) -> None:
    reply = request().reply(value)
    assert (reply.id, reply.status, reply.body) == (9, 200, body)
    assert reply.head == f"content-type: {kind}\r\n".encode()


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


def test_parts_of_a_form() -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="n"\r\n\r\n5\r\n'
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n\x00\xff\r\n\r\n--x--\r\n"
    )
    field, file = request(body, BOUNDARY).parts()
    assert field == ("n", None, "text/plain", b"5")
    assert file == ("f", "a.bin", "application/octet-stream", b"\x00\xff\r\n")


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"", BOUNDARY), (b"--y\r\n\r\n", BOUNDARY), (b"", "text/plain"), (b"--x", "")],
)
def test_forms_that_are_none(body: bytes, kind: str) -> None:
    with pytest.raises(ValueError, match=r"no parts|expected multipart/form-data"):
        request(body, kind).parts()
