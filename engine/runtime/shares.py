"""The shares of a source that one task reads: its own, or several at another parallelism.

Invariant: share j of n is what task j of n reads at the job's first start, whoever reads it later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from engine.columns import is_columns, part
from engine.errors import CheckpointError
from engine.graph.operator import (
    START_OF_TIME,
    SourceOperator,
    SourceReader,
    TaskContext,
    Watermark,
)

Position: TypeAlias = tuple[Any, ...]
"""What the reader of a share says, in a tuple, and, where that is not 0, how many records of what
follows have left; an empty tuple stands for the end of the share."""
ENDED: Position = ()


class Shares:
    """Readers of a task's shares, each where it was. Several take turns, batch by batch."""

    def __init__(
        self,
        source: SourceOperator[Any],
        context: TaskContext,
        shares: int,
        restored: Mapping[int, Position],
    ) -> None:
        self._readers: dict[int, SourceReader] = {}
        self._ended: dict[int, Position] = {}
        self._skipped: dict[int, int] = {}
        """How many records had left of what a share gives first, until it has given that."""
        self._times: dict[int, int | None] = {}
        """How far event time is in each share that is read; None where it is idle."""
        self._told: int | None = START_OF_TIME
        own = range(context.index, shares, context.parallelism)
        self.part = len(own) / shares
        """How much of the source's rate is the task's."""
        for share in own:
            position = restored.get(share)
            if position == ENDED:
                self._ended[share] = ENDED
                continue
            reader = source.open(replace(context, index=share, parallelism=shares))
            if not isinstance(reader, SourceReader):
                raise CheckpointError(
                    f"source {type(source).__name__} does not tell where it is, expected a "
                    "SourceReader",
                    "a job with checkpoints needs sources that can go on where they were",
                )
            if position is not None:
                reader.restore(position[0])
                if position[1:]:
                    self._skipped[share] = position[1]
            self._readers[share] = reader

    @property
    def positions(self) -> dict[int, Position]:
        """Where each share goes on behind what was given last."""
        skipped = {share: (each,) for share, each in self._skipped.items()}
        return self._ended | {
            share: (each.position, *skipped.get(share, ())) for share, each in self._readers.items()
        }

    def __iter__(self) -> Iterator[Any]:
        """All that is to come; called once."""
        if len(self._readers) == 1:
            (share,) = self._readers
            return self._of(share)
        return self._in_turn()

    def _of(self, share: int) -> Iterator[Any]:
        """What a share has from here on."""
        reader = self._readers[share]
        rest = self._behind(share, iter(reader)) if share in self._skipped else reader
        return chain(rest, self._end(share))

    def _behind(self, share: int, items: Iterator[Any]) -> Iterator[Any]:
        """The items without the records that had left, whatever batches these were in."""
        for item in items:
            if type(item) is Watermark:
                yield item
                continue
            records = size(item)
            skipped = self._skipped[share]
            if skipped < records:
                del self._skipped[share]
                yield part(item, skipped) if skipped else item
                yield from items
                return
            self._skipped[share] = skipped - records
        self._skipped.pop(share, None)

    def _end(self, share: int) -> Iterator[Any]:
        """Note that a share has no more, when what was given last has left."""
        del self._readers[share]
        self._ended[share] = ENDED
        return
        yield

    def _in_turn(self) -> Iterator[Any]:
        left = {share: self._of(share) for share in self._readers}
        self._times = dict.fromkeys(left, START_OF_TIME)
        while left:
            for share, items in list(left.items()):
                for item in items:
                    if type(item) is not Watermark:
                        yield item
                    elif (merged := self._merge(share, item)) is not None:
                        yield merged
                    break
                else:
                    del left[share], self._times[share]

    def _merge(self, share: int, watermark: Watermark) -> Watermark | None:
        """What a watermark of one share says of all that are read, if that is new."""
        self._times[share] = watermark.time_us
        times = [each for each in self._times.values() if each is not None]
        time_us = min(times, default=None)
        if time_us == self._told:
            return None
        self._told = time_us
        return Watermark(time_us)


def within(
    before: Mapping[int, Position], after: Mapping[int, Position], left: int
) -> Mapping[int, Position]:
    """Where shares go on behind so many records of the item that is between these positions.

    >>> within({0: (7,), 1: (3, 2)}, {0: (7,), 1: (4,)}, 5)
    {0: (7,), 1: (3, 7)}
    """
    return {
        share: at if at == after.get(share) or at == ENDED else (at[0], sum(at[1:], left))
        for share, at in before.items()
    }


def size(item: Any) -> int:
    """How many records an item has; it is itself one unless it is a batch."""
    return len(item) if type(item) is list or is_columns(item) else 1
