"""Aggregates of rows that come and go: what a value adds, it takes back exactly."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from engine.errors import GraphError
from engine.record import dict_key
from operators.aggregates import (
    Aggregation,
    Count,
    CountDistinct,
    Max,
    Mean,
    Min,
    Sum,
)


class Taken(ABC):
    """One aggregate of the rows of a key."""

    @abstractmethod
    def change(self, value: Any, sign: int) -> None:
        """A value comes, +1, or goes, -1."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """What the values that are there come to; None where there are none."""

    @abstractmethod
    def saved(self) -> Any:
        """What `load` goes on with."""

    @abstractmethod
    def load(self, saved: Any) -> None:
        """Go on with what another kept."""


class Number(Taken):
    """How many rows there are."""

    def __init__(self) -> None:
        self._count = 0

    def change(self, value: Any, sign: int) -> None:
        """Count a row, or count one less."""
        self._count += sign

    @property
    def value(self) -> int:
        """The number."""
        return self._count

    def saved(self) -> int:
        """The number."""
        return self._count

    def load(self, saved: int) -> None:
        """Go on counting."""
        self._count = saved


class Total(Taken):
    """A sum, or a mean.

    Floats are added without rounding, as partial sums that do not overlap (Shewchuk 1997, as in
    `math.fsum`), so that what goes leaves nothing behind. The result is rounded once.
    """

    def __init__(self, is_mean: bool, skips_none: bool) -> None:
        self._is_mean = is_mean
        self._skips_none = skips_none
        self._count = 0
        self._others: Any = 0
        """The sum of all that are no floats."""
        self._floats = 0
        self._partials: list[float] = []
        self._special: dict[str, int] = {}
        """How many infinities and NaN there are."""

    def change(self, value: Any, sign: int) -> None:
        """Add a number, or take it away."""
        if value is None and self._skips_none:
            return
        if hasattr(value, "dtype"):  # of NumPy, whose integers overflow
            value = value.item()
        if not isinstance(value, float):
            self._others = self._others + value if sign > 0 else self._others - value
            self._count += sign
            return
        self._count += sign
        self._floats += sign
        if math.isfinite(value):
            _add(self._partials, sign * value)
        else:
            name = str(value)
            self._special[name] = self._special.get(name, 0) + sign
        if not self._floats:
            self._partials.clear()

    @property
    def value(self) -> Any:
        """The sum, or the mean."""
        if not self._count:
            return None
        total = self._others
        if self._floats:
            special = [name for name, count in self._special.items() if count]
            if special:
                total = float(special[0]) if len(special) == 1 else math.nan
            elif self._others:
                total = math.fsum([*self._partials, float(self._others)])
            else:
                total = math.fsum(self._partials)
        return total / self._count if self._is_mean else total

    def saved(self) -> Any:
        """All parts of the sum."""
        return self._count, self._others, self._floats, self._partials, self._special

    def load(self, saved: Any) -> None:
        """Go on with these parts."""
        self._count, self._others, self._floats, partials, special = saved
        self._partials, self._special = list(partials), dict(special)


class Values(Taken):
    """How often each value is there: the number of different ones, the least, or the greatest."""

    def __init__(self, kind: str, skips_none: bool) -> None:
        self._kind = kind
        self._skips_none = skips_none
        self._counts: dict[Any, int] = {}
        self._best: Any = None
        self._is_known = False

    def change(self, value: Any, sign: int) -> None:
        """Count a value, or count it once less. KeyError for one that is not there."""
        if value is None and self._skips_none:
            return
        if value is None and self._kind != "count_distinct":
            raise TypeError("None has no order")
        if value != value:
            if self._kind != "count_distinct":
                return  # NaN is neither less nor greater
            value = dict_key(value)
        left = self._counts.get(value, 0) + sign
        if left < 0:
            raise KeyError(value)
        if left:
            self._counts[value] = left
            if self._is_known and self._is_better(value):
                self._best = value
        else:
            del self._counts[value]
            self._is_known = self._is_known and value != self._best

    @property
    def value(self) -> Any:
        """The number, the least or the greatest value."""
        if self._kind == "count_distinct":
            return len(self._counts)
        if not self._is_known and self._counts:
            self._best = (min if self._kind == "min" else max)(self._counts)
            self._is_known = True
        return self._best if self._counts else None

    def saved(self) -> Any:
        """Values with their counts."""
        return list(self._counts.items())

    def load(self, saved: Any) -> None:
        """Go on with these counts."""
        self._counts = {dict_key(value): count for value, count in saved}

    def _is_better(self, value: Any) -> bool:
        if self._kind == "count_distinct":
            return False
        return bool(value < self._best if self._kind == "min" else value > self._best)


def taken(aggregation: Aggregation, skips_none: bool) -> Taken:
    """What computes this of rows that come and go; None may be a null, which is left out."""
    if isinstance(aggregation, Count):
        return Number()
    if isinstance(aggregation, Sum | Mean):
        return Total(isinstance(aggregation, Mean), skips_none)
    return Values(aggregation.kind, skips_none)


def check_taken(method: str, aggregation: Aggregation) -> None:
    """Raise `GraphError` for one that cannot take back what a row gave."""
    if aggregation.where is not None:
        raise GraphError(
            f"{method}() got {aggregation!r:.80} of a table, expected no where=",
            hint="leave rows out of the stream that the table is of",
        )
    if not isinstance(aggregation, Count | Sum | Mean | Min | Max | CountDistinct):
        raise GraphError(
            f"{method}() of a table got {type(aggregation).__name__}, expected Count, Sum, Mean, "
            "Min, Max or CountDistinct: rows go",
            hint=".changes() gives the changes, for a .process(...) of your own",
        )


def _add(partials: list[float], number: float) -> None:
    """Add a number to a sum of partial sums, exactly."""
    at = 0
    for partial in partials:
        if abs(number) < abs(partial):
            number, partial = partial, number
        high = number + partial
        low = partial - (high - number)
        if low:
            partials[at] = low
            at += 1
        number = high
    partials[at:] = [number] if number else []
