"""The files of a model on disk at the moment of packing, and a check for later changes."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError


@dataclass(frozen=True)
class FileOnDisk:
    """A file at the moment of packing."""

    path: str
    size: int
    modified_ns: int
    inode: int

    def check_unchanged(self) -> None:
        """Raise ModelError if the file was replaced or written to."""
        now = read_status(Path(self.path))
        if now != self:
            change = (
                f"has {now.size} bytes, and had {self.size}"
                if now.size != self.size
                else "was written to or replaced"
            )
            raise ModelError(
                f"file {self.path!r} changed while the model was read: it {change}",
                "write a new version beside the old one and rename the folder when it is complete",
            )


def read_status(path: Path) -> FileOnDisk:
    """The file at a path, links followed; ModelError unless it is readable."""
    try:
        # Opened without waiting for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ModelError(
            f"file {str(path)!r} of a model cannot be read: {error.strerror}",
            f"relative paths begin at {Path.cwd()}"
            if isinstance(error, FileNotFoundError)
            else None,
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{str(path)!r} is neither a file nor a folder, expected a model's file")
    return FileOnDisk(str(path), status.st_size, status.st_mtime_ns, status.st_ino)


def list_folder(folder: Path) -> tuple[list[tuple[str, FileOnDisk]], list[str]]:
    """All files below a folder, by relative POSIX path and sorted by it; the empty folders.

    Links are followed, to files and to folders; ModelError for a link that leads in a circle, to
    nothing, or for anything that is neither file nor folder.
    """
    files: list[tuple[str, FileOnDisk]] = []
    empty: list[str] = []
    waiting: list[tuple[str, Path, frozenset[str]]] = [("", folder, frozenset())]
    while waiting:
        prefix, path, above = waiting.pop()
        identity = os.path.realpath(path)
        if identity in above:
            raise ModelError(
                f"folder {str(path)!r} of a model leads back to {identity!r}, expected no circle",
                "remove the link, or publish the folder without it",
            )
        try:
            names = sorted(inner.name for inner in path.iterdir())
        except OSError as error:
            raise ModelError(
                f"folder {str(path)!r} of a model cannot be read: {error.strerror}"
            ) from error
        if prefix and not names:
            empty.append(prefix.rstrip("/"))
        for name in names:
            inner = path / name
            if inner.is_dir():
                waiting.append((f"{prefix}{name}/", inner, above | {identity}))
            else:
                files.append((f"{prefix}{name}", read_status(inner)))
    return sorted(files), sorted(empty)
