"""The formats without a structure: bytes as they are, and texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.network import DecodeError
from operators.formats.format import Decoder, Encoder, Format, Rejected, each_decoded, each_encoded


@dataclass(frozen=True)
class Bytes(Format):
    """The bytes of a message are the record."""

    def decoder(self) -> Decoder:
        """The values as they are."""

        def unchanged(values: list[bytes | None]) -> tuple[list[bytes | None], Rejected]:
            return values, []

        return unchanged

    def encoder(self) -> Encoder:
        """The records as they are; TypeError for others than bytes."""

        def unchanged(record: Any) -> bytes:
            if not isinstance(record, bytes):
                raise TypeError(
                    f"got {type(record).__name__} {record!r:.80}, expected bytes\n\n"
                    "hint: another format, such as Text() or Json(), makes bytes of it"
                )
            return record

        return each_encoded(unchanged)


@dataclass(frozen=True)
class Text(Format):
    """A message is a text in UTF-8."""

    def decoder(self) -> Decoder:
        """Rejects what is not UTF-8."""

        def text(value: bytes) -> str:
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise not_utf8(error) from None

        return each_decoded(text)

    def encoder(self) -> Encoder:
        """TypeError for others than texts."""

        def text(record: Any) -> bytes:
            if not isinstance(record, str):
                raise TypeError(
                    f"got {type(record).__name__} {record!r:.80}, expected a text\n\n"
                    "hint: make texts in .map(...), or say format=Json()"
                )
            return record.encode()

        return each_encoded(text)


def not_utf8(error: UnicodeDecodeError) -> DecodeError:
    """The error for a value that is not UTF-8."""
    byte = error.object[error.start]
    return DecodeError(f"not UTF-8: byte {byte:#04x} at place {error.start}")
