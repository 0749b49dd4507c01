"""The small record that stands for a model on its way, encoded as extension 50 of a record.

Payload: the length of the head (4 bytes, little endian), the head as JSON, and the bytes of
`reference`. Decoding any bytes gives a Descriptor or raises ModelError.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.errors import ModelError
from engine.model.layout import File, Layout

Via = Literal["channels", "plasma", "s3"]

EXTENSION = 50
"""Its extension code in `engine.record`."""


@dataclass(frozen=True)
class Descriptor:
    """The identity of a model, the layout of its blob, and where a receiving task finds it.

    `origin` is the task that published it and `number` counts that task's models from 1; together
    they name the blob. `reference` is the backend's own data: nothing (channels), a pickled
    `ray.ObjectRef` (plasma), or a URL with its endpoint (s3). `published_ns` is the time at which
    the publisher took the model, in ns of its CLOCK_MONOTONIC: every timing starts there. `failure`
    says why the model could not be published: then there is no blob, and the layout is empty.
    """

    via: Via
    version: int
    name: str
    layout: Layout
    origin: int
    number: int
    reference: bytes = b""
    published_ns: int = 0
    failure: str = ""

    def encode(self) -> bytes:
        """The payload of the extension."""
        layout = self.layout
        head = {
            "via": self.via,
            "version": self.version,
            "name": self.name,
            "origin": self.origin,
            "number": self.number,
            "published_ns": self.published_ns,
            "failure": self.failure,
            "kind": layout.kind,
            "size": layout.size,
            "files": [[file.name, file.offset, file.size] for file in layout.files],
            "attributes": dict(layout.attributes),
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        return len(text).to_bytes(4, "little") + text + self.reference

    @classmethod
    def decode(cls, payload: bytes) -> Descriptor:
        """The descriptor of a payload; ModelError for other bytes."""
        end = 4 + int.from_bytes(payload[:4], "little")
        if len(payload) < max(4, end):
            raise ModelError(f"a model's descriptor has {len(payload)} bytes, expected {end}")
        try:
            head = json.loads(payload[4:end])
            return cls(
                via=head["via"],
                version=_number(head["version"]),
                name=_text(head["name"]),
                layout=_layout(head),
                origin=_number(head["origin"]),
                number=_number(head["number"]),
                reference=bytes(payload[end:]),
                published_ns=_number(head["published_ns"]),
                failure=_text(head["failure"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(
                f"a model's descriptor cannot be read: {type(error).__name__} {error}"
            ) from error

    def __post_init__(self) -> None:
        if self.via not in get_args(Via):
            raise ModelError(f"a model comes via {self.via!r}, expected {', '.join(get_args(Via))}")


def _layout(head: Any) -> Layout:
    files = tuple(
        File(_text(name), _number(offset), _number(size)) for name, offset, size in head["files"]
    )
    attributes = head["attributes"]
    if not isinstance(attributes, dict):
        raise TypeError(f"attributes are {attributes!r:.80}")
    return Layout(head["kind"], _number(head["size"]), files, attributes)


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r:.80}, expected an integer >= 0")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80}, expected a text")
    return value
