"""CPU nanoseconds per message, from bytes to records: `python -m benchmarks.steps.formats`.

Each line is the best of several rounds over the batches of one list: the best, as other work of the
machine can only add time. Messages are joined to lines for PyArrow, whose reader wants them; that
is in its figure.
"""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.json

from operators.formats import Avro, Json, Text

SCHEMA = {
    "id": "int64",
    "user": "string",
    "at": "timestamp[us]",
    "amount": "double",
    "country": "string",
    "ok": "bool",
    "place": {"x": "double", "y": "double"},
}
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "at", "type": "long"},
        {"name": "amount", "type": "double"},
    ],
}


def main() -> None:
    """Measure each format over batches of several lengths, and print one line each."""
    messages = _messages(random.Random(1))
    poisoned = [*messages]
    poisoned[::100] = [b"{" for _ in poisoned[::100]]
    columns = Json(SCHEMA).decoder()
    schema = Json(SCHEMA).schema
    explicit = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")

    def pyarrow_json(batch: list[bytes]) -> Any:
        return pyarrow.json.read_json(io.BytesIO(b"\n".join(batch)), parse_options=explicit)

    cases: dict[str, tuple[list[bytes], Callable[[Any], Any]]] = {
        "Json(schema)": (messages, columns),
        "  1 of 100 rejected": (poisoned, columns),
        "pyarrow.json.read_json": (messages, pyarrow_json),
        "Json()": (messages, Json().decoder()),
        "json.loads": (messages, lambda batch: [json.loads(each) for each in batch]),
        "Text()": (messages, Text().decoder()),
        "Avro(schema, columns=True)": (_records(messages), Avro(AVRO, columns=True).decoder()),
    }
    size = sum(map(len, messages)) / len(messages)
    print(f"CPU ns per message; JSON of {size:.0f} bytes, best of {ROUNDS} rounds")
    print(f"{'messages per batch':28}" + "".join(f"{length:>10,}" for length in LENGTHS))
    for name, (given, decode) in cases.items():
        costs = [_best(given, decode, length) for length in LENGTHS]
        print(f"{name:28}" + "".join(f"{cost:>10.0f}" for cost in costs))


def _messages(rng: random.Random) -> list[bytes]:
    return [
        json.dumps(
            {
                "id": number,
                "user": f"user-{rng.randrange(100_000)}",
                "at": f"2026-01-02T03:{rng.randrange(60):02}:{rng.randrange(60):02}.123456Z",
                "amount": round(rng.random() * 1000, 2),
                "country": rng.choice(["NO", "IT", "DE"]),
                "ok": rng.random() < 0.5,
                "place": {"x": round(rng.random(), 6), "y": round(rng.random(), 6)},
                "agent": "Mozilla/5.0 (X11; Linux)",
            }
        ).encode()
        for number in range(MESSAGES)
    ]


def _records(messages: list[bytes]) -> list[bytes]:
    """The first fields of the messages as Avro."""
    found = []
    for message in messages:
        event = json.loads(message)
        user = event["user"].encode()
        amount = pa.array([event["amount"]]).buffers()[1].to_pybytes()[:8]
        found.append(b"\x80\x80\x01" + bytes([2 * len(user)]) + user + b"\x80\x80\x80\x01" + amount)
    return found


def _best(messages: list[bytes], decode: Callable[[Any], Any], length: int) -> float:
    """The least CPU time of all batches, per message."""
    batches = [messages[at : at + length] for at in range(0, len(messages), length)]
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        for batch in batches:
            decode(batch)
        best = min(best, time.process_time_ns() - started)
    return best / len(messages)


MESSAGES = 20_000
LENGTHS = (100, 1_000, 10_000)
ROUNDS = 7

if __name__ == "__main__":
    main()
