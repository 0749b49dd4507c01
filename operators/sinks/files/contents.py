"""What a sink of files writes: which files there are, when one is full, and what is in each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.errors import GraphError
from operators.sinks.files.places import Draft


@dataclass(frozen=True)
class Layout:
    """The files of a sink.

    Sinks of one `kind`, such as ".csv", do not share a folder; `compression` is the rest of the
    names, such as ".gz". `folders` is a pattern of the sub-folders that files go to, such as
    "day=*". With `replace`, files of an earlier job are replaced, in a job without checkpoints.
    """

    kind: str
    compression: str = ""
    folders: str = ""
    replace: bool = True
    max_bytes: int | None = None
    max_seconds: float | None = None
    max_open_files: int = 1

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_seconds", "max_open_files"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise GraphError(f"{name} is {value!r}, expected a number above 0")


class Contents(ABC):
    """What one task writes into its files."""

    @property
    @abstractmethod
    def begins_empty(self) -> bool:
        """Whether a job without records and checkpoints leaves a file."""

    @abstractmethod
    def split(self, records: Any, /) -> Iterable[tuple[str, Any]]:
        """Pieces of a batch, each with the sub-folder that it goes to; "" is the folder itself."""

    @abstractmethod
    def begin(self, draft: Draft, /) -> Content:
        """The content of a new file."""


class Content(ABC):
    """What is written into one file."""

    @abstractmethod
    def write(self, piece: Any, /) -> None:
        """Add a piece."""

    def close(self) -> None:  # noqa: B027 - text has no end
        """Write what belongs at the end. It is the last call, and may follow an error."""
