"""Samples of a running job: what its operators and tasks did in a second, as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from engine.deployment.description import TaskStatistics
from engine.graph.execution import ExecutionGraph
from engine.history.retention import MOMENTARY, SHARES, Record
from engine.metric import merged
from engine.network import LatencyHistogram

Number = TypeVar("Number", int, float)
Place: TypeAlias = tuple[str, int]
"""A vertex and the index of a task."""


class Samples:
    """Makes records of snapshots: `sample` of the operators, and `tasks` of each task.

    Counts are those since the snapshot before, shares of time are in thousandths. Columns have the
    order of the plan; one that is zero is left out. Of many tasks there is less often a record:
    those of a second have at most 64 rows.

    Invariant: the counts of an operator add up to all that it has counted. What it does again after
    a failure or a rescale is not counted twice; `counted` has what it had before.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        counted: Mapping[int, tuple[int, ...]] | None = None,
        begins: float = 0.0,
    ) -> None:
        self.counted = dict(counted or {})
        """The most that each operator had counted, by its number."""
        self._graph = graph
        self._places = [(each.job_vertex.name, each.index) for each in graph.vertices]
        self._of_operators = self._of_tasks = _Snapshot({}, begins)
        self._latency_told = -_LATENCY_SECONDS

    def records(self, tasks: Sequence[TaskStatistics], t: float) -> Iterator[Record]:
        """The records of a snapshot at this time."""
        if not tasks:
            return
        found = {(each.vertex, each.index): each for each in tasks}
        now = _Snapshot({**self._of_operators.tasks, **found}, t)  # some may not have answered
        yield self._sample(now)
        self._of_operators = now
        if t - self._of_tasks.t >= 0.95 * len(self._places) / _ROWS_PER_SECOND:
            yield self._tasks(now)
            self._of_tasks = now

    def _sample(self, now: _Snapshot) -> Record:
        before = self._of_operators
        counts: list[tuple[int, ...]] = []
        times: list[tuple[float, ...]] = []
        first = 0
        for vertex in self._graph.job.vertices:
            places = self._places[first : first + vertex.parallelism]
            first += vertex.parallelism
            by_task = [now.counts[place] for place in places if place in now.counts]
            for operator, rows in zip(vertex.operators, zip(*by_task, strict=True), strict=False):
                total = tuple(map(sum, zip(*rows, strict=True)))
                most = self.counted.get(operator.id, _NO_COUNTS)
                counts.append(_risen(total, most))
                self.counted[operator.id] = tuple(map(max, total, most))
            if not by_task:
                counts += [_NO_COUNTS] * len(vertex.operators)
            spent = [now.times(place, before) for place in places]
            times.append(tuple(map(sum, zip(*spent, strict=True))))
        tasks = list(now.tasks.values())
        metrics = merged([(task.vertex, task) for task in tasks])
        return {
            **_begun("sample", before, now),
            **_columns(_COUNTS, counts),
            **_shares(times),
            **self._latency(tasks, now.t),
            "metrics": {name: _rounded(value) for name, value in metrics.items() if value},
        }

    def _tasks(self, now: _Snapshot) -> Record:
        before = self._of_tasks
        ends = [_risen(now.ends(place), before.ends(place)) for place in self._places]
        moments = [now.moments(place) for place in self._places]
        return {
            **_begun("tasks", before, now),
            **_columns(("in", "out"), ends),
            **_shares([now.times(place, before) for place in self._places]),
            **_columns(MOMENTARY, moments),
        }

    def _latency(self, tasks: Sequence[TaskStatistics], t: float) -> Record:
        """Percentiles since the job began, in whole µs; not each second, as they change slowly."""
        if t - self._latency_told < _LATENCY_SECONDS:
            return {}
        histogram = LatencyHistogram()
        for task in tasks:
            if task.latency is not None:
                histogram.merge(task.latency)
        if not histogram.count:
            return {}
        self._latency_told = t
        told = [histogram.percentile(each) for each in PERCENTILES]
        return {"latency": [histogram.count, *map(round, told), round(histogram.max)]}


class _Snapshot:
    """All tasks at one time."""

    def __init__(self, tasks: Mapping[Place, TaskStatistics], t: float) -> None:
        self.tasks = tasks
        self.t = t
        self._times = {place: _times_of(task) for place, task in tasks.items()}
        self.counts = {
            place: [_counts_of(each) for each in task.operators] for place, task in tasks.items()
        }

    def ends(self, place: Place) -> tuple[int, ...]:
        """Records into the first operator of a task, and out of its last."""
        counts = self.counts.get(place)
        return (counts[0][0], counts[-1][1]) if counts else (0, 0)

    def times(self, place: Place, before: _Snapshot) -> tuple[float, ...]:
        """The seconds of a task since: all, and those of each share."""
        now, was = self._times.get(place, _NO_TIME), before._times.get(place)
        if was is None or was[0] > now[0]:  # it has begun again
            return now
        return _risen(now, was)

    def moments(self, place: Place) -> tuple[float, ...]:
        """What is of the moment."""
        task = self.tasks.get(place)
        return _NO_MOMENT if task is None else tuple(map(_rounded, _moments_of(task)))


def _risen(now: tuple[Number, ...], before: tuple[Number, ...]) -> tuple[Number, ...]:
    return tuple(a - b if a > b else type(a)() for a, b in zip(now, before, strict=True))


def _begun(kind: str, before: _Snapshot, now: _Snapshot) -> Record:
    return {"kind": kind, "t": round(now.t, 3), "seconds": round(now.t - before.t, 3)}


def _columns(names: Sequence[str], rows: Sequence[tuple[float, ...]]) -> dict[str, Any]:
    """The columns that are not zero."""
    columns = zip(names, zip(*rows, strict=True), strict=False)
    return {name: list(column) for name, column in columns if any(column)}


def _shares(times: Sequence[tuple[float, ...]]) -> dict[str, Any]:
    """Shares of time in thousandths."""
    rows = [
        tuple(min(1000, round(1000 * each / elapsed)) if elapsed > 0 else 0 for each in spent)
        for elapsed, *spent in times
    ]
    return _columns(SHARES, rows)


def _rounded(value: float) -> float:
    return round(value, 3) if isinstance(value, float) and abs(value) < _WHOLE else round(value)


PERCENTILES = (50.0, 95.0, 99.0, 99.9)
_COUNTS = ("in", "out", "late", "errors", "failures", "native", "fallbacks")
"""Columns of operators; fields of statistics with more of a name for the first two."""
_NO_COUNTS = (0,) * len(_COUNTS)
_counts_of = attrgetter("records_in", "records_out", *_COUNTS[2:])
_times_of = attrgetter("elapsed_seconds", *(f"{share}_seconds" for share in SHARES))
_NO_TIME = (0.0,) * (1 + len(SHARES))
_moments_of = attrgetter(*MOMENTARY)
_NO_MOMENT = (0.0,) * len(MOMENTARY)
_ROWS_PER_SECOND = 64
_LATENCY_SECONDS = 5.0
_WHOLE = 1000.0
"""From what on a figure needs no fraction."""
