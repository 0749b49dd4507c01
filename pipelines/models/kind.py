"""The interface of all models."""

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
    """The result of running a model: equal bytes of a model give an equal checksum."""

    checksum: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further results, such as the accuracy. Plain data."""


class Kind(ABC):
    """One kind of model. It is pickled: `prepare` runs in one task, `load` and `run` in others."""

    @abstractmethod
    def prepare(self, via: str) -> Iterator[Any]:
        """Prepare the model on this node, and yield its published form.

        Temporary files are removed when the iteration ends.
        """

    @abstractmethod
    def load(self, model: Model) -> Any:
        """Read all of the model's bytes once, in place, into what `run` needs."""

    @abstractmethod
    def run(self, loaded: Any) -> Answer:
        """Use it on a fixed input."""


def parse_size(text: str) -> int:
    """The bytes of a size such as `564MB`, which is 564,000,000, or `1GiB`, which is 2**30.

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
