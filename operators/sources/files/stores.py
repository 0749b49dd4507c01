"""Where files are: on disk or in S3. A store finds files, opens them, and tells which changed."""

from __future__ import annotations

import glob
import os
import re
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.columns import import_pyarrow
from engine.errors import CheckpointError, ConfigError, GraphError, StorageError
from engine.s3 import S3, split_url
from operators.sources.files.ranged import RangedFile
from operators.sources.layout import Piece, check_grown, check_there, mark_of, refuse_continued
from operators.sources.lines import File, ends_line
from operators.sources.patterns import divided, expression, matching


class Store(ABC):
    """Files of one pattern. One thread of a task has it."""

    @abstractmethod
    def files(self, settle_seconds: float | None = None) -> Iterable[Piece]:
        """The files that match now, in order, without empty and temporary ones.

        With `settle_seconds`, a file that may still be written to waits until it was left alone for
        so long.
        """

    @abstractmethod
    def has_any(self) -> bool:
        """Whether there is such a file or folder, empty or not."""

    @abstractmethod
    def has(self, file: Piece) -> bool:
        """Whether the file is of this store, or of another that opens it alike."""

    @abstractmethod
    def open(self, file: Piece) -> Any:
        """The file's bytes as a PyArrow file; CheckpointError if they are not as they were."""

    @abstractmethod
    def check_grown(self, before: Piece, now: Piece) -> None:
        """Raise CheckpointError unless whole lines were added to the file, and nothing else."""


def store_of(pattern: str) -> Store:
    """The store of a path or pattern; raises GraphError."""
    return Bucket(pattern) if pattern.startswith(_S3) else Disk(pattern)


class Disk(Store):
    """Files of this machine, or of a file system that all machines have."""

    def __init__(self, pattern: str) -> None:
        # Absolute, since a worker may have another working directory.
        self._pattern = str(Path(pattern).absolute())
        self._seen: dict[str, tuple[tuple[int, int], Piece | None]] = {}
        """Size and time of change of each file, and the file if it was given."""

    def files(self, settle_seconds: float | None = None) -> Iterator[Piece]:
        """Look at each file; its content is read only if it is new or has changed."""
        for path in self._paths():
            try:
                status = os.stat(path)  # noqa: PTH116 - of many files
                if not stat.S_ISREG(status.st_mode) or not status.st_size:
                    continue
                version = status.st_size, status.st_mtime_ns
                seen, file = self._seen.get(path, (None, None))
                if seen != version:
                    file = None
                if file is None:
                    self._seen[path] = version, None
                    if (
                        settle_seconds is not None
                        and seen != version
                        and status.st_mtime > time.time() - settle_seconds
                    ):
                        continue
                    _check_name(path)
                    file = Piece(path, 0, status.st_size, mark_of(path, status.st_size))
                    self._seen[path] = version, file
            except FileNotFoundError:
                continue  # it vanished just now
            yield file

    def has_any(self) -> bool:
        """Look once more."""
        return Path(self._pattern).is_dir() or any(Path(path).is_file() for path in self._paths())

    def has(self, file: Piece) -> bool:
        """Whether it is on disk."""
        return not file.path.startswith(_S3)

    def open(self, file: Piece) -> Any:
        """Compare size, and the first and last bytes, and open it."""
        check_there(file)
        return import_pyarrow("a file of columns").OSFile(file.path)

    def check_grown(self, before: Piece, now: Piece) -> None:
        """Compare the bytes that there were."""
        check_grown(before, now)
        with File(now.path) as opened:
            if not ends_line(opened, before.end):
                refuse_continued(before)

    def _paths(self) -> list[str]:
        pattern = self._pattern
        if Path(pattern).is_file():  # a name may have the characters of a pattern in it
            return [pattern]
        folder, rest = (pattern, "**") if Path(pattern).is_dir() else divided(pattern)
        found = matching(folder, rest)
        return sorted({path for path in found if not _is_hidden(path[len(folder) :])})


class Bucket(Store):
    """Objects of a bucket in S3, whose versions are known by their ETags."""

    def __init__(self, pattern: str) -> None:
        try:
            self._bucket, self._pattern = split_url(pattern)
        except ConfigError as error:
            raise GraphError(error.message, error.hint) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Bucket, (f"s3://{self._bucket}/{self._pattern}",)

    @cached_property
    def s3(self) -> S3:
        """The client of this process; endpoint and credentials are those of its environment."""
        return S3.open(f"s3://{self._bucket}")

    def files(self, settle_seconds: float | None = None) -> Iterator[Piece]:
        """One listing. An object is there whole, so that it need not settle."""
        for key, size, tag in self._objects():
            if size:
                yield Piece(f"s3://{self._bucket}/{key}", 0, size, tag)

    def has_any(self) -> bool:
        """List once more."""
        return any(True for _ in self._objects())

    def has(self, file: Piece) -> bool:
        """Whether it is in the bucket."""
        return file.path.startswith(f"s3://{self._bucket}/")

    def open(self, file: Piece) -> Any:
        """The object in ranges, all of this version; reads a byte of it."""
        key = file.path[len(f"s3://{self._bucket}/") :]
        opened = RangedFile(self.s3, key, file.end, file.mark)
        try:
            opened.begin()
        except StorageError as error:
            if error.code not in ("Changed", "NoSuchKey", "NotFound"):
                raise
            raise CheckpointError(
                f"{file.path} is gone or was replaced, expected its {file.end:,} bytes as they "
                "were: not all of it was read",
                "put it back, or start the job anew",
            ) from None
        return import_pyarrow("a file of columns").PythonFile(opened, "r")

    def check_grown(self, before: Piece, now: Piece) -> None:
        """Raise CheckpointError: an object is only ever replaced."""
        raise CheckpointError(
            f"{now.path} was replaced: it has {now.end:,} bytes, and had {before.end:,} when it "
            "was read",
            "put new rows into new objects, or start the job anew",
        )

    def _objects(self) -> Iterator[tuple[str, int, str]]:
        """Key, size and tag of what matches."""
        pattern = self._pattern
        is_pattern = glob.has_magic(pattern)
        root = divided(pattern)[0] if is_pattern else pattern
        matches = re.compile(expression(pattern) if is_pattern else ".*").fullmatch
        for key, size, tag in self.s3.versions(root):
            if key == pattern or (matches(key) and not _is_hidden(key[len(root) :])):
                yield key, size, tag


def _check_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise GraphError(f"the name {path!r} is not UTF-8, expected one that is") from None


def _is_hidden(path: str) -> bool:
    """Whether a name below the pattern's folder is of a file that is not for readers.

    >>> [_is_hidden(path) for path in ("a.csv", ".a.csv", "_SUCCESS", "_temporary/a", "a.tmp")]
    [False, True, True, True, True]
    """
    names = path.strip("/").split("/")
    return names[-1].endswith(_TEMPORARY) or any(name.startswith((".", "_")) for name in names)


_S3 = "s3://"
_TEMPORARY = (".tmp", ".part", ".partial", ".inprogress", ".crc")
"""What names of files end in while they are written, and of checksums beside files."""
