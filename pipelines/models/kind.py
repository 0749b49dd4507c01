"""What all models have in common, and which one a text such as `synthetic:564MB` means."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigError

if TYPE_CHECKING:
    from engine.model import Model


@dataclass(frozen=True)
class Answer:
    """What running a model gave: equal bytes of a model give an equal checksum."""

    checksum: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is worth knowing, such as the accuracy. Plain data."""


class Kind(ABC):
    """One kind of model. It is pickled: `prepare` runs in one task, `load` and `run` in others."""

    @abstractmethod
    def prepare(self, via: str) -> Iterator[Any]:
        """Make the model ready on this node, and yield what is published of it.

        What must be there only for a while is removed when the iteration ends.
        """

    @abstractmethod
    def load(self, model: Model) -> Any:
        """Read all of the model's bytes once, in place, into what `run` needs."""

    @abstractmethod
    def run(self, loaded: Any) -> Answer:
        """Use it on a fixed input."""


def kind_of(text: str) -> Kind:
    """The kind that a text means; ConfigError, before anything starts, if it means none.

    >>> kind_of("memory:64MB")
    Memory(size=64000000, seed=0)
    """
    from pipelines.models.digits import Digits
    from pipelines.models.plain import Bucket, Files, Memory, Synthetic
    from pipelines.models.speech import Speech

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


def parse_size(text: str) -> int:
    """Bytes of a size as people write it: `564MB` is 564,000,000, `1GiB` is 2**30.

    >>> parse_size("564MB"), parse_size("1.5KiB"), parse_size("0")
    (564000000, 1536, 0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", text.strip().lower())
    if found is None:
        raise ConfigError(
            f"the size is {text!r}, expected such as 564MB", "units are KB, MB, GB, KiB, MiB, GiB"
        )
    unit = found[2] or ""
    base = 1024 if unit.endswith("i") else 1000
    return int(float(found[1]) * base ** " kmg".index(unit[:1] or " "))


_EXPECTED = "digits, speech, synthetic:564MB, memory:564MB, a path, or s3://bucket/prefix"
