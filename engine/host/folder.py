"""The folder of a job for its local sockets, and the removal of dead jobs' folders.

Invariant: every process of the job that may put something into the folder holds a lock of it
(flock, shared). A folder without a lock belongs to a killed job, and the next job of the same user
on this machine removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path


class JobFolder:
    """A folder that this process holds; only its user can open it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock: int | None = None
        self.hold()

    def hold(self) -> None:
        """Hold the folder, also after `leave`; idempotent.

        The first process of a job makes it, and removes the folders of dead jobs.
        """
        if self._lock is not None:
            return
        try:
            Path(self.path).mkdir(mode=0o700)
            _remove_dead_folders(Path(self.path).parent)
        except FileExistsError:
            pass
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    @classmethod
    def create(cls) -> JobFolder:
        """A new folder among the machine's temporary files."""
        _remove_dead_folders(Path(tempfile.gettempdir()))
        return cls(tempfile.mkdtemp(prefix=PREFIX))

    def clear(self, task: int) -> None:
        """Remove the files of the task's killed workers."""
        for path in Path(self.path).glob(f"{task}.*"):
            path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Release the folder; the last process to leave it empty removes it. Idempotent."""
        with contextlib.suppress(OSError):
            Path(self.path).rmdir()
        self._unlock()

    def remove(self) -> None:
        """Release the folder and remove it with its contents; idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _remove_dead_folders(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # it was removed just now, or belongs to somebody else
            status = path.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _LOCKED_BY_THEN:
                _remove_if_dead(path)


def _remove_if_dead(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: its job lives
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


PREFIX = "oka-job-"

_LOCKED_BY_THEN = 10.0
"""Seconds that a new folder may be without a lock."""
