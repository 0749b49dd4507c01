"""A message of Kafka as a record, and as a row: its value with what else it has."""

from __future__ import annotations

from typing import Any, NamedTuple

from engine.columns import import_pyarrow, is_columns
from operators.formats import Messages


class KafkaRecord(NamedTuple):
    """A message with its metadata."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """When it was made, or appended to the log, as the topic has it: microseconds since 1970."""
    key: bytes | None
    value: Any
    """As the format has decoded it; None if the message has none."""
    headers: list[tuple[str, bytes | None]]


class KafkaMessages(Messages):
    """The client's messages, of which the values are decoded."""

    def __init__(self, metadata: bool) -> None:
        self.metadata = metadata

    def values(self, messages: list[Any]) -> list[bytes | None]:
        """The value of each."""
        return [message.value() for message in messages]

    def record(self, message: Any) -> KafkaRecord:
        """A record with the value's bytes."""
        return _record(message, message.value())

    def joined(self, messages: list[Any], decoded: Any) -> Any:
        """The decoded values, with the metadata if that is wanted."""
        if not self.metadata:
            return decoded
        if is_columns(decoded):
            return _with_columns(messages, decoded)
        return list(map(_record, messages, decoded))


def _record(message: Any, value: Any) -> KafkaRecord:
    kind, milliseconds = message.timestamp()
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        milliseconds * 1000 if kind else None,
        message.key(),
        value,
        message.headers() or [],
    )


def _with_columns(messages: list[Any], decoded: Any) -> Any:
    pa = import_pyarrow("KafkaSource with columns")
    records = [_record(message, None) for message in messages]
    for name, (field, kind) in _columns(pa).items():
        column = pa.array([getattr(record, field) for record in records], kind)
        decoded = decoded.append_column(name, column)
    return decoded


def _columns(pa: Any) -> dict[str, tuple[str, Any]]:
    headers = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    return {
        "_key": ("key", pa.binary()),
        "_timestamp": ("timestamp", pa.timestamp("us", "UTC")),
        "_headers": ("headers", headers),
        "_topic": ("topic", pa.string()),
        "_partition": ("partition", pa.int32()),
        "_offset": ("offset", pa.int64()),
    }
