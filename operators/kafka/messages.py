"""Records as messages of Kafka: value, key and what else a message has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any, NamedTuple, TypeAlias

from engine.columns import column_of, is_columns, rows
from engine.graph.failing import FailureContext
from engine.record.json_values import ENCODER
from operators.event_time.selector import TimeSelector
from operators.formats import Format
from operators.keys import Item, key_finder

Select: TypeAlias = Item | Callable[[Any], Any] | None
"""An item of the record, or the name of a column; a function of the record; None is nothing."""

Message: TypeAlias = Any
"""A message that is only `value` and `key` is a dict of them, as `produce_batch` takes it. Others
are tuples: key, value, topic, partition, timestamp in milliseconds, headers."""

Parts: TypeAlias = tuple[list[Any] | None, ...]
"""Messages by their parts: their keys, or None where no message has one, and their values; for
messages that are tuples, the other parts, too."""

Partitions: TypeAlias = Callable[[str], int]
"""The number of partitions that a topic has."""


class Messages(NamedTuple):
    """The messages of a batch."""

    parts: Parts
    size: int
    """Their bytes."""
    largest: int
    """The bytes of the largest, or a few more."""


Encode: TypeAlias = Callable[[Any, FailureContext], Messages]


@dataclass(frozen=True)
class MessageForm:
    """Which parts of a record become which parts of a message."""

    topic: str | Callable[[Any], str]
    format: Format
    value: Select = None
    key: Select = None
    timestamp: TimeSelector | None = None
    headers: Select = None
    partition: Callable[[bytes | None, int], int] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a message is a key and a value, and all are of one topic."""
        return not (
            callable(self.topic) or self.timestamp or self.partition or self.headers is not None
        )

    def encoder(self, partitions: Partitions) -> Encode:
        """The function of one task that makes messages of a batch; it notes a record that fails."""
        encode = self.format.encoder()
        partition = self._partition_of(partitions)
        is_plain = self.is_plain

        def messages(batch: Any, failing: FailureContext) -> Messages:
            source = _Batch(batch, failing)
            values = encode(batch if self.value is None else source.select(self.value), failing)
            keys = source.keys(self.key)
            if is_plain:
                key_sizes, sizes = _lengths(keys or ()), _lengths(values)
                total, largest = sum(key_sizes) + sum(sizes), max(key_sizes) + max(sizes)
                return Messages((keys, values), total, largest)
            keys = keys or [None] * len(values)
            if callable(self.topic):
                topics = source.select(self.topic)
                for topic in set(topics):
                    partitions(topic)  # it is there
            else:
                topics = [self.topic] * len(values)
            if partition is None:
                numbers = [_ANY] * len(values)
            else:
                numbers = source.map(partition, list(zip(topics, keys, strict=True)))
            times, headers = source.milliseconds(self.timestamp), source.headers(self.headers)
            parts = (keys, values, topics, numbers, times, headers)
            sizes = list(map(size, messages_of(parts)))
            return Messages(parts, sum(sizes), max(sizes))

        return messages

    def _partition_of(self, partitions: Partitions) -> Callable[[tuple[str, Any]], int] | None:
        function = self.partition
        if function is None:
            return None

        def partition(of: tuple[str, Any]) -> int:
            topic, key = of
            count = partitions(topic)
            found = function(key, count)
            if not isinstance(found, int) or not 0 <= found < count:
                raise ValueError(
                    f"the partitioner gave {found!r:.80}, expected a number from 0 to {count - 1}"
                )
            return found

        return partition


@dataclass
class _Batch:
    """A batch, and whatever is read of it."""

    batch: Any
    failing: FailureContext
    _rows: list[Any] = field(default_factory=list)

    @property
    def records(self) -> list[Any]:
        """The records; of columns, a dict for each row."""
        if is_columns(self.batch):
            self._rows = self._rows or rows(self.batch)
            return self._rows
        return list(self.batch)

    def select(self, item: Item | Callable[[Any], Any]) -> list[Any]:
        """The item of each record."""
        if is_columns(self.batch) and not callable(item):
            column = column_of(self.batch, item)
            if column is None:
                names = ", ".join(self.batch.schema.names)
                raise ValueError(f"there is no column {item!r}, expected one of {names}")
            return list(column.to_pylist())
        return self.map(item if callable(item) else key_finder(item), self.records)

    def keys(self, item: Select) -> list[bytes | None] | None:
        """The key of each message; None if there are none."""
        if item is None:
            return None
        keys = self.select(item)
        return keys if set(map(type, keys)) <= _AS_THEY_ARE else self.map(_bytes_of, keys)

    def headers(self, item: Select) -> list[Any]:
        """The headers of each message, as pairs."""
        if item is None:
            return [None] * len(self.batch)
        return self.map(_pairs, self.select(item))

    def milliseconds(self, time: TimeSelector | None) -> list[int]:
        """The time of each record; 0 is the time of sending."""
        if time is None:
            return [0] * len(self.batch)
        if is_columns(self.batch):
            numbers, of_number = time.in_columns(self.batch)
            found = of_number.all_microseconds(numbers.to_pylist())
        else:
            found = time.all_microseconds(self.records, self.failing)
        return [max(0, us // 1000) for us in found]

    def map(self, function: Callable[[Any], Any], values: list[Any]) -> list[Any]:
        """The function of each value; notes the record of one that fails."""
        each = iter(values)
        try:
            return [function(value) for value in each]
        except BaseException:
            place = len(values) - length_hint(each) - 1
            self.failing.on(self.records[place])
            raise


def messages_of(parts: Parts) -> list[Message]:
    """The messages with these parts."""
    keys, values, *others = parts
    assert values is not None
    if others:
        return list(zip(*parts, strict=True))
    if keys is None:
        return [{"value": value} for value in values]
    return [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]


def _lengths(parts: Sequence[bytes | None]) -> list[int]:
    return list(map(len, filter(None, parts))) or [0]


def size(message: Message) -> int:
    """The bytes of a message that count for its limit."""
    if isinstance(message, dict):
        return len(message.get("key") or b"") + len(message["value"] or b"")
    key, value, *_, headers = message
    named = sum(len(name.encode()) + len(each or b"") for name, each in headers or ())
    return len(key or b"") + len(value or b"") + named


def _bytes_of(key: Any) -> bytes | None:
    if key is None:
        return None
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes | bytearray | memoryview):
        return bytes(key)
    return ENCODER.encode(key).encode()


def _pairs(headers: Any) -> list[tuple[str, bytes | None]] | None:
    if headers is None:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, _bytes_of(value)) for name, value in pairs]


_ANY = -1
"""The client picks a partition."""
_AS_THEY_ARE = {bytes, type(None)}
