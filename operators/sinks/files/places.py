"""The place of a sink's files: a folder, or a prefix in S3.

Both take a file in two steps. A staged file outlives the machine, and has no final name yet;
`finish` gives it that name, and may be called again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from engine.errors import GraphError


class Place(ABC):
    """A place for files by name. It can be pickled."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL or path, as users write it."""

    @abstractmethod
    def validate(self) -> None:
        """Raise GraphError if nothing can be written to it. Called on the driver."""

    @abstractmethod
    def is_same(self, other: Place) -> bool:
        """Whether both are the same place, however they are spelt."""

    @abstractmethod
    def holds(self, other: Place) -> bool:
        """Whether the other is a folder somewhere in this one."""

    @abstractmethod
    def make(self) -> None:
        """Make the place for a task that will write, if it is missing."""

    @abstractmethod
    def names(self, folders: str = "") -> Iterable[str]:
        """Names of all files that are there now, final or not, without those of sub-folders.

        With `folders`, such as "day=*/hour=*", also those of the sub-folders with such names.
        """

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def open(self, temporary: str) -> Draft:
        """Begin a file under a temporary name that nobody else uses."""

    @abstractmethod
    def finish(self, staged: str, final: str, token: str) -> bool:
        """Make a staged file final, in place of an existing one, maybe in a sub-folder.

        False if there is no file of this name: it was finished or dropped. `token` is the result of
        `Draft.stage` here; that of another place is "".
        """

    @abstractmethod
    def drop(self, names: Iterable[str]) -> None:
        """Remove files of these names, final or not; missing ones are ignored."""

    @abstractmethod
    def hold(self, name: str, text: str) -> Hold:
        """Write a small file and hold it until the returned `Hold` ends or is dropped."""

    @abstractmethod
    def is_held(self, name: str) -> bool | None:
        """Whether a living process holds the file; None where that is unknown."""

    @abstractmethod
    def read(self, name: str) -> str | None:
        """The text of a small file; None if there is none."""

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Replace the content of a small file by a longer one. Holds of it stay."""

    @abstractmethod
    def gone(self) -> OSError:
        """The error for a task whose files there are gone."""

    def of(self, name: str) -> str:
        """The file of this name as people write it."""
        return f"{self.url}/{name}"


class Hold:
    """Holds a small file, in a place that has locks."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor

    def end(self) -> None:
        """Release it; idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.end()


class Draft(ABC):
    """A file that is being written."""

    file: BinaryIO

    def check(self) -> None:  # noqa: B027 - nobody removes a file without a name
        """Raise an error if somebody has removed the file."""

    def again(self) -> BinaryIO:
        """The same file at the same place in it, as an object that a library may close."""
        self.file.flush()
        return os.fdopen(os.dup(self.file.fileno()), "wb")

    @property
    def size(self) -> int:
        """Bytes that have been written, but for the last few."""
        return os.fstat(self.file.fileno()).st_size

    @abstractmethod
    def stage(self, staged: str, final: str) -> str:
        """Keep it as `staged` and close it; returns the token with which `finish` makes it `final`.

        After an error it may be called again.
        """

    def close(self) -> None:
        """Close it, staged or not; idempotent."""
        with contextlib.suppress(OSError):  # content that cannot be flushed is dropped, too
            self.file.close()


class Folder(Place):
    """A folder on a task's machine; several machines may share it."""

    def __init__(self, path: Path) -> None:
        # Absolute, since a worker may have another working directory.
        self.path = path.absolute()

    @property
    def url(self) -> str:
        """The folder."""
        return str(self.path)

    def validate(self) -> None:
        """Make the folder on this machine, too."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GraphError(
                f"folder {self.url!r} cannot be made: {error.strerror}, expected a folder"
            ) from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise GraphError(f"folder {self.url!r} may not be written to")

    def is_same(self, other: Place) -> bool:
        """Whether the other is the same folder, by links or not."""
        return isinstance(other, Folder) and self.path.samefile(other.path)

    def holds(self, other: Place) -> bool:
        """Whether the other is somewhere in this folder, by links or not."""
        return isinstance(other, Folder) and self.path.resolve() in other.path.resolve().parents

    def make(self) -> None:
        """Make the folder, on the machine of this task."""
        self.path.mkdir(parents=True, exist_ok=True)

    def names(self, folders: str = "") -> Iterable[str]:
        """Names of all files in the folder; none if it is missing."""
        try:
            names = [path.name for path in self.path.iterdir()]
        except FileNotFoundError:
            return []
        if folders:
            below = self.path.glob(f"{folders}/*")
            names += [path.relative_to(self.path).as_posix() for path in below]
        return names

    def has(self, name: str) -> bool:
        """Whether the folder has such a file."""
        return (self.path / name).exists()

    def open(self, temporary: str) -> Draft:
        """Begin a file in the folder, under this name."""
        return _FileDraft(self, temporary)

    def finish(self, staged: str, final: str, token: str) -> bool:
        """Rename the staged file; False if it is missing."""
        before, path = self.path / staged, self.path / final
        try:
            if path.parent != self.path and before.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
            before.replace(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        for folder in path.parents[: len(Path(final).parts)]:
            _sync(folder)
        return True

    def drop(self, names: Iterable[str]) -> None:
        """Remove files of these names; missing ones are ignored."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def hold(self, name: str, text: str) -> Hold:
        """Write a small file and lock it; the lock ends with the process."""
        before = self.path / f"{name}{BEGUN}"
        try:
            hold = Hold(descriptor := os.open(before, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            with contextlib.suppress(OSError):  # file systems without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, text.encode())
            before.rename(self.path / name)  # it becomes visible when it is locked
        except FileNotFoundError:
            raise self.gone() from None
        return hold

    def is_held(self, name: str) -> bool | None:
        """Whether a process has locked the file; None where that is unknown."""
        return _is_locked(self.path / name)

    def read(self, name: str) -> str | None:
        """The text of a small file; None if there is none."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, text: str) -> None:
        """Overwrite a small file, which keeps its lock; nothing happens if it is gone."""
        with contextlib.suppress(FileNotFoundError), (self.path / name).open("r+b") as file:
            file.write(text.encode())

    def gone(self) -> OSError:
        """The error for a task whose folder, or output there, is gone."""
        what = "what this task has written there" if self.path.is_dir() else "it"
        return FileNotFoundError(
            f"the folder {self.url!r} was deleted or moved while the job runs: {what} is "
            "gone, expected it to stay until the job has ended\n\n"
            "hint: run the job again, without that"
        )


class _FileDraft(Draft):
    def __init__(self, folder: Folder, temporary: str) -> None:
        self._folder = folder
        self._path = folder.path / temporary
        try:
            self.file = self._path.open("xb", BUFFER)
        except FileNotFoundError:
            raise folder.gone() from None

    def check(self) -> None:
        if not os.fstat(self.file.fileno()).st_nlink:
            raise self._folder.gone()

    def stage(self, staged: str, final: str) -> str:
        if not self.file.closed:
            self.file.flush()
            self.check()
            os.fsync(self.file.fileno())
            self.file.close()
        if staged != self._path.name:
            try:
                self._path.rename(self._folder.path / staged)
            except FileNotFoundError:
                raise self._folder.gone() from None
            _sync(self._folder.path)
        return ""


def _sync(folder: Path) -> None:
    """Write the folder's names to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it was just removed, or the file system has no locks
        return False
    return False


CLAIM = ".claim"
"""The suffix of claims."""
BEGUN = ".tmp"
"""What follows the name of a claim that is being written."""
BUFFER = 1 << 16
"""Bytes of a file that wait in memory: small batches then need few calls of the system."""
