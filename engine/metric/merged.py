"""The metrics of a task from those of its parts, and those of a job from its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any

from engine.metric.declared import Merge, Metric
from engine.metric.metrics import METRICS, Metrics


def merged(tasks: Sequence[tuple[str, Metrics]]) -> dict[str, Any]:
    """The metrics of a job, by name, from those of its tasks and their vertices."""
    vertices = [vertex for vertex, _ in tasks]
    columns = zip(*(_values(task) for _, task in tasks), strict=True) if tasks else repeat(())
    return {
        name: _MERGES[metric.merge](zip(vertices, column, strict=True))
        if any(column)
        else nothing(metric)
        for (name, metric), column in zip(METRICS.items(), columns, strict=False)
    }


def together(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics of a task, from those of its network and each of its services."""
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if name in found:
                merge = METRICS[name].merge
                both = (("", found[name]), ("", value))
                value = _MERGES["max" if merge == "way" else merge](both)
            found[name] = value
    return found


def nothing(metric: Metric) -> Any:
    """The value of a metric of which nothing is known."""
    return {} if metric.merge == "each" else 0


def in_json(metrics: Metrics) -> dict[str, Any]:
    """All metrics, by their names in JSON."""
    return {metric.json or name: getattr(metrics, name) for name, metric in METRICS.items()}


_values = attrgetter(*METRICS)
"""All metrics of a task at once: a job has many tasks, and most of their metrics are 0."""


def _sum(values: Iterable[tuple[str, Any]]) -> Any:
    return sum(value for _, value in values)


def _max(values: Iterable[tuple[str, Any]]) -> Any:
    return max((value for _, value in values), default=0)


def _each(values: Iterable[tuple[str, Any]]) -> Any:
    found: Counter[str] = Counter()
    for _, value in values:
        found.update(value)
    return dict(sorted(found.items()))


def _along_the_way(values: Iterable[tuple[str, Any]]) -> Any:
    worst: dict[str, Any] = {}
    for vertex, value in values:
        worst[vertex] = max(worst.get(vertex, 0), value)
    return sum(worst.values())


_MERGES: dict[Merge, Callable[[Iterable[tuple[str, Any]]], Any]] = {
    "sum": _sum,
    "max": _max,
    "way": _along_the_way,
    "each": _each,
}
