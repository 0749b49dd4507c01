"""What Python goes through, as lists: `enumerate`, `range`, `reversed`, `zip`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.expression.arrow.merging import lists_of
from engine.expression.arrow.values import (
    Column,
    Constant,
    GivesUp,
    Items,
    Lists,
    Selection,
    Value,
    fixed,
    offsets_of,
    select,
    told,
)


def numbers(operands: Sequence[Value], _count: int) -> Value:
    """`range(…)`."""
    if all(isinstance(each, Constant) and type(each.value) is int for each in operands):
        found = range(*(each.value for each in operands if isinstance(each, Constant)))
        if len(found) > _MOST:
            raise GivesUp(f"a range of {len(found)} numbers")
        return Items("list", list(map(Constant, found)))
    (stop,) = operands if len(operands) == 1 else (None,)
    if not isinstance(stop, Column) or stop.kind != "int":
        raise GivesUp("a range of " + ", ".join(map(told, operands)))
    ends = np.maximum(stop.numbers, 0)
    if len(ends) and ends.max() > _MOST:
        raise GivesUp(f"a range of {ends.max()} numbers")
    return _counted(ends)


def enumerated(operands: Sequence[Value], count: int) -> Value:
    """`enumerate(a)`, and with a start."""
    start = operands[1].value if len(operands) == 2 and isinstance(operands[1], Constant) else 0
    if len(operands) > 1 and (type(start) is not int or not isinstance(operands[1], Constant)):
        raise GivesUp("an enumeration from a start of the record")
    if (items := fixed(operands[0])) is not None:
        pairs = [(Constant(at), item) for at, item in enumerate(items, start)]
        return Items("list", [Items("tuple", pair) for pair in pairs])
    if start:
        raise GivesUp(f"an enumeration from {start}")
    lists = lists_of(operands[0], count)
    places = _counted(lists.lengths).items
    return Lists(Items("tuple", [places, lists.items]), lists.offsets)


def backwards(operands: Sequence[Value], count: int) -> Value:
    """`reversed(a)`."""
    if (items := fixed(operands[0])) is not None:
        return Items("list", items[::-1])
    lists = lists_of(operands[0], count)
    first_and_end = lists.offsets[:-1] + lists.offsets[1:]
    places = np.repeat(first_and_end - 1, lists.lengths) - np.arange(lists.offsets[-1])
    return Lists(select(lists.items, Selection(places=places)), lists.offsets)


def zipped(operands: Sequence[Value], count: int) -> Value:
    """`zip(a, b)`."""
    items = [fixed(each) for each in operands]
    if None not in items:
        pairs = zip(*(each or [] for each in items), strict=False)
        return Items("list", [Items("tuple", pair) for pair in pairs])
    lists = [lists_of(each, count) for each in operands]
    if any((each.offsets != lists[0].offsets).any() for each in lists):
        raise GivesUp("a zip of lists of different lengths")
    return Lists(Items("tuple", [each.items for each in lists]), lists[0].offsets)


def _counted(lengths: np.ndarray) -> Lists:
    """Lists of 0, 1, … of these lengths."""
    offsets = offsets_of(lengths)
    found = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return Lists(Column("int", pa.array(found)), offsets)


_MOST = 1000
"""Numbers of a range, in one row."""
