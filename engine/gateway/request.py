"""Requests and responses: records like others, which travel wherever the dataflow takes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, unquote

from engine.gateway.form import Part, parts_of
from engine.record.json_values import ENCODER

IDS = (1 << 63) - 1
"""The bits of an id."""
REQUEST = "_request"
"""The column with the ids of requests."""


@dataclass(slots=True)
class Response:
    """The answer to a request; `Request.reply` makes it."""

    id: int
    """The request's."""
    status: int
    head: bytes
    """The headers, a line each."""
    body: bytes | Iterator[bytes]
    """All of it, or what comes piece by piece."""


@dataclass(slots=True)
class Request:
    r"""A request of a client. `request.reply(value)` makes the answer.

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
    """The time after which no client waits for the answer, in seconds since 1970."""

    @property
    def path(self) -> str:
        """The path, decoded."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        """The values of the query by name, decoded; the last one where there are several."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def headers(self) -> dict[str, str]:
        """The headers by name, in lower case; of one that came several times, joined by commas.

        Cookies, which HTTP/2 sends one by one, are joined by semicolons.
        """
        found: dict[str, str] = {}
        for line in self.head.decode("latin-1").split("\r\n")[:-1]:
            name, _, value = line.partition(": ")
            if name in found:
                value = f"{found[name]}{'; ' if name == 'cookie' else ', '}{value}"
            found[name] = value
        return found

    def text(self) -> str:
        """The body as text. Raises UnicodeDecodeError."""
        return self.body.decode()

    def json(self) -> Any:
        """The value of the JSON body; of a repeated name, the last one. Raises ValueError."""
        return said_in_json(self.body)

    def parts(self) -> list[Part]:
        """The parts of a body that is `multipart/form-data`. Raises ValueError where it is none."""
        return parts_of(self.headers.get("content-type", ""), self.body)

    def reply(
        self, value: Any = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """The answer: bytes and text as they are, None as an empty body, all else as JSON.

        An iterator, such as a generator, is answered item by item as server-sent events, each with
        text as it is and all else as JSON; by a thread of its own, in the task that gives this to
        `respond()`, and for as long as the client reads.

        Raises TypeError, or ValueError for NaN, where JSON has no words, and ValueError for a
        status or a header that HTTP has not.
        """
        if type(status) is not int or not _LEAST_STATUS <= status <= _MOST_STATUS:
            status = _checked_status(status)
        if headers is None:
            return response(self.id, value, status)
        kind, body = _encoded(value)
        lines = [kind] if "content-type" not in map(str.lower, headers) else []
        for name, text in headers.items():
            if "\n" in name + text or "\r" in name + text:
                raise ValueError(f"the header {name!r}: {text!r:.80} is not one line")
            if not _NAME.fullmatch(name) or _CONTROL.search(text):
                raise ValueError(f"the header {name!r}: {text!r:.80} has what no header may have")
            lines.append(f"{name}: {text}\r\n".encode("latin-1"))
        return Response(self.id, status, b"".join(lines), body)


def request_of(record: Any, depth: int = 0) -> Request | None:
    """The request that a record is, or has among its items, or among theirs."""
    if isinstance(record, Request):
        return record
    if isinstance(record, dict):
        if type(name := record.get(REQUEST)) is int:  # a row of columns
            return Request(name & IDS, "", "", b"", b"", float("inf"))
        items: Any = record.values()
    elif isinstance(record, list | tuple):
        items = record
    elif is_dataclass(record) and not isinstance(record, Response):
        items = [getattr(record, each.name, None) for each in fields(record)]
    else:
        return None
    for item in items:
        if isinstance(item, Request):
            return item
    if depth < _DEEPEST:
        for item in islice(items, _MOST_ITEMS):
            if (found := request_of(item, depth + 1)) is not None:
                return found
    return None


def said_in_json(body: bytes) -> Any:
    """The value of a JSON text. Raises ValueError, also for NaN and infinity."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"got {name}, which JSON has not")


def _checked_status(status: Any) -> int:
    """An `http.HTTPStatus`, say, as a number."""
    is_status = isinstance(status, int) and not isinstance(status, bool)
    if not is_status or not _LEAST_STATUS <= status <= _MOST_STATUS:
        least, most = _LEAST_STATUS, _MOST_STATUS
        raise ValueError(f"status is {status!r:.80}, expected a number from {least} to {most}")
    return int(status)


def response(name: int, value: Any, status: int = 200) -> Response:
    """The answer to the request of that id, as `Request.reply` makes it."""
    return Response(name, status, *_encoded(value))


def _encoded(value: Any) -> tuple[bytes, bytes | Iterator[bytes]]:
    """The lines that say what it is, and the bytes."""
    if type(value) is bytes:
        return _BYTES, value
    if type(value) is str:
        return _TEXT, value.encode()
    if value is None:
        return b"", b""
    if isinstance(value, bytearray | memoryview):
        return _BYTES, bytes(value)
    if isinstance(value, Iterator):
        return _EVENTS, _events(value)
    return _JSON, ENCODER.encode(value).encode()


def _events(values: Iterator[Any]) -> Iterator[bytes]:
    """As https://html.spec.whatwg.org/multipage/server-sent-events.html has them."""
    for value in values:
        text = value if isinstance(value, str) else ENCODER.encode(value)
        yield "".join(f"data: {line}\n" for line in _LINE_END.split(text)).encode() + b"\n"


_BYTES = b"content-type: application/octet-stream\r\n"
_TEXT = b"content-type: text/plain; charset=utf-8\r\n"
_EVENTS = b"content-type: text/event-stream\r\ncache-control: no-cache\r\n"
_LINE_END = re.compile("\r\n|\r|\n")
_JSON = b"content-type: application/json\r\n"
_NAME = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LEAST_STATUS, _MOST_STATUS = 200, 599
_DEEPEST = 2
_MOST_ITEMS = 16
"""So deep, and among so many items at the beginning, a request is looked for in others."""
