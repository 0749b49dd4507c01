"""Snapshots of one task at barriers: a thread of its own writes them, while the task goes on."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from engine.checkpoint import (
    SnapshotEntry,
    SnapshotWriter,
    TaskSnapshot,
    open_storage,
    read_snapshot,
)
from engine.deployment.description import SnapshotFailed, SnapshotWritten, Start
from engine.deployment.reply import text_of
from engine.errors import CheckpointError, EngineError, StorageError

Say: TypeAlias = Callable[[SnapshotWritten | SnapshotFailed], None]


class Snapshots:
    """The snapshots of one task in one attempt. `close` may come from any thread.

    They are written in order. A snapshot that cannot be written is given up, with its epoch. The
    snapshot of a finished task is tried again until it is written, since no other follows. A
    snapshot that still waits at the next barrier is dropped: a job has one epoch at a time, so the
    earlier one was given up.
    """

    def __init__(self, start: Start, attempt: int, pickle: bool, say: Say) -> None:
        self.start = start
        self.epoch = start.last
        """The last epoch that the task has taken part in; the thread of the task counts it."""
        self.last: SnapshotEntry | None = None
        """The last that is written; any thread may look."""
        self._storage = open_storage(start.url)
        self._attempt = attempt
        self._writer = SnapshotWriter(self._storage, start.generation, pickle=pickle)
        self._say = say
        self._waiting: deque[tuple[int, TaskSnapshot, bool]] = deque()
        self._changed = threading.Condition()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="oka-snapshots", daemon=True).start()

    def oldest_seconds(self, identity: str) -> float:
        """As `SnapshotWriter.oldest_seconds` has it; any thread may ask."""
        return self._writer.oldest_seconds(identity)

    def read(self) -> list[TaskSnapshot]:
        """The snapshot to restore; raises CheckpointError or StorageError, which names the file."""
        return [read_snapshot(self._storage, entry) for entry in self.start.entries]

    def write(self, epoch: int, snapshot: TaskSnapshot, *, commits: bool = False) -> None:
        """Have the snapshot written; returns at once. `commits` is that of `SnapshotWritten`."""
        self.epoch = epoch
        with self._changed:
            if not snapshot.finished:
                self._waiting.clear()
            self._waiting.append((epoch, snapshot, commits))
            self._changed.notify()

    def fail(self, epoch: int, error: StorageError) -> None:
        """Report that an epoch cannot be written or made final now."""
        self.epoch = max(self.epoch, epoch)
        self._say(SnapshotFailed(self._attempt, epoch, error))

    def close(self) -> None:
        """Write nothing more; idempotent."""
        self._closed.set()
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            self._write(*work)

    def _next(self) -> tuple[int, TaskSnapshot, bool] | None:
        """The next snapshot to write; None after the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
            return None if self._closed.is_set() else self._waiting.popleft()

    def _write(self, epoch: int, snapshot: TaskSnapshot, commits: bool) -> None:
        while not self._closed.is_set():
            try:
                entry = self._writer.write(epoch, snapshot)
            except BaseException as error:  # noqa: BLE001 - records are the user's: it may be any
                self._say(SnapshotFailed(self._attempt, epoch, _told(snapshot, error)))
                if not (snapshot.finished and isinstance(error, StorageError)):
                    return
            else:
                self.last = entry
                self._say(SnapshotWritten(self._attempt, epoch, entry, commits))
                return
            self._closed.wait(_AGAIN_SECONDS)


def _told(snapshot: TaskSnapshot, error: BaseException) -> EngineError:
    if isinstance(error, EngineError):
        return error
    what = f"{type(error).__name__}: {text_of(error)}"
    return CheckpointError(
        f"task {snapshot.vertex}[{snapshot.index}] cannot write what it keeps: {what}",
        "checkpoints hold what channels take: plain data, registered classes, or, with "
        ".with_pickle(), what can be pickled",
    )


_AGAIN_SECONDS = 1.0
