"""Counters of one task that never go backwards, whatever becomes of the task."""

from __future__ import annotations

from collections.abc import Iterator

from engine.deployment.description import OperatorStatistics, TaskStatistics
from engine.metric.declared import Metric, declared
from engine.network import LatencyHistogram

Key = tuple[int | None, str, str]
"""An operator of the task, by its place in the chain, or None; the name of a metric; and which of
several counts it is."""


class Totals:
    """The counters of one task, since the driver has seen it first.

    A task that begins again counts from 0, or from its last checkpoint, where it `goes_on`: totals
    of the first kind go on from where they were, and of the second they wait until the task has
    come there again, so that each record counts once. If the task has other tasks' counts, since
    the job was resumed or rescaled, only what it adds to them counts.
    """

    def __init__(self, *, has_counts: bool) -> None:
        """`has_counts` says whether the task may have counts that the driver has not seen grow."""
        self._has_counts = has_counts
        self.task: TaskStatistics | None = None
        """As it was seen last."""
        self._least: dict[Key, float] = {}
        """What no total falls below."""
        self._added: dict[Key, float] = {}
        """What is added to what the task counts."""
        self._past: list[bytes] = []
        """Its latencies before it began again."""

    def take(self, task: TaskStatistics) -> None:
        """Take in what the task counts now."""
        before, self.task = self.task, task
        if before is None:
            if self._has_counts:
                self._go_on_from({}, task)
            return
        has_others = task.parallelism != before.parallelism
        if not has_others and task.elapsed_seconds >= before.elapsed_seconds:
            return
        self.task = before
        shown = dict(self.values())
        self.task = task
        self._least = shown
        self._added |= {key: total for key, total in shown.items() if not _goes_on(key)}
        if has_others:
            self._go_on_from(shown, task)
        if before.latency is not None:
            self._past.append(before.latency)

    def values(self) -> Iterator[tuple[Key, float]]:
        """The totals."""
        for key, value in () if self.task is None else counters(self.task):
            total = max(value + self._added.get(key, 0), self._least.get(key, 0))
            self._least[key] = total
        yield from self._least.items()

    def add_latencies(self, histogram: LatencyHistogram) -> None:
        """Add all latencies that the task has observed."""
        if len(self._past) > 1:
            merged = LatencyHistogram()
            for each in self._past:
                merged.merge(each)
            self._past = [merged.to_bytes()]
        now = None if self.task is None else self.task.latency
        for past in (*self._past, *([] if now is None else [now])):
            histogram.merge(past)

    def _go_on_from(self, shown: dict[Key, float], task: TaskStatistics) -> None:
        for key, value in counters(task):
            if _goes_on(key):
                self._added[key] = shown.get(key, 0) - value


def counters(task: TaskStatistics) -> Iterator[tuple[Key, float]]:
    """The counters of a task and of its operators."""
    for name, metric in _OF_TASK.items():
        value = getattr(task, name)
        for which, count in ((ALONE, value),) if metric.by is None else value.items():
            yield (None, name, which), count
    for at, operator in enumerate(task.operators):
        for name in _OF_OPERATOR:
            yield (at, name, ALONE), getattr(operator, name)


def is_counter(metric: Metric) -> bool:
    """Whether what is exposed of it only grows."""
    return metric.exposed is not None and metric.exposed.endswith("_total")


def _goes_on(key: Key) -> bool:
    at, name, _ = key
    return (_OF_TASK if at is None else _OF_OPERATOR)[name].goes_on


ALONE = ""
"""Of which of several counts one is that is alone."""
_OF_TASK = {name: each for name, each in declared(TaskStatistics).items() if is_counter(each)}
_OF_OPERATOR = {
    name: each for name, each in declared(OperatorStatistics).items() if is_counter(each)
}
