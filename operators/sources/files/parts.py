"""Parts of files as partitions: their names, their numbers, and which of them are new.

A name says which file it means, at which size and with which content. So a checkpoint tells whether
a file has changed since, even where its part was read to the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from operators.sources.layout import Piece


class FilePart(NamedTuple):
    """What begins between two bytes of a file: rows, or row groups.

    >>> part = FilePart(Piece("a.csv", 0, 10, "ab"), 0, 4, 10)
    >>> part.name
    'a.csv#0/4-10/10/ab'
    >>> FilePart.of(part.name) == part
    True
    """

    file: Piece
    """The whole file as it was."""
    at: int
    """Of the parts into which the file is cut."""
    begin: int
    end: int

    @classmethod
    def of(cls, name: str) -> FilePart:
        """The part of this name."""
        path, _, rest = name.rpartition("#")
        at, between, size, mark = rest.split("/", 3)
        begin, _, end = between.partition("-")
        return cls(Piece(path, 0, int(size), mark), int(at), int(begin), int(end))

    @property
    def name(self) -> str:
        """The name of the partition."""
        path, _, size, mark = self.file
        return f"{path}#{self.at}/{self.begin}-{self.end}/{size}/{mark}"

    @property
    def number(self) -> int:
        """The number of the partition, which is that of the path where the file is not cut.

        Files whose names count, as `part-7` does, have successive numbers, and so have the parts of
        a file.
        """
        path = self.file.path
        counted = sum(int(digits[-_DIGITS:]) for digits in _NUMBERS.findall(path))
        return crc32(_NUMBERS.sub("", path).encode()) + counted + self.at


def cut(file: Piece, part_bytes: int | None) -> Iterator[FilePart]:
    """The file in parts of so many bytes, of which the last is shorter, or whole.

    So a file that grows keeps its parts, all but the last one, which grows.

    >>> [(part.begin, part.end) for part in cut(Piece("a", 0, 25, ""), 10)]
    [(0, 10), (10, 20), (20, 25)]
    """
    size = part_bytes or file.end
    for at, begin in enumerate(range(0, file.end, size)):
        yield FilePart(file, at, begin, min(begin + size, file.end))


_NUMBERS = re.compile(r"[0-9]+")
_DIGITS = 9
"""Digits at the end of a number that count."""
