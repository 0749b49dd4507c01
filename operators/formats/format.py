"""What a format is: how the bytes of a message become a record, and a record becomes bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from engine.columns import is_columns, rows
from engine.graph.failing import FailureContext
from engine.network import DecodeError

Rejected: TypeAlias = list[tuple[int, Exception]]
"""The places of messages that could not be decoded, in ascending order, each with the error."""
Decoder: TypeAlias = Callable[[list[bytes | None]], tuple[Any, Rejected]]
"""Takes the bytes of messages; gives a record for each that is not rejected, in order, as a list or
as a `pyarrow.RecordBatch`. None is a message without a value, as in a table of Kafka: it is the
record None, or a row of nulls."""
Encoder: TypeAlias = Callable[[Any, FailureContext], list[bytes | None]]
"""Takes a batch, a list or a `pyarrow.RecordBatch`; gives the bytes of a message for each record.
Notes the record that it fails on."""


class Format(ABC):
    """How the bytes of a message become a record.

    It is a value, which is pickled. State is in what its methods make, once for each task.
    """

    @property
    def emits_columns(self) -> bool:
        """Whether messages become columns."""
        return False

    @abstractmethod
    def decoder(self) -> Decoder:
        """The function of one task that decodes messages; errors of it are the task's."""

    def encoder(self) -> Encoder:
        """The function of one task that encodes records."""
        raise TypeError(f"{type(self).__name__} does not encode, expected a format that does")


def in_places(rejected: list[tuple[int, str]]) -> Rejected:
    """What a decoder in Rust has rejected, with errors of the reasons."""
    return [(place, DecodeError(reason)) for place, reason in rejected]


def each_decoded(decode: Callable[[bytes], Any]) -> Decoder:
    """A decoder that calls this function with each value; ValueError of it rejects the message."""

    def decode_all(values: list[bytes | None]) -> tuple[list[Any], Rejected]:
        found: list[Any] = []
        append = found.append
        rejected: Rejected = []
        at = -1
        each = iter(values)
        while True:
            try:
                for value in each:
                    at += 1
                    append(None if value is None else decode(value))
                return found, rejected
            except ValueError as error:
                rejected.append((at, error))

    return decode_all


def each_encoded(encode: Callable[[Any], bytes]) -> Encoder:
    """An encoder that calls this function with each record; rows of columns are dicts."""

    def encode_all(batch: Any, failing: FailureContext) -> list[bytes | None]:
        records: Sequence[Any] = rows(batch) if is_columns(batch) else batch
        each = iter(records)
        try:
            return [None if record is None else encode(record) for record in each]
        except BaseException:
            failing.at(list(records), each)
            raise

    return encode_all
