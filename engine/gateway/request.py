"""Requests and responses: records like others, which travel wherever the dataflow takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import HTTP
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(slots=True)
class Response:
    """The answer to a request; `Request.reply` makes it."""

    id: int
    """The request's."""
    status: int
    head: bytes
    """The headers, a line each."""
    body: bytes


class Part(NamedTuple):
    """A field or a file of a form."""

    name: str
    filename: str | None
    """None for a field."""
    content_type: str
    content: bytes


@dataclass(slots=True)
class Request:
    r"""What a client wants to know. `request.reply(value)` makes the answer.

    >>> request = Request(1, "GET", "/predict?n=3&n=4", b"accept: text/plain\r\n", b"", 0.0)
    >>> request.path, request.query, request.headers
    ('/predict', {'n': '4'}, {'accept': 'text/plain'})
    >>> request.reply({"sum": 7}).body
    b'{"sum":7}'
    """

    id: int
    """No other request of the job has it."""
    method: str
    target: str
    """Path and query, as they came."""
    head: bytes
    """The headers, a line each; see `headers`."""
    body: bytes
    deadline: float
    """When nobody waits for the answer any more, in seconds since 1970."""

    @property
    def path(self) -> str:
        """The path, decoded."""
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        """The values of the query by name, decoded; the last one where there are several."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def headers(self) -> dict[str, str]:
        """The headers by name, in lower case; of one that came several times, joined by commas."""
        found: dict[str, str] = {}
        for line in self.head.decode("latin-1").split("\r\n")[:-1]:
            name, _, value = line.partition(": ")
            found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    def text(self) -> str:
        """The body as text. Raises UnicodeDecodeError."""
        return self.body.decode()

    def json(self) -> Any:
        """What the body says in JSON. Raises ValueError."""
        return json.loads(self.body)

    def parts(self) -> list[Part]:
        """The parts of a body that is `multipart/form-data`. Raises ValueError where it is none."""
        kind = self.headers.get("content-type", "")
        if not kind.lower().startswith("multipart/form-data"):
            raise ValueError(f"content-type is {kind!r:.80}, expected multipart/form-data")
        head = f"content-type: {kind}\r\n\r\n".encode("latin-1")
        message = message_from_bytes(head + self.body, policy=HTTP)
        if not message.is_multipart() or message.defects:
            raise ValueError("the body has no parts, or is broken off")
        return [
            Part(
                str(part.get_param("name", "", "content-disposition")),
                part.get_filename(),
                part.get_content_type(),
                bytes(part.get_payload(decode=True) or b""),
            )
            for part in message.walk()
            if not part.is_multipart()
        ]

    def reply(
        self, value: Any = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """The answer: bytes and text as they are, None as an empty body, all else as JSON.

        Raises TypeError for what JSON has no words for, ValueError for a header of several lines.
        """
        kind, body = _encoded(value)
        if headers is None:
            return Response(self.id, status, kind, body)
        lines = [kind] if "content-type" not in map(str.lower, headers) else []
        for name, text in headers.items():
            if "\n" in name + text or "\r" in name + text:
                raise ValueError(f"the header {name!r}: {text!r:.80} is not one line")
            lines.append(f"{name}: {text}\r\n".encode("latin-1"))
        return Response(self.id, status, b"".join(lines), body)


def _encoded(value: Any) -> tuple[bytes, bytes]:
    """The line that says what it is, and the bytes."""
    if type(value) is bytes:
        return _BYTES, value
    if type(value) is str:
        return _TEXT, value.encode()
    if value is None:
        return b"", b""
    if isinstance(value, bytearray | memoryview):
        return _BYTES, bytes(value)
    return _JSON, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


_BYTES = b"content-type: application/octet-stream\r\n"
_TEXT = b"content-type: text/plain; charset=utf-8\r\n"
_JSON = b"content-type: application/json\r\n"
