"""Messages in Avro: one schema, those of a registry, and schemas that have changed."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from engine import GraphError
from operators.formats import Avro


def record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Event",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


OLD = record(n="long")
NEW = record(user="string", n="int")
READER: dict[str, Any] = record(n="long", user="string")
READER["fields"][1]["default"] = "nobody"


def long(number: int) -> bytes:
    number = number << 1 ^ number >> 63
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def text(value: str) -> bytes:
    return long(len(value.encode())) + value.encode()


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


class Registry:
    """A registry in this process, which counts what it is asked for."""

    def __init__(self) -> None:
        self.client = SchemaRegistryClient.new_client({"url": "mock://formats"})
        self.asked: list[int] = []
        self.ids = [self.add(OLD), self.add(NEW)]

    def add(self, schema: Any, kind: str = "AVRO") -> int:
        subject = f"subject-{len(getattr(self, 'ids', []))}-{json.dumps(schema)[:200]}"
        number: int = self.client.register_schema(subject, Schema(json.dumps(schema), kind))
        return number

    def get_schema(self, number: int) -> Any:
        self.asked.append(number)
        return self.client.get_schema(number)

    def __call__(self) -> Registry:
        return self


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_records_of_one_schema() -> None:
    decode = Avro(NEW).decoder()
    messages = [text("ann") + long(1), None, b"\x10x", text("bob") + long(-300)]
    decoded, rejected = decode(messages)
    assert decoded == [{"user": "ann", "n": 1}, None, {"user": "bob", "n": -300}]
    [(place, error)] = rejected
    assert place == 2
    assert str(error).startswith("not Avro of its schema: ")


def test_messages_of_several_schemas_become_dicts_of_their_own(registry: Registry) -> None:
    old, new = registry.ids
    decode = Avro(registry=registry).decoder()
    messages = [
        framed(old, long(1)),
        framed(new, text("ann") + long(2)),
        None,
        framed(old, long(3)),
        framed(99, long(4)),
    ]
    for _ in range(2):
        decoded, rejected = decode(messages)
        assert decoded == [{"n": 1}, {"user": "ann", "n": 2}, None, {"n": 3}]
        [(place, error)] = rejected
        assert (place, str(error)) == (4, "the registry has no schema of the id 99")
    assert registry.asked == [old, new, 99, 99]  # one that is missing may come


def test_they_become_columns_of_the_readers_schema(registry: Registry) -> None:
    old, new = registry.ids
    decode = Avro(READER, registry=registry, columns=True).decoder()
    decoded, rejected = decode(
        [framed(old, long(1)), framed(new, text("ann") + long(2)), framed(old, long(3))]
    )
    assert not rejected
    assert decoded.to_pylist() == [
        {"n": 1, "user": "nobody"},
        {"n": 2, "user": "ann"},
        {"n": 3, "user": "nobody"},
    ]
    assert decode([b"x"])[0].schema == decode([])[0].schema == decoded.schema


REJECTED = [
    (b"", "empty"),
    (b"\x01\0\0\0\x01\x02", "its first byte is 0x01, expected 0x00 in front of the id"),
    (b"\0\0\0", "it ends within the id of its schema"),
    (b"\0\0\0\0\x01", "not Avro of its schema: "),
    (b"\0\0\0\0\x01\x80", "not Avro of its schema: "),
    (b"\0\0\0\0\x01\x02\x02", "not Avro of its schema: 1 bytes follow the record"),
]


@pytest.mark.parametrize(("message", "reason"), REJECTED)
@pytest.mark.parametrize("columns", [True, False])
def test_what_is_no_such_message_is_rejected_with_a_reason(
    message: bytes, reason: str, columns: bool, registry: Registry
) -> None:
    assert registry.ids[0] == 1
    good = framed(1, long(5))
    decode = Avro(READER, registry=registry, columns=columns).decoder()
    decoded, rejected = decode([good, message, good])
    assert len(decoded) == 2
    [(place, error)] = rejected
    assert place == 1
    assert str(error).startswith(reason)


def test_a_schema_that_the_reader_cannot_resolve_rejects_its_messages(registry: Registry) -> None:
    number = registry.add(record(n="string"))
    kind = registry.add({"type": "object"}, "JSON")
    decode = Avro(READER, registry=registry).decoder()
    decoded, rejected = decode([framed(number, text("x")), framed(1, long(1)), framed(kind, b"{}")])
    assert decoded == [{"n": 1, "user": "nobody"}]
    first, second = (str(error) for _, error in rejected)
    assert first.startswith(f"schema {number}: ")
    assert second == f"schema {kind} has type JSON, expected Avro in one piece"


class Handler(BaseHTTPRequestHandler):
    """Answers as a registry does to GET /schemas/ids/ID."""

    def do_GET(self) -> None:
        is_known = self.path.partition("?")[0] == "/schemas/ids/1"
        status = 503 if "/ids/3" in self.path else 200 if is_known else 404
        answer: dict[str, Any] = {"error_code": 40403, "message": "Schema not found"}
        body = json.dumps({"schema": json.dumps(OLD)} if is_known else answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_registry_is_asked_over_http(url: str) -> None:
    kind = pickle.loads(pickle.dumps(Avro(registry=url)))
    decoded, rejected = kind.decoder()([framed(1, long(4)), framed(2, long(5))])
    assert decoded == [{"n": 4}]
    assert [str(error) for _, error in rejected] == ["the registry has no schema of the id 2"]


def test_a_registry_that_does_not_answer_rejects_nothing(url: str) -> None:
    settings = {"url": url, "max.retries": 0}
    with pytest.raises(SchemaRegistryError, match="503"):
        Avro(registry=settings).decoder()([framed(3, long(4))])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Avro, "Avro got no schema and no registry"),
        (lambda: Avro(registry="http://x", columns=True), "Avro got no schema for its columns"),
        (lambda: Avro("{"), "Avro got a schema that it cannot read by: "),
        (lambda: Avro({"type": "record"}), "Avro got a schema that it cannot read by: "),
        (lambda: Avro('"string"'), "Avro got a schema that it cannot read by: "),
    ],
)
def test_wrong_use_is_refused(make: Any, message: str) -> None:
    with pytest.raises(GraphError) as raised:
        make()
    assert message in str(raised.value)
