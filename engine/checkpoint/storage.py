"""Files by name in one place, which drivers and tasks of all machines see alike."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.errors import StorageError
from engine.network import mapped


class Storage(ABC):
    """Files by name, such as `log/00000001`. Thread-safe; every call raises StorageError.

    Invariant: a file of `create` exists whole or not at all, and is made once. A file of `put` may
    be incomplete after a death in the middle, so another file has to show that it is whole.
    """

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it is, as `open_storage` takes it."""

    @abstractmethod
    def put(self, name: str, *parts: bytes | memoryview) -> None:
        """Write a file, over one of this name, as these parts one behind the other.

        It outlives the machine when this returns.
        """

    @abstractmethod
    def get(self, name: str) -> bytes:
        """A whole file; a StorageError that `is_missing` if there is none."""

    def view(self, name: str) -> bytes | memoryview:
        """As `get`, of a file that is written once: all its readers may share its memory."""
        return self.get(name)

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one of this name; True if this call wrote it.

        Of any number of callers on any machines, one gets True.
        """

    @abstractmethod
    def list(self, prefix: str) -> list[str]:
        """Names of all files below this folder of names, in order."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Remove files; missing ones are ignored."""

    def sweep(self) -> None:  # noqa: B027 - most leave nothing
        """Remove files of a `create` whose process died in the middle of it."""


def is_missing(error: StorageError) -> bool:
    """Whether the error says that there is no such file."""
    return error.code in ("NotFound", "NoSuchKey")


class FolderStorage(Storage):
    """Files below a folder that all machines of the job see.

    They are for their user alone, whatever the umask is. Where the group may write to the folder
    itself, as `chmod g+ws` says, they are for that, too.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     storage = FolderStorage(Path(folder))
    ...     storage.create("log/1", b"mine"), storage.create("log/1", b"yours"), storage.list("log")
    (True, False, ['log/1'])
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    @property
    def url(self) -> str:
        """The folder."""
        return str(self._folder)

    def put(self, name: str, *parts: bytes | memoryview) -> None:
        """Write a file, over one of this name, as these parts one behind the other."""
        path = self._folder / name
        with _told(path):
            self._in_folder(path.parent, lambda: self._write(path, *parts))

    def get(self, name: str) -> bytes:
        """A whole file; raises a StorageError that `is_missing` if there is none."""
        path = self._folder / name
        with _told(path):
            return path.read_bytes()

    def view(self, name: str) -> bytes | memoryview:
        """As `get`; on a disk of this machine, the memory is the file itself."""
        with suppress(OSError):  # which reading meets, too, and tells
            if (view := mapped(str(self._folder / name))) is not None:
                return view
        return self.get(name)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one of this name; True if this call wrote it.

        A death in the middle leaves a file that `list` leaves out.
        """
        path = self._folder / name
        partial = path.with_name(f"{path.name}{_PARTIAL}{secrets.token_hex(4)}")

        def write() -> None:
            try:
                self._write(partial, data)
                os.link(partial, path)
            finally:
                partial.unlink(missing_ok=True)

        with _told(path):
            try:
                self._in_folder(path.parent, write)
            except FileExistsError:
                return False
        return True

    def list(self, prefix: str) -> list[str]:
        """Names of all files below this folder of names, in order, that are whole."""
        return [name for name in _files(self._folder, prefix) if _PARTIAL not in name]

    def sweep(self) -> None:
        """Remove files of dead `create` calls; a running call begins again."""
        self.delete(name for name in _files(self._folder, "") if _PARTIAL in name)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files, and folders that become empty; missing ones are ignored."""
        for name in names:
            path = self._folder / name
            with _told(path):
                path.unlink(missing_ok=True)
            parent = path.parent
            while parent != self._folder:
                try:
                    parent.rmdir()
                except OSError:  # it is not empty, or another was faster
                    break
                parent = parent.parent

    def _in_folder(self, folder: Path, write: Callable[[], None]) -> None:
        """Write into this folder, which is made where it is missing; names outlive the machine."""
        for attempt in range(_ATTEMPTS):
            try:
                self._make(folder)
                write()
                break
            except FileNotFoundError:  # `delete` found the folder empty
                if attempt == _ATTEMPTS - 1:
                    raise
        with suppress(FileNotFoundError):  # who waited for the file has deleted it already
            _sync_folder(folder)

    def _make(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        parts = folder.relative_to(self._folder).parts
        for depth in range(len(parts) + 1):
            each = self._folder.joinpath(*parts[:depth])
            with suppress(FileExistsError):
                each.mkdir(mode=0o700)
                if depth and (shared := self._shared) is not None:
                    each.chmod(0o770 | shared)

    def _write(self, path: Path, *parts: bytes | memoryview) -> None:
        try:
            with open(path, "wb", opener=_private) as file:
                if self._shared is not None:
                    with suppress(PermissionError):  # it was there, and is somebody else's
                        os.fchmod(file.fileno(), 0o660)
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):  # what is torn by a full disk gives its space back
                path.unlink(missing_ok=True)
            raise

    @property
    def _shared(self) -> int | None:
        """Where the folder is the group's, too, whether names below it get its group (S_ISGID)."""
        mode = self._folder.stat().st_mode
        return mode & stat.S_ISGID if mode & stat.S_IWGRP else None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _files(root: Path, prefix: str) -> list[str]:
    top = root / prefix
    with _told(top):
        return sorted(
            Path(folder, name).relative_to(root).as_posix()
            for folder, _, names in os.walk(top, onerror=_raise_unless_missing)
            for name in names
        )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        code = errno.errorcode.get(number, "Unknown")
        code = "NotFound" if isinstance(error, FileNotFoundError) else code
        raise StorageError(
            f"{path}: {os.strerror(number) if number else error}", _HINTS.get(number), code=code
        ) from None


_ATTEMPTS = 20
_PARTIAL = "~"
"""In names of files that `create` has not made whole yet."""
_HINTS = {
    errno.ENOSPC: "the disk is full: free some of it, or take another folder for checkpoints",
    errno.EDQUOT: "the quota is used up: free some of it, or take another folder for checkpoints",
    errno.EACCES: "all machines of the job write there: check the folder's owner and mode",
    errno.EROFS: "the file system is read-only: take another folder for checkpoints",
    errno.ENOENT: "do all machines of the job see the same folder?",
    errno.ENOTDIR: "a file is where a folder is needed: take another folder for checkpoints",
    errno.EPERM: "the file system has no hard links: take another, or S3",
    errno.ENOTSUP: "the file system has no hard links: take another, or S3",
}
