"""The shares of a source that one task reads: its own, or several at another parallelism.

Invariant: share j of n is what task j of n reads at the job's first start, whichever task reads it
later. A share is one split or, of a `SplitReader`, several: parts that are in an order of their
own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from engine.columns import part
from engine.errors import CheckpointError
from engine.graph.context import TaskContext
from engine.graph.source import SourceOperator, SourceReader, SplitReader
from engine.graph.splits import Split, SplitTimes
from engine.graph.watermark import START_OF_TIME, Watermark
from engine.task.source.reading import ENDED, Position, Reading, of_another_source, size


class Shares(Reading):
    """Readers of a task's shares, each at its position.

    It reads the splits of a share one after the other, and several shares in turns, batch by batch.
    If an operator tracks the event time of each split, it reads all splits in turns, or, if the
    source never waits, always the split that is furthest behind.
    """

    def __init__(
        self,
        source: SourceOperator[Any],
        context: TaskContext,
        shares: int,
        restored: Mapping[int, Position],
        *,
        is_ahead: bool = False,
    ) -> None:
        self.current = context.index, None
        self._never_waits = source.properties.never_waits
        self._splits = None if is_ahead else context.splits
        """The splits, which follow each step here; if another thread reads, the thread that takes
        the items updates them."""
        self._times = context.splits.times
        self._divided: dict[int, SplitReader] = {}
        """Readers of shares that are several splits."""
        self._readers: dict[Split, Iterable[Any]] = {}
        """The readers of splits that have not ended."""
        self._skipped: dict[Split, int] = {}
        """The number of a split's first records that had left, until it has given them."""
        self._ended: list[Split] = []
        self._items: dict[Split, Iterator[Any]] = {}
        """The iterators of the splits that have begun."""
        self._watermarks: dict[Split, int | None] = {}
        """The watermark that each split itself gives; None if it is idle."""
        self._told: int | None = START_OF_TIME
        own = range(context.index, shares, context.parallelism)
        self.part = len(own) / shares
        for share in own:
            position = restored.get(share)
            if position == ENDED:
                self._ended.append((share, None))
                continue
            if position is not None and isinstance(position[0], dict):
                raise of_another_source(
                    f"the positions of a source of partitions: share {share} is at {position!r:.80}"
                )
            reader = source.open(replace(context, index=share, parallelism=shares))
            if isinstance(reader, SourceReader):
                if position is not None:
                    reader.restore(position[0])
            elif context.checkpoints:
                raise CheckpointError(
                    f"source {type(source).__name__} does not tell where it is, expected a "
                    "SourceReader",
                    "a job with checkpoints needs sources that can go on where they were",
                )
            self._add(share, reader, position)
        self._told_ended = len(self._ended)
        """The number of ended splits that `moved` has returned."""

    def _add(self, share: int, reader: Iterable[Any], restored: Position | None) -> None:
        positions: dict[Any, Position | None] = {None: restored}
        if isinstance(reader, SplitReader):
            self._divided[share] = reader
            self._readers |= {(share, name): each for name, each in reader.splits.items()}
            self._ended += [(share, name) for name in reader.ended]
            positions = restored[0][1] if restored else {}
        else:
            self._readers[share, None] = reader
        for name, position in positions.items():
            if position and position[1:]:
                self._skipped[share, name] = position[1]

    @property
    def splits(self) -> list[Split]:
        """The splits that have not ended."""
        return list(self._readers)

    @property
    def reached(self) -> dict[Split, Position]:
        """The position of each split behind its last item."""
        return {
            **{split: self._position(split) for split in self._readers},
            **dict.fromkeys(self._ended, ENDED),
        }

    def moved(self) -> list[tuple[Split, Position]]:
        """The changes of `reached` since the last call, with the last item's split at the end."""
        ended, self._told_ended = self._ended[self._told_ended :], len(self._ended)
        moved = [(split, ENDED) for split in ended]
        if self.current in self._readers:
            moved.append((self.current, self._position(self.current)))
        return moved

    def positions_of(self, reached: Mapping[Split, Position]) -> dict[int, Position]:
        """The position of each share with these positions of its splits."""
        found: dict[int, Any] = {}
        for (share, name), position in reached.items():
            if share in self._divided:
                found.setdefault(share, {})[name] = position
            else:
                found[share] = position
        for share, reader in self._divided.items():
            found[share] = (reader.position_of(found.get(share, {})),)
        return found

    def close(self) -> None:
        """Close the iterators; in the thread that has read."""
        for items in self._items.values():
            if isinstance(items, Generator):
                items.close()

    def __iter__(self) -> Iterator[Any]:
        """All items to come; called once."""
        rows: dict[int, list[Split]] = {}
        for split in self._readers:
            rows.setdefault(split[0], []).append(split)
        if len(rows) == 1 and (self._times is None or len(self._readers) == 1):
            return chain.from_iterable(self._one_by_one(*rows.values()))
        self._watermarks = dict.fromkeys(self._readers, START_OF_TIME)
        if self._times is None:
            return self._in_turn(rows.values())
        if self._never_waits:
            return self._by_time(self._times)
        return self._in_turn([split] for split in list(self._readers))

    def _one_by_one(self, splits: Iterable[Split]) -> Iterator[Iterator[Any]]:
        """The items of splits, one split after the other, with no step of Python in between."""
        for split in splits:
            self._enter(split)
            yield self._begin(split)
            self._end(split)

    def _in_turn(self, rows: Iterable[list[Split]]) -> Iterator[Any]:
        """An item of each row of splits in turn."""
        left = list(rows)
        while left:
            for row in list(left):
                for item in self._begin(row[0]):
                    yield from self._given(row[0], item)
                    break
                else:
                    yield from self._over(row.pop(0))
            left = [row for row in left if row]

    def _by_time(self, times: SplitTimes) -> Iterator[Any]:
        times.waits_for_all = True
        while (split := times.furthest_behind()) is not None:
            for item in self._begin(split):
                yield from self._given(split, item)
                break
            else:
                yield from self._over(split)

    def _enter(self, split: Split) -> None:
        self.current = split
        if self._splits is not None:
            self._splits.current = split

    def _begin(self, split: Split) -> Iterator[Any]:
        """The items of a split from its position on."""
        if split not in self._items:
            items = iter(self._readers[split])
            self._items[split] = self._behind(split, items) if split in self._skipped else items
        return self._items[split]

    def _behind(self, split: Split, items: Iterator[Any]) -> Iterator[Any]:
        """The items without the records that had left, whatever the batches."""
        for item in items:
            if type(item) is Watermark:
                yield item
                continue
            records = size(item)
            skipped = self._skipped[split]
            if skipped < records:
                del self._skipped[split]
                yield part(item, skipped) if skipped else item
                yield from items
                return
            self._skipped[split] = skipped - records
        self._skipped.pop(split, None)

    def _end(self, split: Split) -> None:
        """Note that a split has ended and its last item has left."""
        del self._readers[split], self._items[split]
        self._ended.append(split)
        if (reader := self._divided.get(split[0])) is not None:
            reader.end(split[1])
        if self._splits is not None:
            self._splits.end(split)

    def _given(self, split: Split, item: Any) -> Iterator[Any]:
        self._enter(split)
        if type(item) is not Watermark:
            yield item
        else:
            self._watermarks[split] = item.time_us
            yield from self._merged()

    def _over(self, split: Split) -> Iterator[Any]:
        """Remove the split from event time: others may be ahead of it."""
        self._end(split)
        del self._watermarks[split]
        if self._readers:
            if self._times is not None:
                yield []
            yield from self._merged()

    def _merged(self) -> Iterator[Watermark]:
        """The watermark of all splits that are read, if it is new."""
        times = [each for each in self._watermarks.values() if each is not None]
        time_us = min(times, default=None)
        if time_us != self._told:
            self._told = time_us
            yield Watermark(time_us)

    def _position(self, split: Split) -> Position:
        reader, skipped = self._readers[split], self._skipped.get(split)
        position = reader.position if isinstance(reader, SourceReader) else None
        return (position,) if skipped is None else (position, skipped)
