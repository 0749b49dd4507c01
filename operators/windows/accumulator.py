"""User-defined aggregations, in Python."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R")


class Accumulator(ABC, Generic[T, A, R]):
    """An aggregation of the records of a key in a window, one after the other.

    One object serves all keys and windows: the value is the result of `create` and `add`, never an
    attribute. It is state, so it must be of types that records may have.

        >>> import engine.testing
        >>> from datetime import timedelta
        >>> from operators import Accumulator, Tumbling, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> class Span(Accumulator):
        ...     def create(self):
        ...         return None
        ...
        ...     def add(self, accumulated, record):
        ...         _, _, price = record
        ...         low, high = accumulated or (price, price)
        ...         return min(low, price), max(high, price)
        ...
        ...     def merge(self, left, right):
        ...         if left is None:
        ...             return right
        ...         return min(left[0], right[0]), max(left[1], right[1])
        ...
        ...     def finish(self, accumulated):
        ...         low, high = accumulated
        ...         return high - low
        >>> trades = [("oka", 0, 5), ("oka", 20, 9), ("oka", 59, 2), ("oka", 60, 1)]
        >>> minutes = Tumbling(timedelta(minutes=1))
        >>> windows = source(Collection(trades)).key_by(0).window(minutes, time=1, unit="s")
        >>> spans = windows.aggregate(span=Span())
        >>> for result in engine.testing.run(spans.sink(Collect()))["collect"]:
        ...     print(result)
        ('oka', {'span': 7}, 0, 60)
        ('oka', {'span': 0}, 60, 120)
    """

    @abstractmethod
    def create(self) -> A:
        """The value before any record."""

    @abstractmethod
    def add(self, accumulated: A, record: T, /) -> A:
        """The value with this record; it may be `accumulated`, changed."""

    @abstractmethod
    def merge(self, left: A, right: A, /) -> A:
        """The value of both together, for windows that overlap or merge.

        It may be `left`, changed. `right` must not change, and must not be the result if that may
        change later.
        """

    def finish(self, accumulated: A, /) -> R:
        """The result of a window, from `accumulated`, which it must not change.

        It must not change when more records are added, so copy values that `add` changes.
        """
        return accumulated  # type: ignore[return-value]  # where it differs, this is overridden
