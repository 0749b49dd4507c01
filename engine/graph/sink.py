"""The end of a stream: what a sink declares, and its writer in each task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from engine.graph.context import TaskContext
from engine.graph.operator import Operator

Consumed = TypeVar("Consumed", contravariant=True)


class SinkOperator(Operator, ABC, Generic[Consumed]):
    """The end of a stream. What a driver sink commits is the job's output."""

    @property
    def files(self) -> str | None:
        """Where its tasks write files, if they do: a folder of their machines, or a URL."""
        return None

    def validate(self) -> None:
        """Fail now if no task could run. Called once on the driver before any worker starts."""

    def validate_beside(self, other: SinkOperator[Any], /) -> None:
        """Fail if another sink of the job would write over this one's output.

        Called on the driver for each two that are valid.
        """

    @abstractmethod
    def open(self, context: TaskContext, /) -> SinkWriter:
        """Make the writer of one task."""

    def commit(self, epoch: int, committed: list[Any], /) -> Any:  # noqa: ARG002 - as above
        """Make one result of those of all tasks, in the order of their indexes.

        Called on the driver, once, when all tasks have committed.
        """
        return committed

    def abort(self) -> None:
        """Remove what killed tasks left behind. Called on the driver after a job that failed."""


class SinkWriter(ABC):
    """One task's end of a stream.

    What it has taken becomes final in two steps: all tasks of the job prepare, then all commit. So
    a task that cannot prepare leaves nothing of the others'. Epochs count from 1 what becomes final
    together. A job without checkpoints has one; its last call is a `commit` that returns, or
    `abort`.

    With checkpoints (`TaskContext.checkpoints`) there are more, of rising numbers: `write` goes on
    behind a `prepare`, and what that returned is stored. An epoch that could not be stored is
    committed with a later one, each with its own number and what was prepared for it. After a
    failure, a new writer is first given what those before it had prepared, by `restore`; that may
    have been committed.
    """

    @abstractmethod
    def write(self, records: Any, /) -> None:
        """Take a batch, which is not empty; when it returns, its records count as delivered.

        It is a list, or a `pyarrow.RecordBatch` if the operator accepts columns.
        """

    def prepare(self, epoch: int, /) -> Any:  # noqa: B027 - most writers have nothing to do
        """Make what was written last, but not final; what it returns goes to `commit`.

        With checkpoints it has to be a record, such as a name in a tuple. None is nothing.
        """

    def commit(self, epoch: int, prepared: Any, /) -> Any:  # noqa: ARG002 - for those that override it
        """Make it final, with as little left that could fail as can be.

        What it returns goes to the driver, to `SinkOperator.commit`; for several epochs, only what
        the last call returned. With checkpoints it comes from another thread than `write`, and may
        come again.
        """
        return prepared

    def restore(self, epoch: int, prepared: list[tuple[int, Any]], /) -> None:  # noqa: ARG002 - as above
        """Go on behind this epoch, which is stored; before the first `write`.

        `prepared` has the epochs up to this one that may not be final, each with what the tasks
        before this one prepared for it. What they prepared for later epochs is dropped.
        """
        for each, made in prepared:
            self.commit(each, made)

    def close(self) -> None:  # noqa: B027 - most writers hold nothing by then
        """Let go of what it holds: all is final. Nothing comes after it."""

    def abort(self) -> None:  # noqa: B027 - most writers hold nothing that could stay behind
        """Leave nothing behind: the job failed or was cancelled, or `prepare` or `commit` raised.

        With checkpoints, what was prepared stays, since it may be stored. When the driver was
        killed, it comes from another thread, maybe in the middle of `write`.
        """


FIRST_EPOCH = 1
"""The epoch of a job that has only one."""
