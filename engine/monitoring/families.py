"""What monitoring systems are told of a job: families of metrics, out of its last sample.

All but a few are declared as fields of the statistics of tasks and of operators
(`engine.metric.declared`).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from engine.config import JobConfig
from engine.deployment.description import OperatorStatistics, TaskStatistics
from engine.metric.declared import Metric, declared
from engine.metric.metrics import SHARED
from engine.monitoring.totals import ALONE, Key, Totals, is_counter
from engine.network import LatencyHistogram
from engine.report.buckets import Buckets, buckets
from engine.report.provenance import versions
from engine.report.samples import Sample

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Labels: TypeAlias = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """All values of one name."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    values: list[tuple[Labels, float | Buckets]] = field(default_factory=list)


class Exposition:
    """What is exposed of one job. It takes samples; any thread may ask for the `families`.

    Tasks that the job no longer has are gone. Counters do not go backwards as long as the driver
    lives, whatever the tasks do; with another driver they begin at 0.
    """

    def __init__(self, config: JobConfig) -> None:
        self._job = {"job": _text(config.name)}
        self._info = {"runtime": config.runtime, "version": versions().get("oka", "")}
        self._lock = threading.Lock()
        self._sample = Sample(0.0, ())
        self._totals: dict[tuple[str, int], Totals] = {}
        self._have_counts = config.resume is not None
        """Whether tasks that come may have counts of others."""
        self._of_job = dict.fromkeys((each.name for each in _OF_JOB), (0.0, 0.0))
        """What counters of the job were before, and what is added to them."""
        self._shown: set[tuple[str, str]] = set()
        """Families of which there was a value other than 0, and where."""

    def take(self, sample: Sample) -> None:
        """Take in the job as it is now."""
        with self._lock:
            self._sample = sample
            for task in sample.tasks:
                totals = self._totals.get((task.vertex, task.index))
                if totals is None:
                    totals = Totals(has_counts=self._have_counts)
                    self._totals[task.vertex, task.index] = totals
                elif totals.task is not None and totals.task.parallelism != task.parallelism:
                    self._have_counts = True
                totals.take(task)
            if sample.tasks:
                self._count_of_job(sample.tasks)

    def families(self) -> list[Family]:
        """All families that have values now, in the order of their declaration."""
        found = {each.name: each for each in all_families()}
        with self._lock:
            self._fill(found)
        return [each for each in found.values() if each.values]

    def _count_of_job(self, tasks: Sequence[TaskStatistics]) -> None:
        """Have counters of the job go on where those of a driver that was rescaled ended."""
        for each in _OF_JOB:
            if is_counter(each.metric):
                value = sum(getattr(task, each.name) for task in tasks)
                before, added = self._of_job[each.name]
                self._of_job[each.name] = value, added + (before if value < before else 0)

    def _fill(self, found: Mapping[str, Family]) -> None:
        tasks, statistics = self._sample.tasks, self._sample.statistics
        found[_INFO].values.append(({**self._job, **self._info}, 1))
        found[_TASKS].values.append((self._job, len(tasks)))
        told = [
            (each, [sum(self._of_job[each.name])])
            if is_counter(each.metric)
            else (each, [getattr(statistics, each.name)])
            for each in _OF_JOB
            if tasks or is_counter(each.metric)
        ]
        self._add(found, "", told, [self._job])
        vertices: dict[str, list[TaskStatistics]] = defaultdict(list)
        for task in tasks:
            vertices[task.vertex].append(task)
        for vertex, members in vertices.items():
            self._fill_vertex(found, vertex, members)
        for operator, histogram in self._latencies().items():
            labels = {**self._job, "operator": operator}
            found[_LATENCY].values.append((labels, buckets(histogram)))

    def _fill_vertex(
        self, found: Mapping[str, Family], vertex: str, tasks: Sequence[TaskStatistics]
    ) -> None:
        totals = [dict(self._totals[vertex, task.index].values()) for task in tasks]
        of_vertex = {**self._job, "vertex": _text(vertex)}
        labels = [{**of_vertex, "task": str(task.index)} for task in tasks]
        told = [one for each in _OF_TASKS for one in _told(each, None, tasks, totals)]
        self._add(found, vertex, told, labels)
        for at, operator in enumerate(tasks[0].operators):
            own = [task.operators[at] for task in tasks]
            named = [{**each, "operator": _text(operator.name)} for each in labels]
            told = [one for each in _OF_OPERATORS for one in _told(each, at, own, totals)]
            self._add(found, f"{vertex}\n{operator.name}", told, named)

    def _add(
        self,
        found: Mapping[str, Family],
        where: str,
        told: Sequence[tuple[Declared, Sequence[float]]],
        labels: Sequence[Labels],
    ) -> None:
        """Add values of a vertex or an operator: those of one metric stand beside the labels."""
        for each, values in told:
            if any(values):
                self._shown.add((where, each.family))
        for each, values in told:
            if not each.metric.always and (where, each.family) not in self._shown:
                continue
            own, scale = each.metric.labels, _IN_SECONDS.get(each.metric.unit, 1)
            found[each.family].values.extend(
                ({**label, **own} if own else label, value * scale)
                for label, value in zip(labels, values, strict=True)
            )

    def _latencies(self) -> dict[str, LatencyHistogram]:
        """The latencies of each sink, also those that tasks have observed which are gone."""
        found: dict[str, LatencyHistogram] = defaultdict(LatencyHistogram)
        for totals in self._totals.values():
            if totals.task is not None and totals.task.latency is not None:
                totals.add_latencies(found[_text(totals.task.operators[-1].name)])
        return found


class Declared(NamedTuple):
    """A metric that is exposed, and the field that it is declared as."""

    name: str
    metric: Metric
    family: str


def all_families() -> list[Family]:
    """All that there can be, without values."""
    found = {
        _INFO: Family(_INFO, "gauge", "1. The labels tell of the job.", _LABELS_OF_INFO),
        _TASKS: Family(_TASKS, "gauge", "Tasks that tell of themselves.", ("job",)),
    }
    for declarations, labels in (
        (_OF_JOB, ("job",)),
        (_OF_OPERATORS, ("job", "vertex", "operator", "task")),
        (_OF_TASKS, ("job", "vertex", "task")),
    ):
        for _, metric, name in declarations:
            kind: Kind = "counter" if is_counter(metric) else "gauge"
            told = SHARED.get(name, metric.help)
            own = (*metric.labels, *(() if metric.by is None else (metric.by,)))
            found[name] = Family(name, kind, told, (*labels, *own))
    found[_LATENCY] = Family(_LATENCY, "histogram", _LATENCY_HELP, ("job", "operator"))
    return list(found.values())


def _told(
    each: Declared,
    at: int | None,
    own: Sequence[TaskStatistics | OperatorStatistics],
    totals: Sequence[Mapping[Key, float]],
) -> Iterator[tuple[Declared, list[float]]]:
    """The values of the tasks of a vertex, or of an operator at a place in its chain.

    Of a metric with several counts, there are some for each of them, whose label has its name.
    """
    metric = each.metric
    if not is_counter(metric):
        yield each, [getattr(one, each.name) for one in own]
    elif metric.by is None:
        yield each, [total[at, each.name, ALONE] for total in totals]
    else:
        for which in sorted({key[2] for total in totals for key in total if key[1] == each.name}):
            named = each._replace(metric=replace(metric, labels={metric.by: which}))
            yield named, [total.get((at, each.name, which), 0) for total in totals]


def _exposed(kind: type) -> list[Declared]:
    return [
        Declared(name, each, each.exposed)
        for name, each in declared(kind).items()
        if each.exposed is not None
    ]


def _text(name: str) -> str:
    """A name that can be encoded, whatever is in it."""
    return name.encode("utf-8", "backslashreplace").decode()


_INFO, _TASKS, _LATENCY = "oka_job_info", "oka_job_tasks", "oka_latency_seconds"
_LABELS_OF_INFO = ("job", "runtime", "version")
_LATENCY_HELP = (
    "From emission at the source to the return of the sink function, of records with a marker."
)
_OF_OPERATORS = _exposed(OperatorStatistics)
_OF_TASKS = [each for each in _exposed(TaskStatistics) if not each.metric.of_job]
_OF_JOB = [each for each in _exposed(TaskStatistics) if each.metric.of_job]
_IN_SECONDS = {"µs": 1e-6, "ms": 1e-3}
