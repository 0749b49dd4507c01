"""Places in a chain: operators that emit without a batch, and stretches of the same event time."""

from __future__ import annotations

from typing import NamedTuple

from engine.graph.batch_operator import BatchFunction
from engine.graph.watermark import START_OF_TIME


class Place(NamedTuple):
    """An operator that may emit without a batch: at the end, at a watermark or by a timer."""

    name: str
    function: BatchFunction
    counter: list[int]
    following: int
    """The index of the operators behind it in the chain's functions."""


class Stretch:
    """Successive operators that get the same watermarks, from the inputs or from a maker.

    The last of them makes those of the next stretch, if there is one.
    """

    def __init__(self, maker: BatchFunction | None = None, identity: str = "") -> None:
        self.maker = maker
        self.identity = identity
        """The identity of the maker."""
        self.places: list[Place] = []
        self.watermark = START_OF_TIME
        """The last watermark that they got."""


def is_in_step(function: BatchFunction | None) -> bool:
    """Whether each record leaves an operator with the batch that brings it."""
    if function is None or function.in_step:
        return True
    by_itself = ("on_end", "on_timer", "on_watermark", "take_side")
    kind = type(function)
    return all(getattr(kind, each) is getattr(BatchFunction, each) for each in by_itself)
