"""Aggregations of statistics, bools, bits, all values, and of many values about."""

from dataclasses import dataclass, field
from typing import ClassVar

from operators.aggregates.aggregation import Aggregation, Quantile, Quantiles
from operators.keys import Item, check_item


@dataclass(frozen=True)
class _OfSample(Aggregation):
    """An aggregation of a sample, or of a whole population."""

    population: bool = field(default=False, kw_only=True)
    """Whether the numbers are all there are: the divisor is their count, not one less."""

    @property
    def parameters(self) -> tuple[float, ...]:
        """By how much the divisor is less than the count."""
        return (0.0 if self.population else 1.0,)


@dataclass(frozen=True)
class Variance(_OfSample):
    """The variance of numbers, a float: of a sample, or of a whole population.

    A sample has none of a single number: None. It is stable for numbers far from zero, as by
    Welford (1962), and so is the merge of parts, as by Chan, Golub and LeVeque (1979). NaN and
    infinities give NaN.

        >>> import engine.testing
        >>> from operators import Stddev, Variance, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> numbers = source(Collection([("a", 2), ("a", 4), ("a", 9)])).key_by(0)
        >>> spread = numbers.aggregate(v=Variance(1), s=Stddev(1, population=True), emit="final")
        >>> engine.testing.run(spread.sink(Collect()))["collect"]
        [('a', {'v': 13.0, 's': 2.943920288775949})]
    """

    kind: ClassVar[str] = "variance"


@dataclass(frozen=True)
class Stddev(Variance):
    """The standard deviation of numbers: the root of their `Variance`."""

    kind: ClassVar[str] = "stddev"


@dataclass(frozen=True)
class _OfPairs(Aggregation):
    """An aggregation of pairs of numbers: of an item, and of another one of the same record."""

    item: Item = field()
    other: Item = field()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_item(type(self).__name__, self.item)
        check_item(type(self).__name__, self.other)

    @property
    def beside(self) -> Item:
        """The other item."""
        return self.other


@dataclass(frozen=True)
class Covariance(_OfPairs, _OfSample):
    """The covariance of two items, a float: of a sample, or of a population, as for `Variance`.

    Over columns, a row where one of the two is null is left out, here and in the next two.
    """

    kind: ClassVar[str] = "covariance"


@dataclass(frozen=True)
class Correlation(_OfPairs):
    """Pearson's correlation of two items, a float from -1 to 1; None if one does not vary."""

    kind: ClassVar[str] = "correlation"


@dataclass(frozen=True)
class Regression(_OfPairs):
    """The line of least squares through pairs: `Regression("y", "x")` is of y on x.

    It is a dict, over columns a struct, of what SQL's `regr_...` functions give: `slope`,
    `intercept` and `r2` (None if x does not vary), `count`, the means `avg_y` and `avg_x`, and the
    sums of squares and products of the deviations from these, `syy`, `sxx` and `sxy`.

        >>> import engine.testing
        >>> from operators import Regression, source
        >>> from operators.sinks import Collect
        >>> from operators.sources import Collection
        >>> points = source(Collection([("a", 1, 0), ("a", 3, 1), ("a", 5, 2)])).key_by(0)
        >>> lines = points.aggregate(line=Regression(1, 2), emit="final")
        >>> (_, found), = engine.testing.run(lines.sink(Collect()))["collect"]
        >>> found["line"]["slope"], found["line"]["intercept"]
        (2.0, 1.0)
    """

    kind: ClassVar[str] = "regression"


class BoolAnd(Aggregation):
    """Whether all bools are True."""

    kind: ClassVar[str] = "bool_and"


class BoolOr(Aggregation):
    """Whether one of the bools is True."""

    kind: ClassVar[str] = "bool_or"


class BitAnd(Aggregation):
    """The bits that all integers have; bools count as 0 and 1. Negative ones as in Python."""

    kind: ClassVar[str] = "bit_and"


class BitOr(Aggregation):
    """The bits that one of the integers has."""

    kind: ClassVar[str] = "bit_or"


class BitXor(Aggregation):
    """The bits that an odd number of the integers has."""

    kind: ClassVar[str] = "bit_xor"


class Array(Aggregation):
    """A list of all values, of any kind, in the order in which they came. All are kept.

    Nulls of columns are left out.
    """

    kind: ClassVar[str] = "array"


class ApproxCountDistinct(Aggregation):
    """About how many different values there are: at most 4 KiB are kept, not each value.

    It is HyperLogLog with 4096 registers: the standard error is 1.6 %. Values are equal as in
    `CountDistinct`.
    """

    kind: ClassVar[str] = "approx_count_distinct"


@dataclass(frozen=True)
class ApproxQuantile(Quantile):
    """About a quantile of numbers, of a t-digest: some KiB are kept, not each number.

    The rank of the result is off by some tenths of a percent near the median, and by less towards
    the ends. See `Quantile`.
    """

    kind: ClassVar[str] = "approx_quantile"


@dataclass(frozen=True)
class ApproxQuantiles(Quantiles):
    """About several quantiles of the same numbers; see `ApproxQuantile`."""

    kind: ClassVar[str] = "approx_quantiles"
