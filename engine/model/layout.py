"""The layout of a model's blob: plain data, the same for writer and reader.

Files follow each other, each at a multiple of `ALIGNMENT`, with zeros between: a view of any of
them is aligned for every number type and for a cache line.

    >>> laid_out = Layout.of("folder", [("config.json", 70), ("weights/a", 0), ("weights/b", 5)])
    >>> [(file.name, file.offset) for file in laid_out.files], laid_out.size
    ([('config.json', 0), ('weights/a', 128), ('weights/b', 128)], 133)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from engine.errors import ModelError

Kind = Literal["folder", "file", "bytes", "array", "table", "tensors"]

ALIGNMENT = 64
"""Bytes: a cache line, and what Arrow and plasma align to."""


@dataclass(frozen=True)
class File:
    """A named range of the blob; `name` is a relative POSIX path."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Layout:
    """A blob of `size` bytes that holds `files`, in the order of their offsets.

    `kind` says what was published. `attributes` are further data of the value, in plain JSON:
    `dtype`, `shape` and `order` of an array, and the empty `folders` of a folder.
    """

    kind: Kind
    size: int
    files: tuple[File, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        kind: Kind,
        sizes: Iterable[tuple[str, int]],
        attributes: Mapping[str, Any] | None = None,
    ) -> Layout:
        """Lay out files of these names and sizes, one after another."""
        files: list[File] = []
        end = 0
        for name, size in sizes:
            offset = -(-end // ALIGNMENT) * ALIGNMENT
            files.append(File(name, offset, size))
            end = offset + size
        return cls(kind, end, tuple(files), attributes or {})

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ModelError(
                f"a model is of kind {self.kind!r}, expected {', '.join(get_args(Kind))}"
            )
        end = 0
        names = set()
        for file in self.files:
            check_name(file.name)
            if file.name in names:
                raise ModelError(f"two files of a model are named {file.name!r}, expected one")
            names.add(file.name)
            if file.size < 0 or file.offset < end or file.offset % ALIGNMENT:
                raise ModelError(
                    f"file {file.name!r} of a model has {file.size} bytes at offset {file.offset}, "
                    f"expected an offset of at least {end} that {ALIGNMENT} divides"
                )
            end = file.offset + file.size
        if end != self.size:
            raise ModelError(f"a model's files end at byte {end}, expected {self.size}")
        for folder in self.attributes.get("folders", ()):
            check_name(folder)

    def describe(self) -> str:
        """For messages and progress: `folder of 3 files, 564.0 MB`."""
        what = f"folder of {len(self.files)} files" if self.kind == "folder" else self.kind
        return f"{what}, {self.size / 1e6:.1f} MB"


def check_name(name: object) -> None:
    """Raise ModelError unless a file of this name stays inside the folder that it is saved to."""
    if isinstance(name, str) and "\0" not in name:
        parts = name.split("/")
        if all(part not in ("", ".", "..") for part in parts):
            return
    raise ModelError(
        f"a file of a model is named {name!r}, expected a relative path without '..', '.' and '//'"
    )
