"""JSON: a value per message, as Python objects or, with a schema, as columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from engine.columns import import_pyarrow
from engine.errors import GraphError
from engine.network import DecodeError, JsonDecoder
from engine.record.json_values import plain
from operators.formats.format import Decoder, Encoder, Format, each_decoded, each_encoded, in_places
from operators.formats.plain import not_utf8
from operators.formats.schema import schema_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Json(Format):
    """A message is one JSON value in UTF-8 (RFC 8259).

    Without a schema it becomes Python objects. With one, messages are objects and become columns:
    a `pyarrow.Schema`, or a dict of names and types such as `{"user": "string", "at":
    "timestamp[us]", "tags": ["int64"], "place": {"x": "double", "y": "double"}}`. A field that is
    missing is null; a field without a column is left out.
    """

    schema: pa.Schema | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.schema is None:
            return
        schema = schema_of("Json", self.schema)
        object.__setattr__(self, "schema", schema)
        try:
            JsonDecoder(schema)
        except ValueError as error:
            raise GraphError(
                f"Json got a schema with a type that JSON cannot be read as: {error}",
                hint="declare the column as a string, and convert it in .map_batches(...)",
            ) from None

    @property
    def emits_columns(self) -> bool:
        """Whether there is a schema."""
        return self.schema is not None

    def decoder(self) -> Decoder:
        """Rejects what is not one JSON value, or not an object of the schema."""
        if self.schema is None:
            return each_decoded(_value)
        import_pyarrow("Json(schema)")
        decode = JsonDecoder(self.schema).decode

        def columns(values: list[bytes | None]) -> Any:
            batch, rejected = decode(values)
            return batch, in_places(rejected)

        return columns

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
