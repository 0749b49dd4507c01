"""Samples of a running job: what its operators and tasks did in a second, as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from engine.deployment.description import TaskStatistics
from engine.graph.execution import ExecutionGraph
from engine.graph.job import JobVertex
from engine.history.retention import KEPT, MOMENTARY, SHARES, Record
from engine.metric.merged import merged
from engine.network import LatencyHistogram
from engine.report.buckets import BOUNDS, buckets

Number = TypeVar("Number", int, float)
Place: TypeAlias = tuple[str, int]
"""A vertex and the index of a task."""


class Samples:
    """Makes records of snapshots: `sample` of the operators, `tasks` and `latencies` of each task.

    Counts are those since the snapshot before, shares of time are in thousandths. Columns have the
    order of the plan; one that is zero is left out. Of many tasks there is less often a record:
    those of a second have at most 64 rows; and of the last snapshot there are all.

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

    def records(
        self, tasks: Sequence[TaskStatistics], t: float, is_last: bool = False
    ) -> Iterator[Record]:
        """The records of a snapshot at this time."""
        if not tasks:
            return
        found = {(each.vertex, each.index): each for each in tasks}
        now = _Snapshot({**self._of_operators.tasks, **found}, t)  # some may not have answered
        latency: Record = {}
        if is_last or t - self._latency_told >= _LATENCY_SECONDS:
            latency, of_vertices = self._latencies(now)
            if of_vertices:
                self._latency_told = t
                yield {"kind": "latencies", "t": round(t, 3), "of": of_vertices}
        yield self._sample(now, latency)
        self._of_operators = now
        if is_last or t - self._of_tasks.t >= 0.95 * len(self._places) / _ROWS_PER_SECOND:
            yield self._tasks(now)
            self._of_tasks = now

    def _sample(self, now: _Snapshot, latency: Record) -> Record:
        before = self._of_operators
        counts: list[tuple[int, ...]] = []
        kept: list[tuple[float, ...]] = []
        times: list[tuple[float, ...]] = []
        for vertex, places in self._vertices():
            by_task = [now.counts[place] for place in places if place in now.counts]
            for operator, rows in zip(vertex.operators, zip(*by_task, strict=True), strict=False):
                total = tuple(map(sum, zip(*rows, strict=True)))
                most = self.counted.get(operator.id, _NO_COUNTS)
                counts.append(_risen(total, most))
                self.counted[operator.id] = tuple(map(max, total, most))
            if not by_task:
                counts += [_NO_COUNTS] * len(vertex.operators)
            kept += [now.kept(places, at) for at in range(len(vertex.operators))]
            spent = [now.times(place, before) for place in places]
            times.append(tuple(map(sum, zip(*spent, strict=True))))
        tasks = list(now.tasks.values())
        metrics = merged([(task.vertex, task) for task in tasks])
        return {
            **_begun("sample", before, now),
            **_columns(_COUNTS, counts),
            **_columns(KEPT, kept),
            **_shares(times),
            **latency,
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

    def _latencies(self, now: _Snapshot) -> tuple[Record, list[Record]]:
        """Percentiles since the job began, in whole µs; and of each vertex with a sink more.

        That is up to each of the `BOUNDS`, in µs, how many latencies lie there, if any do; behind
        the last bound, which is None, all others. And of each task how many latencies it has seen,
        percentiles and the largest. They change slowly, so they are not for each second.
        """
        whole = LatencyHistogram()
        found: list[Record] = []
        for at, (_, places) in enumerate(self._vertices()):
            of_vertex = LatencyHistogram()
            rows: list[list[int]] = []
            for place in places:
                one = LatencyHistogram()
                task = now.tasks.get(place)
                if task is not None and task.latency is not None:
                    one.merge(task.latency)
                    of_vertex.merge(task.latency)
                rows.append(_percentiles(one, OF_TASKS))
            if of_vertex.count:
                whole.merge(of_vertex.to_bytes())
                counts = zip(_BOUNDS_US, buckets(of_vertex).counts, strict=True)
                told = [list(each) for each in counts if each[1]]
                found.append({"vertex": at, "counts": told, "tasks": rows})
        return {"latency": _percentiles(whole, PERCENTILES)} if found else {}, found

    def _vertices(self) -> Iterator[tuple[JobVertex, list[Place]]]:
        """The vertices with the places of their tasks."""
        first = 0
        for vertex in self._graph.job.vertices:
            yield vertex, self._places[first : first + vertex.parallelism]
            first += vertex.parallelism


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

    def kept(self, places: Sequence[Place], at: int) -> tuple[float, ...]:
        """What the operator at a place of the chain keeps in these tasks, as checkpoints tell."""
        told = [self.tasks[place].operators[at] for place in places if place in self.tasks]
        oldest = max((each.oldest_key_ms for each in told), default=0.0)
        return sum(each.checkpointed_keys for each in told), round(oldest, -3)

    def moments(self, place: Place) -> tuple[float, ...]:
        """What is of the moment."""
        task = self.tasks.get(place)
        return _NO_MOMENT if task is None else tuple(map(_rounded, _moments_of(task)))


def _percentiles(histogram: LatencyHistogram, wanted: Sequence[float]) -> list[int]:
    """How many latencies there are, their percentiles, and the largest; in whole µs."""
    told = [histogram.percentile(each) for each in wanted] if histogram.count else [0] * len(wanted)
    return [histogram.count, *map(round, told), round(histogram.max)]


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
OF_TASKS = (50.0, 99.0)
_BOUNDS_US = (*(round(bound * 1e6) for bound in BOUNDS), None)
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
