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
        """The folder on the tasks' machines, or the URL, of its files; None if it has none."""
        return None

    def validate(self) -> None:
        """Raise an error if no task could run. Called once on the driver, before workers start."""

    def validate_beside(self, other: SinkOperator[Any], /) -> None:
        """Raise an error if another sink of the job would write over this one's output.

        Called on the driver for each two that are valid.
        """

    @abstractmethod
    def open(self, context: TaskContext, /) -> SinkWriter:
        """Make the writer of one task."""

    def commit(self, epoch: int, committed: list[Any], /) -> Any:  # noqa: ARG002 - as above
        """Merge the results of all tasks, which are in the order of their indexes.

        Called on the driver, once, when all tasks have committed.
        """
        return committed

    def abort(self) -> None:
        """Remove the leftovers of killed tasks. Called on the driver after a failed job."""


class SinkWriter(ABC):
    """One task's end of a stream.

    Its output becomes final in two steps: all tasks of the job prepare, then all commit. So if one
    task cannot prepare, no output of the others remains. Output that becomes final together has one
    epoch; epochs count from 1. A job without checkpoints has one epoch; its last call is a `commit`
    that returns, or `abort`.

    With checkpoints (`TaskContext.checkpoints`) there are several epochs with rising numbers:
    `write` goes on behind a `prepare`, whose result is stored. An epoch that could not be stored is
    committed with a later one, each with its own number and its own prepared result. After a
    failure, `restore` first gives a new writer what earlier writers had prepared; it may be
    committed already.
    """

    @abstractmethod
    def write(self, records: Any, /) -> None:
        """Write a batch, which is not empty. Its records count as delivered when this returns.

        It is a list, or a `pyarrow.RecordBatch` if the operator accepts columns.
        """

    def prepare(self, epoch: int, /) -> Any:  # noqa: B027 - most writers have nothing to do
        """Do all work of the epoch except making it final; the result goes to `commit`.

        With checkpoints the result has to be a record, such as a name in a tuple. None is nothing.
        """

    def commit(self, epoch: int, prepared: Any, /) -> Any:  # noqa: ARG002 - for those that override it
        """Make the epoch final, in a step that can hardly fail.

        The result goes to the driver, to `SinkOperator.commit`; of several epochs, only the last
        result. With checkpoints another thread than that of `write` calls this, perhaps twice for
        one epoch.
        """
        return prepared

    def restore(self, epoch: int, prepared: list[tuple[int, Any]], /) -> None:  # noqa: ARG002 - as above
        """Continue behind this epoch, which is stored; called before the first `write`.

        `prepared` has the epochs up to this one that may not be final, each with the results of
        earlier tasks' `prepare`. Results for later epochs are dropped.
        """
        for each, made in prepared:
            self.commit(each, made)

    def close(self) -> None:  # noqa: B027 - most writers hold nothing by then
        """Release resources: all is final. It is the last call."""

    def abort(self) -> None:  # noqa: B027 - most writers hold nothing that could stay behind
        """Remove all output: the job failed or was cancelled, or `prepare` or `commit` raised.

        With checkpoints, prepared output stays, since it may be stored. When the driver was killed,
        another thread calls this, maybe in the middle of `write`.
        """


FIRST_EPOCH = 1
"""The only epoch of a job without checkpoints."""
