"""Statistics of a job: those of its tasks, summed up for a progress line and for the result."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from engine.deployment.description import TaskStatistics, Window
from engine.metric.merged import merged
from engine.metric.metrics import Metrics
from engine.network import LatencyHistogram


@dataclass(frozen=True)
class Latency:
    """Latency from emission at the source to the return of the sink function, in µs.

    With a `rate`, a record counts as emitted at its intended moment. Records that an operator
    keeps, as in windows, count as arrived with the batch that brought them. Percentiles are exact
    to 3 significant digits; all are 0 if no marker has arrived.
    """

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    p999: float
    max: float

    @classmethod
    def of(cls, histogram: LatencyHistogram) -> Latency:
        """The usual percentiles of a histogram."""
        return cls(
            count=histogram.count,
            mean=histogram.mean,
            p50=histogram.percentile(50.0),
            p95=histogram.percentile(95.0),
            p99=histogram.percentile(99.0),
            p999=histogram.percentile(99.9),
            max=histogram.max,
        )


@dataclass(frozen=True)
class OperatorSummary:
    """One operator over all its tasks.

    `busy`, `waiting`, `blocked` and `idle` are shares (0 to 1) of its tasks' time. A task is busy
    on a core or ready for one. It waits in its own functions, as a source that sleeps or an
    operator that asks a service. It is blocked until downstream takes more, and idle without input.
    Operators of one chain have the same shares.
    """

    name: str
    vertex: str
    parallelism: int
    records_in: int
    records_out: int
    busy: float
    waiting: float
    blocked: float
    idle: float
    failures: int = 0
    """The number of things that its tasks had to leave out, such as models that do not load."""
    errors: int = 0
    """The number of records that its function failed on without failing the job, by `on_error`."""
    first_error: str | None = None
    """One of the first of these records, and its error."""
    late: int = 0
    """The number of records that came too late: their windows were closed."""
    native: int = 0
    """The number of records whose function ran in Rust, or over columns."""
    fallbacks: int = 0
    """The number of batches that held something unusual, and so went through the function
    itself."""
    first_fallback: str | None = None
    """The unusual thing in one of the first of these batches."""


@dataclass(frozen=True)
class JobStatistics(Metrics):
    """A snapshot of a job, summed over its tasks, whose metrics it inherits."""

    elapsed_seconds: float
    """From the first task's start, until all output is final once it is."""
    records: int
    """The number of records for which the sink function has returned."""
    source_records: int
    throughput: float
    """Records that reached the sinks per second, over the steady window."""
    source_throughput: float
    input_throughput: float
    """Records per second into the tasks that end in a sink, over the same window: the input of an
    aggregation in front of the sink."""
    latency: Latency
    operators: tuple[OperatorSummary, ...]
    bottleneck: str | None
    """The vertex (its operators) that causes backpressure, if it holds up any task."""
    window_seconds: float
    histogram: bytes = field(repr=False)
    """The merged latency histogram, serialized (HDR, V2)."""

    @classmethod
    def of(
        cls, tasks: Sequence[TaskStatistics], before: Sequence[TaskStatistics] = ()
    ) -> JobStatistics:
        """Sum up the tasks of one job.

        The shares of time and the bottleneck are those of the time since `before`.
        """
        latency = LatencyHistogram()
        for task in tasks:
            if task.latency is not None:
                latency.merge(task.latency)
        sinks = [task.sink_window for task in tasks if task.sink_window is not None]
        sources = [task.source_window for task in tasks if task.source_window is not None]
        operators = _operators(_since(tasks, before))
        return cls(
            elapsed_seconds=max(
                (max(task.elapsed_seconds, task.final_seconds) for task in tasks), default=0.0
            ),
            records=sum(
                task.operators[-1].records_out for task in tasks if task.sink_window is not None
            ),
            source_records=sum(task.operators[0].records_out for task in tasks if _is_source(task)),
            throughput=_rate(sinks, "records_out"),
            source_throughput=_rate(sources, "records_in"),
            input_throughput=_rate(sinks, "records_in"),
            latency=Latency.of(latency),
            operators=operators,
            bottleneck=_bottleneck(operators, {task.vertex for task in tasks if _is_source(task)}),
            window_seconds=_seconds(sinks),
            histogram=latency.to_bytes(),
            **merged([(task.vertex, task) for task in tasks]),
        )


def _rate(windows: Sequence[Window], field: str) -> float:
    seconds = _seconds(windows)
    return sum(getattr(window, field) for window in windows) / seconds if seconds else 0.0


def _seconds(windows: Sequence[Window]) -> float:
    if not windows:
        return 0.0
    first = min(window.first_ns for window in windows)
    last = max(window.last_ns for window in windows)
    return (last - first) / 1e9


def _operators(tasks: Sequence[TaskStatistics]) -> tuple[OperatorSummary, ...]:
    vertices: dict[str, list[TaskStatistics]] = {}
    for task in tasks:
        vertices.setdefault(task.vertex, []).append(task)
    return tuple(
        OperatorSummary(
            name=operator.name,
            vertex=vertex,
            parallelism=len(members),
            records_in=sum(task.operators[at].records_in for task in members),
            records_out=sum(task.operators[at].records_out for task in members),
            busy=_share(members, "busy_seconds"),
            waiting=_share(members, "waiting_seconds"),
            blocked=_share(members, "blocked_seconds"),
            idle=_share(members, "idle_seconds"),
            failures=sum(task.operators[at].failures for task in members),
            errors=sum(task.operators[at].errors for task in members),
            first_error=next(
                filter(None, (task.operators[at].first_error for task in members)), None
            ),
            late=sum(task.operators[at].late for task in members),
            native=sum(task.operators[at].native for task in members),
            fallbacks=sum(task.operators[at].fallbacks for task in members),
            first_fallback=next(
                filter(None, (task.operators[at].first_fallback for task in members)), None
            ),
        )
        for vertex, members in vertices.items()
        for at, operator in enumerate(members[0].operators)
    )


def _since(
    tasks: Sequence[TaskStatistics], before: Sequence[TaskStatistics]
) -> list[TaskStatistics]:
    """The tasks with their time since then; with all their time if they have begun again."""
    earlier = {(task.vertex, task.index): task for task in before}
    found = []
    for task in tasks:
        was = earlier.get((task.vertex, task.index))
        if was is not None and was.elapsed_seconds < task.elapsed_seconds:
            spent = {each: getattr(task, each) - getattr(was, each) for each in _SPENT}
            task = replace(task, **{each: max(0.0, seconds) for each, seconds in spent.items()})
        found.append(task)
    return found


def _share(members: Sequence[TaskStatistics], field: str) -> float:
    elapsed = sum(task.elapsed_seconds for task in members)
    return sum(getattr(task, field) for task in members) / elapsed if elapsed else 0.0


def _is_source(task: TaskStatistics) -> bool:
    return task.source_window is not None


def _bottleneck(operators: Sequence[OperatorSummary], sources: Collection[str]) -> str | None:
    at = bottleneck(
        [each.busy + each.waiting for each in operators],
        [each.blocked for each in operators],
        [each.vertex in sources for each in operators],
    )
    return None if at is None else operators[at].vertex


def bottleneck(
    work: Sequence[float], blocked: Sequence[float], is_source: Sequence[bool]
) -> int | None:
    """Which one has the least spare time and is not held up, if others wait for credit.

    `blocked` are shares of time, `work` figures that can be compared; a source holds up nobody.

    >>> bottleneck([0.2, 0.9, 0.4], [0.8, 0.0, 0.0], [True, False, False])
    1
    """
    if not any(share > HELD_UP for share in blocked):
        return None
    free = [at for at, share in enumerate(blocked) if share <= HELD_UP and not is_source[at]]
    return max(free, key=lambda at: work[at], default=None)


_SPENT = (
    "elapsed_seconds",
    "busy_seconds",
    "waiting_seconds",
    "idle_seconds",
    "blocked_seconds",
)
HELD_UP = 0.05
"""Share of time blocked from which on a task counts as held up."""
