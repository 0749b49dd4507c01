"""Where histories lie: a folder of the user's with the last ones, or where the job says."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from pathlib import Path

from engine.history.file import UNFINISHED, read_lines
from engine.history.process import is_alive
from engine.history.retention import Record, decoded, is_of
from engine.installation.folders import state_folder


def jobs_folder() -> Path:
    """The folder of this user's jobs: `$XDG_STATE_HOME/oka/jobs`, or `~/.local/state/oka/jobs`."""
    return state_folder() / "jobs"


def new_path(history: str, name: str) -> Path:
    """The file of a new job: `history` is "auto", a folder, or a file that ends in `.oka`.

    Makes the folder, and removes the oldest histories in it. Raises OSError, and FileExistsError
    for a file that is no history or that of a running job.
    """
    if history != "auto" and history.endswith(SUFFIX):
        path = Path(history)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size:
            first = first_record(path)
            if first is None:
                raise FileExistsError(f"{path} is no history of a job")
            if _is_written(path, first):
                raise FileExistsError(f"{path} is the history of a job that is running")
        return path
    folder = jobs_folder() if history == "auto" else Path(history)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_oldest(folder)
    began = time.strftime("%Y%m%d-%H%M%S", time.localtime())
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:60] or "job"
    for number in range(_MOST_AT_ONCE):
        path = folder / f"{plain}-{began}{f'-{number}' if number else ''}{SUFFIX}"
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return path
    raise FileExistsError(f"{folder} has {_MOST_AT_ONCE} histories of this second")


def histories(folder: Path) -> list[Path]:
    """The files in the folder that end as histories do, the newest last."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):  # removed just now
            status = path.stat()
            if stat.S_ISREG(status.st_mode):  # else reading might wait for ever
                found.append((status.st_mtime, path))
    return [path for _, path in sorted(found)]


def first_record(path: Path) -> Record | None:
    """The record that every history begins with; None if the file has none."""
    try:
        for line in read_lines(path):
            record = decoded(line)
            return record if record is not None and record["kind"] == "job" else None
    except OSError:
        pass
    return None


def is_running(path: Path, first: Record) -> bool:
    """Whether a job writes to the file: its process lives, or it has written just now.

    Only the machine of the job knows its process.
    """
    alive = is_alive(first.get("process"))
    if alive is not None:
        return alive
    try:
        return time.time() - path.stat().st_mtime < _SILENT_SECONDS
    except OSError:
        return False


def _is_written(path: Path, first: Record) -> bool:
    """Whether a job may still write to the file; its process may have other jobs by now."""
    return is_running(path, first) and not any(is_of("end", line) for line in read_lines(path))


def _remove_oldest(folder: Path) -> None:
    """Leave room for one more; whatever cannot be removed stays."""
    for path in folder.glob(f".*{SUFFIX}{UNFINISHED}"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _UNFINISHED_SECONDS:
                path.unlink()
    left = histories(folder)
    for path in left[: max(0, len(left) - MOST_JOBS + 1)]:
        with contextlib.suppress(OSError):
            first = first_record(path)
            is_left = path.stat().st_size == 0 if first is None else not _is_written(path, first)
            if is_left:
                path.unlink()


SUFFIX = ".oka"
MOST_JOBS = 50
_MOST_AT_ONCE = 1000
_SILENT_SECONDS = 30.0
_UNFINISHED_SECONDS = 600.0
