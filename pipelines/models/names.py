"""The models of texts such as `synthetic:564MB`."""

from __future__ import annotations

from engine.errors import ConfigError
from pipelines.models.digits import Digits
from pipelines.models.kind import Kind, parse_size
from pipelines.models.plain import Bucket, Files, Memory, Synthetic
from pipelines.models.speech import Speech


def kind_of(text: str) -> Kind:
    """The kind of model of a text. Raises ConfigError, before anything starts, if there is none.

    >>> kind_of("memory:64MB")
    Memory(size=64000000, seed=0)
    """
    if not isinstance(text, str) or not text:
        raise ConfigError(f"model is {text!r}, expected {_EXPECTED}")
    if text == "digits":
        return Digits()
    if text == "speech":
        return Speech()
    if text.startswith("s3://"):
        return Bucket(text)
    name, colon, size = text.partition(":")
    if colon and name == "synthetic":
        return Synthetic(parse_size(size))
    if colon and name == "memory":
        return Memory(parse_size(size))
    return Files(text)


_EXPECTED = "digits, speech, synthetic:564MB, memory:564MB, a path, or s3://bucket/prefix"
