"""Cutting blocks of records into batches."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import length_hint
from typing import Any, TypeVar

from engine.columns import is_columns, part, slices
from engine.graph.source import SourceReader

T = TypeVar("T")


class Blocks(SourceReader):
    """Blocks of records in batches of `size`, with no step of Python between batches of a block.

    `blocks(start)` gives each block with its start, from which it can begin again. A position is a
    start and the number of the block's records that were given.
    """

    def __init__(
        self, blocks: Callable[[Any], Iterable[tuple[Any, Any]]], start: Any, size: int
    ) -> None:
        self._blocks = blocks
        self._size = size
        self._start = start
        self._skipped = 0
        self._length = 0
        self._count = 0
        self._left: Iterator[Any] = iter(())

    @property
    def position(self) -> tuple[Any, ...]:
        """Computed from the rest of the block, without a counter."""
        given = self._count - length_hint(self._left)
        return self._start, self._skipped + min(given * self._size, self._length)

    def restore(self, position: tuple[Any, ...]) -> None:
        """Begin in the middle of a block."""
        self._start, self._skipped = position

    def __iter__(self) -> Iterator[Any]:
        """The batches, one by one."""
        return chain.from_iterable(self._opened())

    def _opened(self) -> Iterator[Iterator[Any]]:
        skip = self._skipped
        for start, block in self._blocks(self._start):
            self._start, self._skipped = start, min(skip, len(block))
            skip -= self._skipped  # blocks from another start on may be shorter
            if self._skipped:
                block = part(block, self._skipped)
            self._length = len(block)
            cut = (slices if is_columns(block) else batches)(block, self._size)
            self._count, self._left = len(cut), iter(cut)
            del block, cut  # the next block reuses their memory, as soon as the last batch is given
            yield self._left


def batches(block: list[T], size: int) -> list[list[T]]:
    """The block in lists of `size` records, the last of which may be shorter.

    A block of at most `size` records is the only list. The lists are made at once, which takes half
    the time of a generator for short ones.

    >>> list(batches([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    if 0 < len(block) <= size:
        return [block]
    if size == 1:
        return [[record] for record in block]  # takes less than half the time of slices
    return [block[start : start + size] for start in range(0, len(block), size)]
