"""The shares of a source that one task reads: its own, or several at another parallelism.

Invariant: share j of n is what task j of n reads at the job's first start, whoever reads it later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from engine.errors import CheckpointError
from engine.graph.operator import (
    START_OF_TIME,
    SourceOperator,
    SourceReader,
    TaskContext,
    Watermark,
)

Position: TypeAlias = tuple[Any, ...]
"""What the reader of a share says, alone in a tuple; an empty one stands for its end."""
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
            self._readers[share] = reader

    @property
    def positions(self) -> dict[int, Position]:
        """Where each share goes on behind what was given last."""
        return self._ended | {share: (each.position,) for share, each in self._readers.items()}

    def __iter__(self) -> Iterator[Any]:
        """All that is to come; called once."""
        if len(self._readers) == 1:
            (share,) = self._readers
            return chain(self._readers[share], self._end(share))
        return self._in_turn()

    def _end(self, share: int) -> Iterator[Any]:
        """Note that a share has no more, when what was given last has left."""
        del self._readers[share]
        self._ended[share] = ENDED
        return
        yield

    def _in_turn(self) -> Iterator[Any]:
        left = {share: chain(each, self._end(share)) for share, each in self._readers.items()}
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
