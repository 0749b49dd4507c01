"""JSON: a value per message, as Python objects or, with a schema, as columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from engine.json_values import plain
from engine.network import DecodeError
from operators.formats.format import Decoder, Encoder, Format, each_decoded, each_encoded
from operators.formats.plain import not_utf8


@dataclass(frozen=True)
class Json(Format):
    """A message is one JSON value in UTF-8 (RFC 8259)."""

    def decoder(self) -> Decoder:
        """Rejects what is not one JSON value."""
        return each_decoded(_value)

    def encoder(self) -> Encoder:
        """Compact JSON; times are ISO 8601. Raises TypeError and ValueError for what has none."""
        encode = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=plain
        ).encode
        return each_encoded(lambda record: encode(record).encode())


def _value(message: bytes) -> Any:
    try:
        text = message.decode()
        value = _DECODER.decode(text)
        if _SURROGATE in text:
            _ENCODER.encode(value).encode()
        return value
    except UnicodeDecodeError as error:
        raise not_utf8(error) from None
    except UnicodeEncodeError:
        raise DecodeError("not JSON: half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise DecodeError("not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise DecodeError(f"not JSON: {error}" if message.strip() else "empty") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no value in it")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_SURROGATE = "\\u"
"""Without an escape, no text can have half of a pair."""
