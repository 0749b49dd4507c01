"""A source of partitions: parts with a position each, which tasks divide among themselves.

Topics of Kafka, files of a folder and shards of a database are partitioned sources.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeVar
from zlib import crc32

from engine.graph.context import TaskContext
from engine.graph.source import SourceOperator

Produced = TypeVar("Produced", covariant=True)


class Partition(ABC):
    """One partition at work in a task. One thread calls it.

    If it has a `committed`, another thread makes the last calls of that and of `close`, when the
    job has ended.
    """

    @abstractmethod
    def poll(self, limit: int, /) -> Any:
        """The next records, at most `limit`, without waiting; `[]` for none yet, None at the end.

        They are a list, or columns: any object with `__arrow_c_array__` or `__arrow_c_stream__`,
        whose rows never become Python objects on the way. Columns may have more rows: the engine
        takes as many at a time as it needs, and of a stream one batch after the other.
        """

    @property
    @abstractmethod
    def position(self) -> Any:
        """The position behind the last poll: numbers and texts, in tuples.

        A partition that is opened there gives exactly the records behind it, in the same order.
        """

    @property
    def lag(self) -> int | None:
        """The number of records that wait in the system behind the position; None is unknown."""
        return None

    def committed(self, position: Any, /) -> None:  # noqa: B027 - most systems need no word of it
        """A checkpoint with this position is final, or the job has ended there.

        It need not be told of each checkpoint, and after a failure not of the last one: the next
        call is for all up to its position.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release resources. It is the last call."""


class PartitionReader(ABC):
    """The partitions of a source at work in one task. One thread calls it."""

    def restore(self, names: Iterable[str], /) -> None:  # noqa: B027 - most look at positions only
        """Note the partitions of this task in a checkpoint, read to their end or not.

        For a restored job it is the first call. It lets a source tell whether what it finds now was
        read before, such as a file that has grown. The ended ones are not opened again.
        """

    @abstractmethod
    def partitions(self) -> Iterable[str]:
        """The names of all partitions that there are now, of all tasks.

        Tasks may see different lists: each reads the names that are its own.
        """

    @abstractmethod
    def open_partition(self, name: str, position: Any, /) -> Partition:
        """Begin to read a partition; from a position, or, where that is None, from its start.

        That may also be one of a checkpoint that `partitions` no longer has. Without records to
        come, its `poll` gives None; if records may be lost, raise an error.
        """

    def wait(self, seconds: float, /) -> None:
        """Wait until some partition may have records, at most so long; all of them had none.

        The task does nothing else meanwhile. Return at once where there may be some.
        """
        time.sleep(min(seconds, _PAUSE_SECONDS))

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release resources, after its partitions have closed. It is the last call."""


class PartitionedSource(SourceOperator[Produced]):
    """The beginning of a stream from partitions, each of which one task reads.

    A partition's number decides which task reads it, so a job may go on with any number of tasks.
    Each partition has an event time of its own. Give `partitions` and `open_partition`; a source
    whose partitions share something in a task, such as a connection, gives its own `open`.
    """

    discover_seconds: float | None = None
    """How often each task looks for new partitions; None is once, at its start. A source that looks
    for new ones never ends."""
    bounded: bool = False
    """Whether partitions end by themselves. A task then reads one after the other, and opens each
    when it comes to it; behind `with_event_time`, it goes on with the one that is furthest behind,
    and may close one and open it again at its position. Otherwise, it opens all at its start, and
    reads them in turns."""

    def partitions(self) -> Iterable[str]:
        """The names of all partitions that there are now."""
        raise NotImplementedError

    def open_partition(self, name: str, position: Any, context: TaskContext, /) -> Partition:
        """Begin to read a partition; from a position, or, where that is None, from its start."""
        raise NotImplementedError

    def number(self, name: str) -> int:
        """The partition's number, which decides which task reads it; it never changes.

        Partitions of successive numbers are read by successive tasks.
        """
        return crc32(name.encode())

    def open(self, context: TaskContext) -> PartitionReader:  # type: ignore[override]
        """The reader of one task."""
        return _Reader(self, context)


class _Reader(PartitionReader):
    def __init__(self, source: PartitionedSource[Any], context: TaskContext) -> None:
        self._source, self._context = source, context

    def partitions(self) -> Iterable[str]:
        return self._source.partitions()

    def open_partition(self, name: str, position: Any) -> Partition:
        return self._source.open_partition(name, position, self._context)


_PAUSE_SECONDS = 0.005
