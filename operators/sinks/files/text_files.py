"""Sinks that write text: lines and JSON lines, one file for each task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from engine.columns import is_columns, rows
from engine.graph.context import TaskContext
from engine.graph.failing import FailureContext
from engine.graph.operator import Properties
from engine.record.json_values import ENCODER
from operators.sinks.files.contents import Content, Contents, Layout
from operators.sinks.files.file_sink import KEPT, FileSink
from operators.sinks.files.places import Draft
from operators.sinks.lines import lines


class _TextFiles(FileSink):
    """The common part of both sinks: a line for each record."""

    def contents(self, context: TaskContext) -> Contents:
        """Lines of UTF-8."""
        return _Lines(self, context.failing)

    @abstractmethod
    def encode(self, batch: Any, failing: FailureContext) -> str:
        """The text of a batch that is not empty, every record with its line's end."""


class LineFiles(_TextFiles):
    r"""One text file for each task, `part-00000.txt` and so on, with `str(record)` on each line.

    It replaces files of an earlier job in the folder. With checkpoints there must be none, and each
    epoch has files of its own, `part-00000-00000007.txt`. Two such sinks of one job must have
    different folders. Jobs that run at once need different folders, too: of two jobs with the same
    one, one ends with an error (`claims.py`). The folder may be `s3://bucket/prefix`. A line feed
    inside a record is written as it is; `JsonLines` keeps such records apart.

    >>> LineFiles("out").encode(["a", 1], FailureContext())
    'a\n1\n'
    """

    layout = Layout(".txt")

    def encode(self, batch: list[Any], failing: FailureContext) -> str:
        """A line for each record."""
        try:
            return "\n".join(batch) + "\n"
        except TypeError:
            return lines(batch, failing)


class JsonLines(_TextFiles):
    r"""One file for each task, `part-00000.jsonl` and so on, with a JSON value on each line.

    Files are as those of `LineFiles`. Tuples become arrays; rows of columns, dataclasses and
    pydantic models become objects. NumPy's numbers become numbers, times texts by ISO 8601; a
    Decimal, a UUID and a path become texts, an enum's member its value. A record that JSON cannot
    express (bytes, NaN) fails the job.

    >>> JsonLines("out").encode([("a", 1), {"b": None}], FailureContext())
    '["a",1]\n{"b":null}\n'
    """

    layout = Layout(".jsonl")
    properties = Properties(accepts_columns=True, meaning=KEPT)

    def encode(self, batch: Any, failing: FailureContext) -> str:
        """A line for each record."""
        values = rows(batch) if is_columns(batch) else batch
        records = iter(values)
        try:
            texts = [ENCODER.encode(record) for record in records]
        except BaseException as error:
            failing.at(values, records)
            if not isinstance(error, TypeError | ValueError):
                raise
            raise ValueError(
                f"JSON cannot express it: {error}\n\nhint: map records to what JSON has first"
            ) from None
        return "\n".join(texts) + "\n"


class _Lines(Contents):
    begins_empty = True

    def __init__(self, sink: _TextFiles, failing: FailureContext) -> None:
        self._encode = sink.encode
        self._failing = failing

    def split(self, records: Any) -> Iterable[tuple[str, bytes]]:
        text = self._encode(records, self._failing)
        try:
            return [("", text.encode())]
        except UnicodeEncodeError:
            for record in records:
                try:
                    self._encode([record], self._failing).encode()
                except UnicodeEncodeError:
                    self._failing.on(record)
                    raise
            raise

    def begin(self, draft: Draft) -> Content:
        return _Text(draft)


class _Text(Content):
    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def write(self, piece: bytes) -> None:
        self._draft.file.write(piece)
