"""Spans in tests: what plain Python makes of all records, and the operator's tasks without a job.

Records are (key, time, number), as in `tests.windowing`; a result is a record and its values.
"""

from __future__ import annotations

import functools
import math
import operator
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from operators import (
    Array,
    BitXor,
    Count,
    CountDistinct,
    Covariance,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Quantiles,
    RollingStream,
    Sum,
    Top,
    Variance,
    source,
)
from operators.aggregates import Aggregation
from operators.sources import Collection
from tests.windowing import Record, Tasks, us

Spans = Mapping[str, timedelta | int]

AGGREGATIONS: dict[str, Any] = {
    "count": Count(),
    "sum": Sum(2),
    "min": Min(2),
    "max": Max(2),
    "mean": Mean(2),
    "first": First(2),
    "last": Last(2),
    "distinct": CountDistinct(2),
    "median": Quantile(2),
    "quarters": Quantiles(2, [0.25, 1]),
    "top": Top(2, 2),
    "variance": Variance(2),
    "line": Covariance(2, 1, population=True),
    "xor": BitXor(2),
    "all": Array(2),
}
IN_PYTHON: dict[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "sum": sum,
    "min": min,
    "max": max,
    "mean": statistics.fmean,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "distinct": lambda values: len(set(values)),
    "median": statistics.median,
    "quarters": lambda values: np.quantile(values, [0.25, 1]).tolist(),
    "top": lambda values: Counter(values).most_common(2),
    "variance": lambda values: statistics.variance(values) if len(values) > 1 else None,
    "xor": lambda values: functools.reduce(operator.xor, values),
    "all": list,
}
NAMES = ("key", "time", "number")


def over(spans: Spans, **settings: Any) -> RollingStream[Any, Any]:
    """Spans of records by their first item, with their second as their time."""
    timed = source(Collection([])).with_event_time(1)
    return timed.key_by(0).over(**spans, **settings)  # type: ignore[arg-type]


class RollingTasks(Tasks):
    """As `Tasks`, of spans: results are records with their values, of columns without nulls."""

    def _rows(self, results: Any) -> list[Any]:
        if not isinstance(results, pa.RecordBatch):
            return list(results)
        width = len(self.columns)
        found = []
        for row in results.to_pylist():
            items = list(row.items())
            record = tuple(value for _, value in items[:width])
            found.append((record, dict(items[width:])))
        return found


def expected(records: Iterable[Record], spans: Spans) -> list[tuple[Record, dict[str, Any]]]:
    """The result of each record, in the order of time."""
    of_keys: dict[Any, list[Record]] = {}
    for record in sorted(records, key=lambda record: record[1]):
        of_keys.setdefault(record[0], []).append(record)
    return [
        (record, values(own, at, spans))
        for own in of_keys.values()
        for at, record in enumerate(own)
    ]


def values(own: Sequence[Record], at: int, spans: Spans) -> dict[str, Any]:
    """What the record at this place is seen with, among all of its key in the order of time."""
    found = {}
    for name, span in spans.items():
        if isinstance(span, timedelta):
            start = own[at][1] - span // us(1)
            seen = [each for each in own if start <= each[1] <= own[at][1]]
        else:
            seen = list(own[max(0, at + 1 - span) : at + 1])
        numbers = [number for *_, number in seen]
        found |= {f"{each}_{name}": function(numbers) for each, function in IN_PYTHON.items()}
        times = [time for _, time, _ in seen]
        mean = statistics.fmean(times), statistics.fmean(numbers)
        pairs = zip(times, numbers, strict=True)
        found[f"line_{name}"] = statistics.fmean((t - mean[0]) * (n - mean[1]) for t, n in pairs)
    return found


def alike(found: Iterable[Any], wanted: Iterable[Any]) -> bool:
    """Whether these are the same results, but for the order of keys and the end of floats."""
    found, wanted = (sorted(each, key=repr_of_record) for each in (found, wanted))
    return len(found) == len(wanted) and all(
        one[0] == other[0]
        and one[1].keys() == other[1].keys()
        and all(same(one[1][name], other[1][name]) for name in one[1])
        for one, other in zip(found, wanted, strict=True)
    )


def repr_of_record(result: Any) -> str:
    """By record; those of equal records by what comes with them and does not depend on rounding."""
    record, named = result
    return repr((record, [named[name] for name in sorted(named) if isinstance(named[name], int)]))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):  # one of the most frequent, in columns
        one = tuple(one.values())
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def of(aggregations: Iterable[str] = AGGREGATIONS) -> dict[str, Aggregation]:
    """All aggregations, by name."""
    return {name: AGGREGATIONS[name] for name in aggregations}
