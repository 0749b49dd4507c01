"""Sinks that write files: the place of the files, and one writer for each task.

Files go to a folder or to S3 (`places.py`), under the same names (`names.py`). What is in them is
the business of `contents.py`.

Invariant: a file with its final name is whole. Until a task has written all of it, its file has a
temporary name in the same folder. A job that fails or is cancelled removes such files, also those
of killed tasks (if the driver sees the folder).

With checkpoints there are files for each task and epoch. A file that a task has prepared has a
third name. The next driver of the job gives it its last name, or removes it. Both names have the
generation of the driver: a driver that was replaced, and does not know it, leaves the files of
later ones alone.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import replace
from typing import Any
from uuid import uuid4

from engine.checkpoint.owner import Owner
from engine.errors import GraphError
from engine.graph.context import TaskContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from operators.sinks.files.contents import Contents, Layout
from operators.sinks.files.file_writer import FileWriter
from operators.sinks.files.places import CLAIM
from operators.sinks.files.url import place_of

KEPT = {"kind": "files"}
"""The meaning of state: each sink of files can make final what any of them has prepared."""


class FileSink(SinkOperator[Any]):
    """The common part of all sinks of files: the place, and whose it is."""

    layout: Layout
    properties = Properties(meaning=KEPT)

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.place = place_of(folder)
        self.job = ""
        self.owner = Owner("", "", 0, 0.0)

    @property
    def files(self) -> str:
        """The folder, or s3://bucket/prefix."""
        return self.place.url

    @abstractmethod
    def contents(self, context: TaskContext, /) -> Contents:
        """What the files of a task have in them."""

    def validate(self) -> None:
        """Make the folder; `GraphError` if making it or writing to it is not possible."""
        self.job, self.owner = uuid4().hex, Owner.here("")
        self.place.validate()

    def validate_beside(self, other: SinkOperator[Any]) -> None:
        """Refuse another sink with files of this kind in the same folder, however it is spelt."""
        if not isinstance(other, FileSink) or other.layout.kind != self.layout.kind:
            return
        holds = self.layout.folders and self.place.holds(other.place)
        is_inside = other.layout.folders and other.place.holds(self.place)
        if holds or is_inside or self.place.is_same(other.place):
            how = "holds" if holds else "is in" if is_inside else "is"
            mine, others = self.place.url, other.place.url
            raise GraphError(
                f"both write part-*{self.layout.kind} into {mine!r}"
                + (f", which {how} {others!r}" if mine != others else "")
                + ", expected a folder for each: they would replace each other's files",
                hint="give each a folder of its own, or one sink both streams by union",
            )

    def abort(self) -> None:
        """Remove the temporary files of the job."""
        self.place.drop([name for name in self.place.names() if self._is_temporary(name)])

    def _is_temporary(self, name: str) -> bool:
        is_of_job = name.startswith(".part-") and f".{self.job}." in name
        return is_of_job and name.endswith((".tmp", CLAIM))

    def open(self, context: TaskContext) -> SinkWriter:
        """A claim to the place, and files there."""
        job, owner = self.job, replace(self.owner, job=context.job_name)
        return FileWriter(self.place, self.layout, self.contents, job, owner, context)
