"""The writer of a task's files: it opens, fills, stages and finishes them."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.checkpoint.owner import Owner
from engine.errors import CheckpointError, StorageError
from engine.graph.context import TaskContext
from engine.graph.sink import SinkWriter
from operators.sinks.files.claims import Claim
from operators.sinks.files.contents import Content, Contents, Layout
from operators.sinks.files.names import Names, Part, final_part, is_final, left_part, prepared_name
from operators.sinks.files.places import Draft, Place
from operators.sinks.files.url import place_of

logger = logging.getLogger("oka")


class FileWriter(SinkWriter):
    """One file at least for each sub-folder and epoch with records.

    A file that is full is staged at once, so that its content need not wait for the barrier.
    """

    def __init__(
        self,
        place: Place,
        layout: Layout,
        contents: Callable[[TaskContext], Contents],
        job: str,
        owner: Owner,
        context: TaskContext,
    ) -> None:
        """`job` identifies the job."""
        self._place, self._layout = place, layout
        self._contents = contents(context)
        self._index, self._parallelism = context.index, context.parallelism
        self._by_epoch = context.checkpoints
        self._generation = context.generation
        self._committed = context.committed
        self._identity = context.identity
        self._now_ns = context.now_ns
        place.make()
        files = (context.index, layout.kind)
        self._claim = Claim(
            place, job, owner, files, context.generation, checkpoints=self._by_epoch
        )
        self._claim.take()
        extension = layout.kind + layout.compression
        self._names = Names(context.index, layout.kind, extension, job, context.generation)
        self._next_epoch = 1
        """The least number that the next epoch to be prepared may have."""
        self._count = 0
        """The number of files that were begun in this epoch."""
        self._open: dict[str, _File] = {}
        """The files that are not full, by sub-folder, the one that was written last at the end."""
        self._full: list[_File] = []
        self._staged: dict[str, tuple[str, str]] = {}
        """By final name the staged name and the token, of files that no epoch has yet."""
        self._working = threading.Lock()
        """Held by the thread that writes."""
        try:
            if not self._by_epoch:
                self._check_no_others()
                if self._contents.begins_empty:
                    self._file("")
        except BaseException:
            self._claim.release()
            raise

    def write(self, records: Any) -> None:
        """Write the records of each sub-folder into its file."""
        if not len(records):
            return
        with self._working:
            pieces = self._contents.split(records)
            if not self._by_epoch:  # otherwise each epoch has a file
                self._claim.check_now_and_then()
            most = self._layout.max_bytes
            for folder, piece in pieces:
                file = self._file(folder)
                file.draft.check()
                file.content.write(piece)
                if most is not None and file.draft.size >= most:
                    self._fill(folder)
            if self._layout.max_seconds is not None:
                self._fill_old(self._layout.max_seconds)
            if self._full:
                self._stage_full()

    def prepare(self, epoch: int) -> tuple[tuple[Any, ...], ...] | None:
        """For each file its final name, the generation, the place and its token."""
        with self._working:
            for folder in list(self._open):
                self._fill(folder)
            self._stage(epoch)
            self._next_epoch, self._count = epoch + 1, 0
            staged = self._staged
            if self._by_epoch:
                self._staged = {}
            url = self._place.url
            made = [(name, self._generation, url, token) for name, (_, token) in staged.items()]
        return tuple(made) or None

    def commit(self, epoch: int, prepared: Any) -> None:
        """Give what was prepared its final names."""
        if self._by_epoch and prepared is None:
            return
        self._claim.check()
        if self._by_epoch:
            for each in _each(prepared):
                self._commit_epoch(epoch, each)
            return
        for name, (staged, token) in self._staged.items():
            if not self._place.finish(staged, name, token):
                raise self._place.gone()
        if self._layout.replace:
            self._place.drop([each for each in self._others() if each not in self._staged])
        self._claim.release()

    def _commit_epoch(self, epoch: int, prepared: tuple[Any, ...]) -> None:
        """Give a file its final name, in the sink's place at that time, or where that was moved to.

        Old savepoints, from before generations, folders or S3, have fewer items.
        """
        name, generation, of_then, token = (*prepared, *_UNKNOWN[len(prepared) :])
        if not is_final(name):
            raise CheckpointError(f"{name!r} was prepared for epoch {epoch}, expected part-…")
        places = {self._place.url: self._place}
        if of_then is not None:
            places = {of_then: places.get(of_then) or place_of(of_then), **places}
        staged = prepared_name(name, generation)
        for url, place in places.items():
            if place.finish(staged, name, token if url == of_then else ""):
                return
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

    def restore(self, epoch: int, prepared: list[tuple[int, Any]]) -> None:
        """Make stored output final, and remove later output of tasks with this index.

        Raises CheckpointError if there is output behind the epoch, which would come again.
        """
        super().restore(epoch, prepared)
        self._next_epoch = epoch + 1
        left = [(name, left_part(name)) for name in self._place.names()]
        self._place.drop(
            name
            for name, part in left
            if part and self._is_ours(part) and part.generation <= self._generation
        )
        for name, part in self._others().items():
            self._check_before(epoch, name, part.epoch)

    def _check_before(self, epoch: int, name: str, of_epoch: int | None) -> None:
        if epoch == 0:
            raise CheckpointError(
                f"{self._place.of(name)} is of another job, expected a folder without such files",
                "a job with checkpoints adds files to its folder: give it another one",
            )
        if of_epoch is not None and of_epoch > epoch:
            raise CheckpointError(
                f"{self._place.of(name)} has output behind epoch {epoch}, which the job goes on "
                "from, expected none: it would be there twice",
                f"move the files of epochs behind {epoch} away, or go on from the last one",
            )

    def abort(self) -> None:
        """Remove what is not final; prepared files stay with checkpoints."""
        if self._working.acquire(blocking=False):  # otherwise the thread that writes is at it
            with contextlib.suppress(Exception):
                for file in self._open.values():
                    with contextlib.suppress(Exception):
                        file.content.close()
                    file.draft.close()
            self._working.release()
        for file in self._full:
            file.draft.close()
        begun = [self._names.temporary(number) for number in range(self._count)]
        self._place.drop([*begun, *(staged for staged, _ in list(self._staged.values()))])
        self._claim.release()

    def close(self) -> None:
        """End the claim."""
        self._claim.release()

    def _file(self, folder: str) -> _File:
        """The open file of a sub-folder; a new one where there is none."""
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) >= self._layout.max_open_files:
                self._fill(next(iter(self._open)))
            draft = self._place.open(self._names.temporary(self._count))
            file = _File(folder, self._count, draft, self._contents.begin(draft), self._now_ns())
            self._count += 1
        self._open[folder] = file
        return file

    def _fill(self, folder: str) -> None:
        """End the file of a sub-folder: it is not written any more, but may not be staged yet."""
        file = self._open[folder]
        file.draft.check()
        file.content.close()
        self._full.append(self._open.pop(folder))

    def _fill_old(self, seconds: float) -> None:
        before = self._now_ns() - seconds * 1e9
        for folder in [each for each, file in self._open.items() if file.since_ns <= before]:
            self._fill(folder)

    def _stage_full(self) -> None:
        """Stage full files before the barrier; storage that fails now may work then."""
        try:
            self._stage(self._next_epoch)
        except StorageError:
            if not self._by_epoch:
                raise

    def _stage(self, epoch: int) -> None:
        """Stage all full files, with names of this epoch or of one after the last prepared one."""
        if self._full:
            self._claim.check()
        while self._full:
            file = self._full[0]
            name = self._names.final(file.folder, epoch if self._by_epoch else None, file.number)
            staged = self._names.temporary(file.number)
            if self._by_epoch:  # `abort` of the driver removes no file of this name
                staged = prepared_name(name, self._generation)
            token = file.draft.stage(staged, name)
            file.draft.close()
            self._staged[name] = staged, token
            del self._full[0]

    def _is_ours(self, part: Part) -> bool:
        is_of_index = part.index % self._parallelism == self._index
        return is_of_index and part.kind == self._layout.kind

    def _others(self) -> dict[str, Part]:
        """The final files of tasks with this index, of any job."""
        names = self._place.names(self._layout.folders)
        parts = {name: part for name in names if (part := final_part(name)) is not None}
        return {name: part for name, part in parts.items() if self._is_ours(part)}

    def _check_no_others(self) -> None:
        """Refuse files that an earlier job has written, where they are not replaced."""
        if not self._layout.replace and (names := self._others()):
            raise FileExistsError(
                f"{self._place.of(min(names))} is of an earlier job, expected a folder without "
                "such files\n\nhint: give each job a folder of its own; replace=True removes the "
                "earlier files once this job has succeeded"
            )


@dataclass
class _File:
    """A file that is being written; `number` counts the files of an epoch."""

    folder: str
    number: int
    draft: Draft
    content: Content
    since_ns: int


def _each(prepared: Any) -> list[tuple[Any, ...]]:
    """What was prepared of each file; savepoints from before several files have one."""
    if isinstance(prepared, str):
        return [(prepared,)]
    if isinstance(prepared[0], str):
        return [tuple(prepared)]
    return list(map(tuple, prepared))


_UNKNOWN: tuple[Any, ...] = ("", None, None, "")
"""The defaults of name, generation, place and token."""
