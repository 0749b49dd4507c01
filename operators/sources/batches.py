"""Cutting a block of records into batches."""

from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(block: list[T], size: int) -> Iterator[list[T]]:
    """The block in lists of `size` records, the last of which may be shorter.

    >>> list(batches([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    if size == 1:
        for record in block:
            yield [record]  # less than half the time of a slice
    else:
        for start in range(0, len(block), size):
            yield block[start : start + size]
