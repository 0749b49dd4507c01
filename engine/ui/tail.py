"""The end of a history, read as it grows: its lines as they are, for any number of pages.

Invariant: a line that is sent is a JSON object, whatever the file has.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.history.file import HistoryReader
from engine.history.reading import JobHistory, whole
from engine.history.retention import Record, decoded
from engine.history.view import listed
from engine.ui.content import Content


class Tail:
    """Reads one file, at most a few times a second; any thread may ask."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._reader: HistoryReader | None = None
        self._read_at = 0.0
        self._generation = 0
        """A number of this reading of the file, which other readings do not have."""
        self._lines: list[bytes] = []
        self._history = JobHistory(path)
        self._answers: dict[int, Content] = {}
        """To those who had so many lines; all of the same state."""
        self._of: tuple[Any, ...] = ()
        """What the answers tell of, beside lines."""
        self._row: tuple[float, str, Record] | None = None

    def answer(
        self, generation: int | None, after: int, actions: Sequence[str]
    ) -> tuple[Content, str]:
        """The lines behind so many of this generation, or all; and the state of the job.

        Raises OSError where the file is gone.
        """
        with self._lock:
            self._read()
            state, count = self._history.state, len(self._lines)
            offered = list(actions) if state == "running" else []
            if self._of != (self._generation, count, state, offered):
                self._of = self._generation, count, state, offered
                self._answers = {}
            if generation != self._generation or not 0 <= after <= count:
                after = 0
            found = self._answers.get(after)
            if found is None:
                about = {"generation": self._generation, "next": count, "state": state}
                head = json.dumps({**about, "actions": offered})[:-1].encode()
                body = b'%b, "records": [%b]}' % (head, b",\n".join(self._lines[after:]))
                if len(self._answers) >= _MOST_ANSWERS:
                    self._answers = {}
                found = self._answers[after] = Content(body)
            return found, state

    def row(self) -> Record:
        """The job in a list; raises OSError, and ConfigError where records are damaged."""
        with self._lock:
            self._read()
            state, now = self._history.state, time.monotonic()
            if self._row is None or self._row[1] != state or now - self._row[0] > _ROW_SECONDS:
                with whole(self._history):
                    self._row = now, state, listed(self._history)
            return self._row[2]

    def close(self) -> None:
        """Close the file; it is read anew if somebody asks again."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
            self._reader = None

    def _read(self) -> None:
        now = time.monotonic()
        if self._reader is not None and now - self._read_at < _READ_SECONDS:
            return
        if self._reader is None or self._reader.is_replaced:
            anew = HistoryReader(self._path)
            if self._reader is not None:
                self._reader.close()
            self._reader, self._history, self._lines = anew, JobHistory(self._path), []
            self._generation = secrets.randbelow(1 << 48)
        for line in self._reader.lines():
            if (record := decoded(line)) is not None and (sent := _in_json(line, record)):
                self._lines.append(sent)
                if record["kind"] != "tasks":  # most of a file, which no list needs
                    self._history.take(record)
        self._read_at = now


def _in_json(line: bytes, record: Record) -> bytes:
    """The line; where Python reads more than JSON has, what it read. Empty if that is no JSON."""
    if line[:1] == b"{" and not any(each in line for each in (b"NaN", b"Infinity", b"\0")):
        return line
    try:
        return json.dumps(_plain(record), allow_nan=False).encode()
    except (ValueError, RecursionError):
        return b""


def _plain(value: Any) -> Any:
    """The value with null for each number that JSON does not have."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


_READ_SECONDS = 0.2
_ROW_SECONDS = 5.0
_MOST_ANSWERS = 8
