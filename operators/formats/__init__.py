"""Formats: the bytes of messages to records or columns, and back.

A source takes one as `format=`; what cannot be decoded is treated by its `on_error`.
"""

from operators.formats.avro import Avro
from operators.formats.decode import Decode, Messages, OnMessageError
from operators.formats.format import Decoder, Encoder, Format, Rejected
from operators.formats.json_format import Json
from operators.formats.plain import Bytes, Text

__all__ = [
    "Avro",
    "Bytes",
    "Decode",
    "Decoder",
    "Encoder",
    "Format",
    "Json",
    "Messages",
    "OnMessageError",
    "Rejected",
    "Text",
]
