"""Aggregations of the records of each key: `Count()`, `Sum("n")` and others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from engine.errors import GraphError
from engine.graph.checks import check_integer
from operators.keys import Item, check_item


@dataclass(frozen=True)
class Aggregation:
    """One computation over the records of a key; `item` says where in a record its value is.

    Over columns, `item` is the name or the index of a column. None is the record itself.

    With `where`, only some of the records count, as with SQL's FILTER: those that have True there,
    or that a function is true for. None counts as False. Over columns it is a column of bools. If
    no record of a key counts, a count is 0, an array or list is empty, and other values are None.

        >>> import engine.testing
        >>> from operators import Count, Sum, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> orders = source(Collection([("ann", 5, True), ("ann", 2, False), ("bob", 3, False)]))
        >>> totals = orders.key_by(0).aggregate(
        ...     paid=Sum(1, where=2), large=Count(where=lambda order: order[1] > 2), emit="final")
        >>> engine.testing.run(totals.sink(Collect()))["collect"]
        [('ann', {'paid': 5, 'large': 1}), ('bob', {'paid': None, 'large': 1})]
    """

    item: Item | None = None
    where: Item | Callable[[Any], object] | None = field(default=None, kw_only=True)

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if self.item is not None:
            check_item(type(self).__name__, self.item)
        if self.where is not None and not callable(self.where):
            check_item(f"{type(self).__name__}(): where", self.where)

    @property
    def beside(self) -> Item | None:
        """The place of the second value, for what is computed of pairs."""
        return None

    @property
    def parameters(self) -> tuple[float, ...]:
        """Numbers that the computation depends on."""
        return ()


@dataclass(frozen=True)
class Count(Aggregation):
    """The number of a key's records."""

    item: None = None
    kind: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.item is not None:
            raise GraphError(f"Count() got {self.item!r:.80}, expected nothing: it counts records")


class Sum(Aggregation):
    """The sum of numbers, as Python adds them; integers exactly."""

    kind: ClassVar[str] = "sum"


class Min(Aggregation):
    """The least of numbers, texts, or other values with an order; the first of equal ones."""

    kind: ClassVar[str] = "min"


class Max(Aggregation):
    """The greatest of numbers, texts, or other values with an order; the first of equal ones."""

    kind: ClassVar[str] = "max"


class Mean(Aggregation):
    """The sum of numbers divided by their count: a float, or a Decimal of Decimals."""

    kind: ClassVar[str] = "mean"


class First(Aggregation):
    """The first value, of any kind."""

    kind: ClassVar[str] = "first"


class Last(Aggregation):
    """The last value, of any kind."""

    kind: ClassVar[str] = "last"


class CountDistinct(Aggregation):
    """The exact number of different values, each of which is kept.

    Values are equal as keys are: 1 and 1.0 are one. Nulls of columns do not count.
    """

    kind: ClassVar[str] = "count_distinct"


@dataclass(frozen=True)
class Quantile(Aggregation):
    """An exact quantile of numbers, all of which are kept: a float, interpolated between two.

    `Quantile("price", 0.5)` is the median. NaN if there is one among the numbers.
    """

    share: float = 0.5
    kind: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(type(self).__name__, self.share)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The share."""
        return (float(self.share),)


@dataclass(frozen=True)
class Quantiles(Aggregation):
    """Several quantiles of the same numbers, which are kept only once: a list of floats."""

    shares: Sequence[float] = (0.25, 0.5, 0.75)
    kind: ClassVar[str] = "quantiles"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.shares, list | tuple) or not self.shares:
            raise GraphError(
                f"{type(self).__name__}() got {self.shares!r:.80}, expected a list of numbers "
                "from 0 to 1"
            )
        for share in self.shares:
            check_share(type(self).__name__, share)
        object.__setattr__(self, "shares", tuple(self.shares))

    @property
    def parameters(self) -> tuple[float, ...]:
        """The shares."""
        return tuple(map(float, self.shares))


@dataclass(frozen=True)
class Top(Aggregation):
    """The most frequent values, a list of (value, count); exact, since each value is counted.

    Of equally frequent values, the first come first. Values are equal as in `CountDistinct`.
    """

    most: int = 10
    kind: ClassVar[str] = "top"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("Top(): most", self.most, 1)

    @property
    def parameters(self) -> tuple[float, ...]:
        """How many."""
        return (float(min(self.most, 1 << 53)),)


def check_share(method: str, share: object) -> None:
    """Raise `GraphError` unless there is a quantile of this share."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise GraphError(
            f"{method}() got {share!r:.80}, expected a number from 0 to 1",
            hint="0.5 is the median, 0.99 what one in a hundred is above",
        )
