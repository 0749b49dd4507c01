"""What a task reads of its source: the face of its shares and of its partitions to the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from engine.columns import is_columns
from engine.errors import CheckpointError
from engine.graph.splits import Split
from engine.graph.watermark import Watermark

Position: TypeAlias = tuple[Any, ...]
"""A tuple of a reader's own position in a share or split and, if it is not 0, the number of records
behind it that have left; an empty tuple is the end."""
ENDED: Position = ()


class Reading(ABC):
    """The parts of a source that one task reads, at their positions."""

    reads_ahead: ClassVar[bool] = True
    """Whether another thread may read it, since it may wait for its next item."""
    pause: Callable[[Callable[[float], None], float], None]
    """Calls a function that waits, with at most so many seconds; the loop gives it."""
    current: Split
    """The split of the last item."""
    part: float
    """The task's part of the source's rate."""
    lag = 0
    """The number of records that wait in the system behind the positions, as far as is known."""

    @staticmethod
    def count(parallelism: int) -> int:
        """The number of shares at the first start of a job, with so many tasks."""
        return parallelism

    @property
    @abstractmethod
    def splits(self) -> list[Split]:
        """The splits that have not ended."""

    @property
    @abstractmethod
    def reached(self) -> dict[Split, Position]:
        """The position of each split behind its last item."""

    @abstractmethod
    def moved(self) -> list[tuple[Split, Position]]:
        """The changes of `reached` since the last call, with the last item's split at the end."""

    @property
    def positions(self) -> dict[int, Position]:
        """The position of each share behind its last item."""
        return self.positions_of(self.reached)

    @abstractmethod
    def positions_of(self, reached: Mapping[Split, Position]) -> dict[int, Position]:
        """The position of each share with these positions of its splits."""

    @staticmethod
    def ended(position: Position) -> Position:  # noqa: ARG004 - partitions look at it
        """The position at the end of a share that is at this one."""
        return ENDED

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """All items to come; called once."""

    def keep(self, epoch: int, positions: Mapping[int, Position]) -> bool:  # noqa: ARG002 - only partitions are told of commits
        """Note the positions at the barrier of an epoch, if somebody is to be told of its commit.

        Returns whether that is so.
        """
        return False

    def commit(self, epoch: int | None) -> None:  # noqa: B027 - as above
        """Note that all epochs up to this one are final; None: the job has ended. Any thread."""

    @abstractmethod
    def close(self) -> None:
        """Close what was read, but for what waits for a commit; in the thread that has read."""

    def abort(self) -> None:  # noqa: B027 - as above
        """Close the rest: no commit will come; idempotent, behind `close`, from any thread."""


def of_another_source(what: str) -> CheckpointError:
    """The error for what a source of the other kind has left in a checkpoint."""
    return CheckpointError(
        f"the checkpoint has {what}",
        "it was another kind of source then; a new name lets this one begin anew: .named(…)",
    )


def size(item: Any) -> int:
    """The number of records in an item, which is one record unless it is a batch or a watermark."""
    if type(item) is Watermark:
        return 0
    return len(item) if type(item) is list or is_columns(item) else 1
