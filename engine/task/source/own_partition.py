"""One partition of a task: what it polls, in batches, and its position behind each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from engine.columns import import_pyarrow, is_columns, part, slices
from engine.graph.partitions import Partition
from engine.task.source.reading import Position


class OwnPartition:
    """A partition that is opened when it is first needed, at its position.

    Invariant: `position` is behind the last batch that `next` gave, though the partition's own
    position may be ahead of it.
    """

    def __init__(
        self, open_partition: Callable[[Any], Partition], position: Position, batch_size: int
    ) -> None:
        self._open = open_partition
        self._size = batch_size
        self._partition: Partition | None = None
        self.was_open = False
        """Whether it was opened before, and closed since."""
        self._start, self._left_out = position[0], sum(position[1:])
        """Where it opens, and how many of the next records have left before."""
        self._cut: Iterator[Any] | None = None
        """The rest of a poll that is more than a batch."""
        self._inside: Position | None = None
        """The position, if it is inside of a poll."""

    @property
    def is_open(self) -> bool:
        """Whether it was opened and is not closed."""
        return self._partition is not None

    def open(self) -> Partition:
        """The partition, which is opened if it was not."""
        if self._partition is None:
            opened = self._open(self._start)
            if not isinstance(opened, Partition):
                raise TypeError(
                    f"open_partition gave {type(opened).__name__} {opened!r:.80}, expected a "
                    "Partition"
                )
            self._partition = opened
        return self._partition

    @property
    def position(self) -> Position:
        """The position behind the last batch."""
        if self._inside is not None:
            return self._inside
        start = self._start if self._partition is None else self._partition.position
        return (start, self._left_out) if self._left_out else (start,)

    @property
    def is_told(self) -> bool:
        """Whether it wants to know what is committed."""
        return type(self.open()).committed is not Partition.committed

    @property
    def lag(self) -> int:
        """The records that wait behind it, as far as is known."""
        return 0 if self._partition is None else self._partition.lag or 0

    def next(self) -> Any:
        """The next batch, `[]` for none yet, None at the end."""
        if self._cut is not None:
            if (batch := next(self._cut, None)) is not None:
                return batch
            self._cut = self._inside = None
        partition = self._partition or self.open()
        while True:
            before = partition.position
            found = partition.poll(self._size)
            if type(found) is list and len(found) <= self._size and not self._left_out:
                return found
            if found is None:
                return None
            left_out = self._left_out
            self._cut = self._batches(found, before)
            if (batch := next(self._cut, None)) is not None:
                return batch
            self._cut = None
            if self._left_out == left_out:  # an empty list, or columns without rows
                return []

    def close(self) -> None:
        """Close the partition, if it is open; it may be opened again, at its position."""
        partition, position = self._partition, self.position
        self._start, self._left_out = position[0], sum(position[1:])
        self._partition = self._cut = self._inside = None
        if partition is not None:
            self.was_open = True
            partition.close()

    def committed(self, position: Any) -> None:
        """Tell the partition that this position is final."""
        if self._partition is not None:
            self._partition.committed(position)

    def _batches(self, found: Any, before: Any) -> Iterator[Any]:
        """What was found in batches, without records that have left before."""
        total = len(found) if type(found) is list or is_columns(found) else None
        behind = 0
        for batch in as_batches(found, self._size):
            out = min(self._left_out, len(batch))
            behind += len(batch)
            self._left_out -= out
            if out == len(batch):
                continue
            self._inside = None if behind == total else (before, behind)
            yield part(batch, out) if out else batch


def as_batches(found: Any, size: int) -> Iterable[Any]:
    """What a poll has given, in batches of at most `size` records."""
    if type(found) is list:
        return (found[start : start + size] for start in range(0, len(found), size))
    if is_columns(found):
        return slices(found, size)
    if hasattr(found, "__arrow_c_array__"):
        return slices(import_pyarrow("a poll of columns").record_batch(found), size)
    if hasattr(found, "__arrow_c_stream__"):
        reader = import_pyarrow("a poll of columns").RecordBatchReader.from_stream(found)
        return (batch for each in reader for batch in slices(each, size))
    raise TypeError(
        f"poll gave {type(found).__name__} {found!r:.80}, expected a list, columns or None\n\n"
        "hint: columns have __arrow_c_array__ or __arrow_c_stream__, as those of PyArrow and "
        "Polars have; a single record is a list of it"
    )
