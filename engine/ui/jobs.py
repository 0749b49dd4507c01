"""The jobs of a page: files of histories that are found anew each time, by their names alone."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import ConfigError
from engine.history.places import SUFFIX
from engine.history.reading import JobHistory, whole
from engine.history.retention import Record
from engine.history.view import NOT_LISTED, listed
from engine.ui.content import Content
from engine.ui.tail import Tail
from engine.web.guard import Refused


class Jobs:
    """The jobs whose histories lie where `paths` says, the newest last; any thread may ask."""

    def __init__(self, paths: Callable[[], Sequence[Path]]) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._tails: OrderedDict[Path, Tail] = OrderedDict()
        """Those that were asked for last."""
        self._listing = threading.Lock()
        self._rows: dict[Path, tuple[tuple[int, ...], float, Record | None]] = {}
        """Rows of the list, of the file as it was, and when that was."""

    def listed(self) -> Content:
        """The list of all; what is no history is left out."""
        with self._listing:
            paths = self._paths()
            self._rows = {path: row for path, row in self._rows.items() if path in paths}
            rows = [row for path in paths if (row := self._row(path)) is not None]
        current = rows[0]["job"] if len(rows) == 1 else None
        return Content(json.dumps({"jobs": rows, "current": current}).encode())

    def answer(
        self, job: str, generation: int | None, after: int, actions: Sequence[str]
    ) -> tuple[Content, str]:
        """The records of a job and its state, as `Tail.answer`; raises Refused if there is none."""
        try:
            return self._tail(job).answer(generation, after, actions)
        except OSError:
            raise _unknown(job) from None

    def check(self, job: str) -> None:
        """Raise Refused if there is no such job."""
        self._tail(job)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for tail in self._tails.values():
                tail.close()

    def _tail(self, job: str) -> Tail:
        path = next((each for each in self._paths() if name_of(each) == job), None)
        if path is None:
            raise _unknown(job)
        with self._lock:
            tail = self._tails.pop(path, None) or Tail(path)
            self._tails[path] = tail
            while len(self._tails) > _MOST_TAILS:
                self._tails.popitem(last=False)[1].close()
            return tail

    def _row(self, path: Path) -> Record | None:
        with self._lock:
            tail = self._tails.get(path)
        try:
            return _finite(tail.row()) if tail is not None else self._read(path)
        except (OSError, ConfigError):
            return None

    def _read(self, path: Path) -> Record | None:
        found = path.stat()
        stamp = found.st_ino, found.st_mtime_ns, found.st_size
        before = self._rows.get(path)
        now = time.monotonic()
        if before is not None:
            is_running = before[2] is not None and before[2]["state"] == "running"
            is_recent = now - before[1] < _RUNNING_SECONDS
            if is_recent if is_running else before[0] == stamp:
                return before[2]
        try:
            history = JobHistory.read(path, without=NOT_LISTED)
            with whole(history):
                row = _finite(listed(history))
        except ConfigError:
            row = None
        self._rows[path] = stamp, now, row
        return row


def name_of(path: Path) -> str:
    """What the job is called in lists and links."""
    return path.name.removesuffix(SUFFIX)


def _finite(row: Record) -> Record:
    """The row; raises ConfigError where it has numbers that are none, as no job writes."""
    try:
        json.dumps(row, allow_nan=False)
    except ValueError as error:
        raise ConfigError(f"{row['job']!r} is damaged: {error}") from None
    return row


def _unknown(job: str) -> Refused:
    return Refused(404, f"there is no job {job[:200]!r} here", "oka jobs lists those of this user")


_MOST_TAILS = 4
"""Files that are kept in memory, of some 20 MB at most as text."""
_RUNNING_SECONDS = 5.0
"""How long the row of a running job stands, which nobody looks at."""
