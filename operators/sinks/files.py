"""Sinks that write files: text lines and JSON lines, one file for each task.

Invariant: a file with its final name is whole. Until a task has written all it is to write, its
file has a temporary name in the same folder; a job that fails or is cancelled removes that, also
that of a task that was killed (where the driver sees the folder).

With checkpoints there is a file for each task and epoch. What a task has prepared has a third name,
which the epoch becomes final by: whoever goes on with the job gives it its last, or removes it. The
names of both have the generation of the driver: one that was replaced, and does not know it, leaves
alone what is of those behind it.
"""

import contextlib
import json
import logging
import os
import re
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TextIO
from uuid import uuid4

from engine.columns import is_columns, rows
from engine.errors import CheckpointError, GraphError
from engine.graph.failing import Failing
from engine.graph.operator import Properties, SinkOperator, SinkWriter, TaskContext
from engine.json_values import ENCODER
from operators.sinks.lines import lines

logger = logging.getLogger("oka")
_KEPT = {"kind": "files"}
"""For `Properties.meaning`: the sinks here make final what any of them has prepared."""


class _Files(SinkOperator[Any]):
    """What both have in common: the folder, and how a task's file comes to its name."""

    suffix: ClassVar[str]
    properties = Properties(meaning=_KEPT)

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

    def validate_beside(self, other: SinkOperator[Any]) -> None:
        """Refuse another that writes files of such names into the folder, however it is spelt."""
        if (
            isinstance(other, _Files)
            and other.suffix == self.suffix
            and self.folder.samefile(other.folder)
        ):
            raise GraphError(
                f"both write part-*{self.suffix} into {str(self.folder)!r}"
                + (f", which is {str(other.folder)!r}" if self.folder != other.folder else "")
                + ", expected a folder for each: they would replace each other's files",
                hint="give each a folder of its own, or one sink both streams by union",
            )

    def abort(self) -> None:
        """Remove the temporary files of the job."""
        for path in self.folder.glob(f".part-*.{self.job}.*.tmp"):
            path.unlink(missing_ok=True)

    def open(self, context: TaskContext) -> SinkWriter:
        """A temporary file in the folder."""
        return _FileWriter(self, context)

    @abstractmethod
    def encode(self, batch: Any, failing: Failing) -> str:
        """The text of a batch that is not empty, every record with its line's end."""


class LineFiles(_Files):
    r"""One text file for each task, `part-00000.txt` and so on, with `str(record)` on each line.

    Files of an earlier job in the folder are replaced; with checkpoints there must be none, and
    each epoch has files of its own, `part-00000-00000007.txt`. Two such sinks of one job are
    refused where they have one folder; jobs that run at once need a folder each, too. A line feed
    inside a record is written as it is; `JsonLines` keeps such records apart.

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

    Files are as those of `LineFiles`. Tuples become arrays, rows of columns, dataclasses and
    pydantic models objects; numbers of NumPy are numbers, times as ISO 8601 has them, a Decimal, an
    UUID and a path texts, an enum's member its value. A record that JSON cannot express (bytes,
    NaN) fails the job.

    >>> JsonLines("out").encode([("a", 1), {"b": None}], Failing())
    '["a",1]\n{"b":null}\n'
    """

    suffix = ".jsonl"
    properties = Properties(accepts_columns=True, meaning=_KEPT)

    def encode(self, batch: Any, failing: Failing) -> str:
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
        self._folder = sink.folder
        self._folder.mkdir(parents=True, exist_ok=True)  # the driver's may be another machine's
        self._encode = sink.encode
        self._failing = context.failing
        self._index, self._parallelism = context.index, context.parallelism
        self._suffix = sink.suffix
        self._by_epoch = context.checkpoints
        self._generation = context.generation
        self._committed = context.committed
        self._identity = context.identity
        whose = f"{sink.job}.{context.generation}"
        self._temporary = self._folder / f".part-{context.index:05}{sink.suffix}.{whose}.tmp"
        self._file: TextIO | None = None
        """Not yet final; an epoch without records has none."""
        if not self._by_epoch:
            self._open()

    def _open(self) -> TextIO:
        try:
            self._file = self._temporary.open("x", encoding="utf-8", newline="\n")
        except FileNotFoundError:
            raise self._gone() from None
        return self._file

    def _gone(self) -> FileNotFoundError:
        what = "what this task has written there" if self._folder.is_dir() else "it"
        return FileNotFoundError(
            f"the folder {str(self._folder)!r} was deleted or moved while the job runs: {what} is "
            "gone, expected it to stay until the job has ended\n\n"
            "hint: run the job again, without that"
        )

    def write(self, records: Any) -> None:
        if not len(records):
            return
        text = self._encode(records, self._failing)
        file = self._file or self._open()
        if not os.fstat(file.fileno()).st_nlink:
            raise self._gone()
        try:
            file.write(text)
        except UnicodeEncodeError:
            for record in records:
                try:
                    self._encode([record], self._failing).encode()
                except UnicodeEncodeError:
                    self._failing.on(record)
                    raise
            raise

    def prepare(self, epoch: int) -> tuple[str, int, str] | str | None:
        """The final name; with checkpoints, and the generation and the folder."""
        if self._file is None:
            return None
        self._file.flush()
        if not os.fstat(self._file.fileno()).st_nlink:
            raise self._gone()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        if not self._by_epoch:
            return f"part-{self._index:05}{self._suffix}"
        name = f"part-{self._index:05}-{epoch:08}{self._suffix}"
        # `abort` removes none of this name.
        try:
            self._temporary.rename(self._folder / _prepared(name, self._generation))
        except FileNotFoundError:
            raise self._gone() from None
        _sync_folder(self._folder)
        return name, self._generation, str(self._folder)

    def commit(self, epoch: int, prepared: Any) -> str | None:
        if prepared is None:
            return None
        if self._by_epoch:
            return str(self._commit_epoch(epoch, prepared))
        final: Path = self._folder / prepared
        try:
            self._temporary.replace(final)
        except FileNotFoundError:
            raise self._gone() from None
        if self._index == 0:
            self._remove_parts_beyond()
        _sync_folder(self._folder)
        return str(final)

    def _commit_epoch(self, epoch: int, prepared: Any) -> Path:
        """Give a file its name, in the folder that the sink had then, or where that was moved to.

        Savepoints that were made before there were generations, or folders, have neither.
        """
        name, generation, *of_then = (prepared, None) if isinstance(prepared, str) else prepared
        if not _NAME.fullmatch(name):
            raise CheckpointError(f"{name!r} was prepared for epoch {epoch}, expected part-…")
        folders = dict.fromkeys((*map(Path, of_then), self._folder))
        for folder in folders:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                (folder / _prepared(name, generation)).replace(folder / name)
                _sync_folder(folder)
                return folder / name
        final = next((each / name for each in folders if (each / name).exists()), None)
        if final is None and epoch > self._committed:
            raise CheckpointError(
                f"{name} of epoch {epoch} is not in {' or '.join(map(str, folders))}, expected it "
                "or what was prepared of it: it is not known to be final",
                "put the files of the folder back where they were; or, to go on without what was "
                "in it, name the sink anew by .named(…), with "
                f"drop_state={json.dumps([self._identity])}",
            )
        if final is None and len(folders) == 1:  # with another, they were moved on purpose
            logger.warning(
                f"{name} of epoch {epoch} is final, and is not in {self._folder} any more: what "
                "the job had written there is not written again\n\n"
                "hint: if nobody took it away on purpose, put the files back, or run the job from "
                "the start, with another folder for its checkpoints"
            )
        return final or self._folder / name

    def restore(self, epoch: int, prepared: list[tuple[int, Any]]) -> None:
        """Make final what is stored, and remove what tasks of such an index had beyond it.

        Raises CheckpointError where there is output behind the epoch, which would come again.
        """
        super().restore(epoch, prepared)
        for path in self._folder.iterdir():
            left, final = _LEFT.fullmatch(path.name), self._final(path)
            if left and left[2] == self._suffix and self._is_ours(int(left[1])):
                if int(left[3] or 0) <= self._generation:
                    path.unlink(missing_ok=True)
            elif final and self._is_ours(int(final[1])):
                self._check_before(epoch, path, final[2])

    def _check_before(self, epoch: int, path: Path, of_epoch: str | None) -> None:
        if epoch == 0:
            raise CheckpointError(
                f"{path} is of another job, expected a folder without such files",
                "a job with checkpoints adds files to its folder: give it another one",
            )
        if of_epoch is not None and int(of_epoch[1:]) > epoch:
            raise CheckpointError(
                f"{path} has output behind epoch {epoch}, which the job goes on from, expected "
                "none: it would be there twice",
                f"move the files of epochs behind {epoch} away, or go on from the last one",
            )

    def abort(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # what cannot be flushed is removed all the same
                self._file.close()
        self._temporary.unlink(missing_ok=True)

    def _is_ours(self, index: int) -> bool:
        return index % self._parallelism == self._index

    def _final(self, path: Path) -> re.Match[str] | None:
        return re.fullmatch(rf"part-(\d{{5,}})(-\d{{8,}})?{re.escape(self._suffix)}", path.name)

    def _remove_parts_beyond(self) -> None:
        """Parts that an earlier job with more tasks left would else pass for this job's."""
        for path in self._folder.iterdir():
            found = self._final(path)
            if found and (found[2] or int(found[1]) >= self._parallelism):
                path.unlink(missing_ok=True)


def _prepared(name: str, generation: int | None) -> str:
    """What a file is called that becomes the one of this name."""
    return f".{name}{'' if generation is None else f'.{generation}'}.prepared"


_NAME = re.compile(r"part-\d{5,}-\d{8,}[^/\0]*")
_LEFT = re.compile(
    r"\.part-(\d{5,})(?:-\d{8,})?(\.[a-z]+)(?:\.[0-9a-f]{32})?(?:\.(\d+))?\.(?:prepared|tmp)"
)
"""What is not final, of an index, with a suffix, and of a generation."""


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)  # makes the new name last
    finally:
        os.close(handle)
