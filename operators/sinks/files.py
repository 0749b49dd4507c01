"""Sinks that write files: text lines and JSON lines, one file for each task.

Invariant: a file with its final name is whole. Until a task has written all it is to write, its
file has a temporary name in the same folder; a job that fails or is cancelled removes that, also
that of a task that was killed (where the driver sees the folder).
"""

import contextlib
import json
import os
import re
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from engine.columns import is_columns, rows
from engine.errors import GraphError
from engine.graph.failing import Failing
from engine.graph.operator import Properties, SinkOperator, SinkWriter, TaskContext
from operators.sinks.lines import lines


class _Files(SinkOperator[Any]):
    """What both have in common: the folder, and how a task's file comes to its name."""

    suffix: ClassVar[str]

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        # Absolute, since a worker may have another working directory.
        self.folder = Path(folder).absolute()
        self.job = ""

    def validate(self) -> None:
        """Make the folder; `GraphError` if that or writing to it is not possible."""
        self.job = uuid4().hex
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GraphError(
                f"folder {str(self.folder)!r} cannot be made: {error.strerror}, expected a folder"
            ) from None
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise GraphError(f"folder {str(self.folder)!r} may not be written to")

    def abort(self) -> None:
        """Remove the temporary files of the job."""
        for path in self.folder.glob(f".part-*.{self.job}.tmp"):
            path.unlink(missing_ok=True)

    def open(self, context: TaskContext) -> SinkWriter:
        """A temporary file in the folder."""
        return _FileWriter(self, context)

    @abstractmethod
    def encode(self, batch: Any, failing: Failing) -> str:
        """The text of a batch that is not empty, every record with its line's end."""


class LineFiles(_Files):
    r"""One text file for each task, `part-00000.txt` and so on, with `str(record)` on each line.

    Files of an earlier job in the folder are replaced. A line feed inside a record is written as
    it is; `JsonLines` keeps such records apart.

    >>> LineFiles("out").encode(["a", 1], Failing())
    'a\n1\n'
    """

    suffix = ".txt"

    def encode(self, batch: list[Any], failing: Failing) -> str:
        """A line for each record."""
        try:
            return "\n".join(batch) + "\n"
        except TypeError:
            return lines(batch, failing)


class JsonLines(_Files):
    r"""One file for each task, `part-00000.jsonl` and so on, with a JSON value on each line.

    Files of an earlier job in the folder are replaced. Tuples become arrays, rows of columns become
    objects; a record that JSON cannot express (bytes, NaN) fails the job.

    >>> JsonLines("out").encode([("a", 1), {"b": None}], Failing())
    '["a",1]\n{"b":null}\n'
    """

    suffix = ".jsonl"
    properties = Properties(accepts_columns=True)

    def encode(self, batch: Any, failing: Failing) -> str:
        """A line for each record."""
        values = rows(batch) if is_columns(batch) else batch
        records = iter(values)
        try:
            texts = list(map(_JSON.encode, records))
        except BaseException as error:
            failing.at(values, records)
            if not isinstance(error, TypeError | ValueError):
                raise
            raise ValueError(
                f"JSON cannot express it: {error}\n\nhint: map records to what JSON has first"
            ) from None
        return "\n".join(texts) + "\n"


class _FileWriter(SinkWriter):
    def __init__(self, sink: _Files, context: TaskContext) -> None:
        folder = sink.folder
        folder.mkdir(parents=True, exist_ok=True)  # the driver's may be another machine's
        self._encode = sink.encode
        self._failing = context.failing
        self._final = folder / f"part-{context.index:05}{sink.suffix}"
        self._temporary = folder / f".{self._final.name}.{sink.job}.tmp"
        self._file = self._temporary.open("x", encoding="utf-8", newline="\n")
        self._parallelism = context.parallelism
        self._removes = context.index == 0

    def write(self, records: Any) -> None:
        if not len(records):
            return
        text = self._encode(records, self._failing)
        try:
            self._file.write(text)
        except UnicodeEncodeError:
            for record in records:
                try:
                    self._encode([record], self._failing).encode()
                except UnicodeEncodeError:
                    self._failing.on(record)
                    raise
            raise

    def prepare(self, _epoch: int) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def commit(self, _epoch: int, _prepared: None) -> str:
        self._temporary.replace(self._final)
        if self._removes:
            self._remove_parts_beyond()
        _sync_folder(self._final.parent)
        return str(self._final)

    def abort(self) -> None:
        with contextlib.suppress(OSError):  # what cannot be flushed is removed all the same
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def _remove_parts_beyond(self) -> None:
        """Parts that an earlier job with more tasks left would else pass for this job's."""
        name = re.compile(rf"part-(\d{{5,}}){re.escape(self._final.suffix)}")
        for path in self._final.parent.iterdir():
            match = name.fullmatch(path.name)
            if match and int(match[1]) >= self._parallelism:
                path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)  # makes the new name last
    finally:
        os.close(handle)


_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
