"""Sinks that write files: text lines and JSON lines, one file for each task.

They go to a folder or to S3 (`places.py`), under the same names.

Invariant: a file with its final name is whole. Until a task has written all of it, its file has a
temporary name in the same folder. A job that fails or is cancelled removes such files, also those
of killed tasks (if the driver sees the folder).

With checkpoints there is a file for each task and epoch. A file that a task has prepared has a
third name. The next driver of the job gives it its last name, or removes it. Both names have the
generation of the driver: a driver that was replaced, and does not know it, leaves the files of
later ones alone.
"""

import json
import logging
import os
import re
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar
from uuid import uuid4

from engine.columns import is_columns, rows
from engine.errors import CheckpointError, GraphError
from engine.graph.context import TaskContext
from engine.graph.failing import FailureContext
from engine.graph.operator import Properties
from engine.graph.sink import SinkOperator, SinkWriter
from engine.json_values import ENCODER
from engine.owner import Owner
from operators.sinks.claims import Claim
from operators.sinks.lines import lines
from operators.sinks.places import CLAIM, Draft
from operators.sinks.url import place_of

logger = logging.getLogger("oka")
_KEPT = {"kind": "files"}
"""The meaning of state: each sink here can make final what any of them has prepared."""


class _Files(SinkOperator[Any]):
    """The common part of both sinks: the place, and the naming of a task's file."""

    suffix: ClassVar[str]
    properties = Properties(meaning=_KEPT)

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.place = place_of(folder)
        self.job = ""
        self.owner = Owner("", "", 0, 0.0)

    @property
    def files(self) -> str:
        """The folder, or s3://bucket/prefix."""
        return self.place.url

    def validate(self) -> None:
        """Make the folder; `GraphError` if making it or writing to it is not possible."""
        self.job, self.owner = uuid4().hex, Owner.here("")
        self.place.validate()

    def validate_beside(self, other: SinkOperator[Any]) -> None:
        """Refuse another sink with files of this kind in the same folder, however it is spelt."""
        if (
            isinstance(other, _Files)
            and other.suffix == self.suffix
            and self.place.is_same(other.place)
        ):
            mine, others = self.place.url, other.place.url
            raise GraphError(
                f"both write part-*{self.suffix} into {mine!r}"
                + (f", which is {others!r}" if mine != others else "")
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
        """A claim to the place, and a temporary file there."""
        return _FileWriter(self, context)

    @abstractmethod
    def encode(self, batch: Any, failing: FailureContext) -> str:
        """The text of a batch that is not empty, every record with its line's end."""


class LineFiles(_Files):
    r"""One text file for each task, `part-00000.txt` and so on, with `str(record)` on each line.

    It replaces files of an earlier job in the folder. With checkpoints there must be none, and each
    epoch has files of its own, `part-00000-00000007.txt`. Two such sinks of one job must have
    different folders. Jobs that run at once need different folders, too: of two jobs with the same
    one, one ends with an error (`claims.py`). The folder may be `s3://bucket/prefix`. A line feed
    inside a record is written as it is; `JsonLines` keeps such records apart.

    >>> LineFiles("out").encode(["a", 1], Failing())
    'a\n1\n'
    """

    suffix = ".txt"

    def encode(self, batch: list[Any], failing: FailureContext) -> str:
        """A line for each record."""
        try:
            return "\n".join(batch) + "\n"
        except TypeError:
            return lines(batch, failing)


class JsonLines(_Files):
    r"""One file for each task, `part-00000.jsonl` and so on, with a JSON value on each line.

    Files are as those of `LineFiles`. Tuples become arrays; rows of columns, dataclasses and
    pydantic models become objects. NumPy's numbers become numbers, times texts by ISO 8601; a
    Decimal, a UUID and a path become texts, an enum's member its value. A record that JSON cannot
    express (bytes, NaN) fails the job.

    >>> JsonLines("out").encode([("a", 1), {"b": None}], Failing())
    '["a",1]\n{"b":null}\n'
    """

    suffix = ".jsonl"
    properties = Properties(accepts_columns=True, meaning=_KEPT)

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


class _FileWriter(SinkWriter):
    def __init__(self, sink: _Files, context: TaskContext) -> None:
        self._place = sink.place
        self._place.make()
        self._encode = sink.encode
        self._failing = context.failing
        self._index, self._parallelism = context.index, context.parallelism
        self._suffix = sink.suffix
        self._by_epoch = context.checkpoints
        self._generation = context.generation
        self._committed = context.committed
        self._identity = context.identity
        owner = replace(sink.owner, job=context.job_name)
        files = (context.index, sink.suffix)
        self._claim = Claim(
            self._place, sink.job, owner, files, context.generation, checkpoints=self._by_epoch
        )
        self._claim.take()
        whose = f"{sink.job}.{context.generation}"
        self._temporary = f".part-{context.index:05}{sink.suffix}.{whose}.tmp"
        self._draft: Draft | None = None
        """The draft that is not staged yet; an epoch without records has none."""
        if not self._by_epoch:
            self._draft = self._place.open(self._temporary)

    def write(self, records: Any) -> None:
        if not len(records):
            return
        text = self._encode(records, self._failing)
        if self._draft is None:
            self._draft = self._place.open(self._temporary)
        if not self._by_epoch:  # otherwise each epoch has a file
            self._claim.check_now_and_then()
        try:
            self._draft.write(text)
        except UnicodeEncodeError:
            for record in records:
                try:
                    self._encode([record], self._failing).encode()
                except UnicodeEncodeError:
                    self._failing.on(record)
                    raise
            raise

    def prepare(self, epoch: int) -> tuple[Any, ...] | None:
        """The final name and its token; with checkpoints also the generation and the place."""
        if self._draft is None:
            return None
        name = f"part-{self._index:05}{self._suffix}"
        staged = self._temporary
        if self._by_epoch:
            name = f"part-{self._index:05}-{epoch:08}{self._suffix}"
            staged = _prepared(name, self._generation)  # `abort` removes no file of this name
        self._claim.check()
        token = self._draft.stage(staged, name)
        if self._by_epoch:
            self._draft = None
        return name, self._generation, self._place.url, token

    def commit(self, epoch: int, prepared: Any) -> str | None:
        if prepared is None:
            return None
        self._claim.check()
        if self._by_epoch:
            return self._commit_epoch(epoch, prepared)
        name, _, _, token = prepared
        if not self._place.finish(self._temporary, name, token):
            raise self._place.gone()
        if self._draft is not None:
            self._draft.close()
        if self._index == 0:
            self._remove_parts_beyond()
        self._claim.release()
        return self._place.of(name)

    def _commit_epoch(self, epoch: int, prepared: Any) -> str:
        """Give a file its final name, in the sink's place at that time, or where that was moved to.

        Old savepoints, from before generations, folders or S3, have fewer items.
        """
        known: tuple[Any, ...] = (prepared,) if isinstance(prepared, str) else tuple(prepared)
        name, generation, of_then, token = (*known, *_UNKNOWN[len(known) :])
        if not _NAME.fullmatch(name):
            raise CheckpointError(f"{name!r} was prepared for epoch {epoch}, expected part-…")
        places = {self._place.url: self._place}
        if of_then is not None:
            places = {of_then: places.get(of_then) or place_of(of_then), **places}
        for url, place in places.items():
            if place.finish(_prepared(name, generation), name, token if url == of_then else ""):
                return place.of(name)
        final = next((each for each in places.values() if each.has(name)), None)
        if final is None and epoch > self._committed:
            raise CheckpointError(
                f"{name} of epoch {epoch} is not in {' or '.join(places)}, expected it "
                "or what was prepared of it: it is not known to be final",
                "put the files of the folder back where they were; or, to go on without what was "
                "in it, name the sink anew by .named(…), with "
                f"drop_state={json.dumps([self._identity])}",
            )
        if final is None and len(places) == 1:  # in another place, they were moved on purpose
            logger.warning(
                f"{name} of epoch {epoch} is final, and is not in {self._place.url} any more: what "
                "the job had written there is not written again\n\n"
                "hint: if nobody took it away on purpose, put the files back, or run the job from "
                "the start, with another folder for its checkpoints"
            )
        return (final or self._place).of(name)

    def restore(self, epoch: int, prepared: list[tuple[int, Any]]) -> None:
        """Make stored output final, and remove later output of tasks with this index.

        Raises CheckpointError if there is output behind the epoch, which would come again.
        """
        super().restore(epoch, prepared)
        dropped = []
        for name in self._place.names():
            left, final = _LEFT.fullmatch(name), self._final(name)
            if left and left[2] == self._suffix and self._is_ours(int(left[1])):
                if int(left[3] or 0) <= self._generation:
                    dropped.append(name)
            elif final and self._is_ours(int(final[1])):
                self._check_before(epoch, name, final[2])
        self._place.drop(dropped)

    def _check_before(self, epoch: int, name: str, of_epoch: str | None) -> None:
        if epoch == 0:
            raise CheckpointError(
                f"{self._place.of(name)} is of another job, expected a folder without such files",
                "a job with checkpoints adds files to its folder: give it another one",
            )
        if of_epoch is not None and int(of_epoch[1:]) > epoch:
            raise CheckpointError(
                f"{self._place.of(name)} has output behind epoch {epoch}, which the job goes on "
                "from, expected none: it would be there twice",
                f"move the files of epochs behind {epoch} away, or go on from the last one",
            )

    def abort(self) -> None:
        if self._draft is not None:
            self._draft.close()
        self._place.drop([self._temporary])
        self._claim.release()

    def close(self) -> None:
        self._claim.release()

    def _is_ours(self, index: int) -> bool:
        return index % self._parallelism == self._index

    def _final(self, name: str) -> re.Match[str] | None:
        return re.fullmatch(rf"part-(\d{{5,}})(-\d{{8,}})?{re.escape(self._suffix)}", name)

    def _remove_parts_beyond(self) -> None:
        """Otherwise parts of an earlier job with more tasks would pass for this job's."""
        found = [(name, self._final(name)) for name in self._place.names()]
        self._place.drop(
            name for name, part in found if part and (part[2] or int(part[1]) >= self._parallelism)
        )


def _prepared(name: str, generation: int | None) -> str:
    """The name of the prepared file that becomes this one."""
    return f".{name}{'' if generation is None else f'.{generation}'}.prepared"


_UNKNOWN: tuple[Any, ...] = ("", None, None, "")
"""The defaults of name, generation, place and token."""
_NAME = re.compile(r"part-\d{5,}-\d{8,}[^/\0]*")
_LEFT = re.compile(
    r"\.part-(\d{5,})(?:-\d{8,})?(\.[a-z]+)(?:\.[0-9a-f]{32})?(?:\.(\d+))?\.(?:prepared|tmp)"
)
"""The pattern of files that are not final, by index, suffix and generation."""
