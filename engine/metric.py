"""The metrics of tasks: each is declared once, with how it is merged and shown.

A task tells its own `Metrics`, and a job has those of its tasks merged. To add one is a field here
and its measurement; results, their tables, the progress of a job and its JSON follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import repeat
from operator import attrgetter
from typing import Any, Literal, TypeAlias

Merge: TypeAlias = Literal["sum", "max", "way"]
"""How a job merges its tasks' values: their sum, the largest, or the largest of each vertex,
summed up along a record's way."""


@dataclass(frozen=True)
class Metric:
    """How a metric is merged, and shown where it is not 0."""

    merge: Merge
    unit: str
    """A unit of time or size, or what is counted, in the singular."""
    help: str
    json: str | None = None
    """Its name in JSON, if that is not its own."""
    row: str | None = None
    """The row of a result's table that tells of it; metrics may share one."""
    text: str = "{}"
    """What the row says."""
    alone: bool = True
    """Whether the row is there for this metric alone."""
    progress: bool = False
    """Whether the progress line tells of it."""
    goes_on: bool = False
    """Whether a task counts on behind a restart, from what it had counted at the checkpoint."""


def _metric(merge: Merge, unit: str, what: str, **told: Any) -> Any:
    return field(default=0, metadata={_KEY: Metric(merge, unit, what, **told)})


_KEY = "metric"


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The metrics of a task, or of a job."""

    clock_uncertainty_us: float = _metric(
        "way",
        "µs",
        "How far off a latency may be since hosts' clocks differ: the sum over the vertices on a "
        "record's way, each with its worst channel. 0 on one host.",
        row="clocks",
        text="hosts' offsets known to ±{}",
    )
    reconnects: int = _metric(
        "sum",
        "",
        "Connections between tasks that were lost and made anew.",
        row="reconnects",
        progress=True,
    )
    longest_interruption_ms: float = _metric(
        "max",
        "ms",
        "The longest time for which a channel was cut off, or its receiver silent.",
        row="reconnects",
        text="longest interruption {}",
        alone=False,
    )
    retransmitted_frames: int = _metric(
        "sum", "frame", "Frames that were sent again, after a reconnect."
    )
    watermark_lag_ms: float = _metric(
        "max",
        "ms",
        "How far the watermark is behind the wall clock, in the task where it is farthest behind; "
        "0 where there is none. Of live data it is how long results wait for records; of old data, "
        "how old they are.",
        row="watermark",
        text="{} behind the clock",
        progress=True,
    )
    lag_records: int = _metric(
        "sum",
        "record",
        "Records that wait in the systems in front of the sources, behind what was read; of those "
        "whose partitions tell it, about once a second.",
        row="sources",
        text="{} behind",
        progress=True,
    )
    disbelieved_times: int = _metric(
        "sum",
        "time",
        "Times of records that were too far ahead of others, or of the wall clock, to be believed; "
        "of those that were looked at for watermarks.",
        row="watermark",
        text="{} too far ahead to be believed",
        goes_on=True,
    )
    state_records: int = _metric(
        "sum",
        "record",
        "Records that joins keep, since partners may still come; 0 when event time has passed all.",
        row="joins",
        text="{} kept",
        progress=True,
    )
    partial_matches: int = _metric(
        "sum",
        "match",
        "Matches of patterns that are under way, and may still become complete.",
        row="patterns",
        text="{} under way",
        progress=True,
    )
    restarts: int = _metric(
        "sum",
        "",
        "Failures that the job went on after, from its last checkpoint.",
        row="restarts",
        progress=True,
    )
    checkpoints: int = _metric(
        "sum", "", "Checkpoints that were stored.", row="checkpoints", text="{} stored"
    )
    checkpoint_ms: float = _metric(
        "max",
        "ms",
        "How long the last checkpoint took, from its barriers until it was stored.",
        row="checkpoints",
        text="the last in {}",
        alone=False,
    )
    checkpoint_bytes: int = _metric(
        "max",
        "byte",
        "What the last checkpoint wrote: a file for each task.",
        row="checkpoints",
        text="of {}",
        alone=False,
    )
    checkpoint_pause_ms: float = _metric(
        "max",
        "ms",
        "The longest time for which a task held records to gather what it was for a checkpoint.",
        row="checkpoints",
        text="longest pause {}",
        alone=False,
    )
    checkpoint_alignment_ms: float = _metric(
        "max",
        "ms",
        "The longest time for which inputs of a task that had brought a barrier waited for others.",
        row="checkpoints",
        text="longest alignment {}",
        alone=False,
    )
    checkpoint_age_ms: float = _metric(
        "max",
        "ms",
        "How long ago the last checkpoint was stored: so much would be done again after a failure.",
        row="checkpoint age",
        alone=False,
        progress=True,
    )
    cpu_seconds: float = _metric(
        "sum",
        "s",
        "User and system time of the workers, all threads, while their tasks ran. Behind a "
        "restart, without what was done in vain.",
        goes_on=True,
    )
    memory_bytes: int = _metric(
        "max", "byte", "Largest resident set of a worker.", json="max_worker_memory_bytes"
    )
    backlog_bytes: int = _metric("sum", "byte", "Bytes that wait for credit in outgoing channels.")
    input_backlog_bytes: int = _metric(
        "sum", "byte", "Bytes that have arrived in channels and were not consumed yet."
    )
    sent_bytes: int = _metric("sum", "byte", "Bytes of records that left tasks over channels.")
    received_bytes: int = _metric(
        "sum", "byte", "Bytes of records that arrived at tasks over channels."
    )
    refused_connections: int = _metric(
        "sum",
        "connection",
        "Connections to tasks that were turned away: no key, a wrong one, garbage, too slow.",
        row="strangers",
        text="{} refused",
    )
    dropped_messages: int = _metric(
        "sum",
        "message",
        "Messages to tasks that belong to no channel of theirs, or are none at all.",
        row="strangers",
        text="{} dropped",
    )
    requests_answered: int = _metric("sum", "request", "Requests over HTTP that were answered.")
    requests_expired: int = _metric(
        "sum",
        "request",
        "Requests that nobody answered in time: 504.",
        row="requests",
        text="{} expired",
    )
    requests_disconnected: int = _metric(
        "sum",
        "request",
        "Requests whose client went before the answer.",
        row="requests",
        text="{} disconnected",
    )
    requests_refused: int = _metric(
        "sum",
        "request",
        "Requests that were one too many: 503.",
        row="requests",
        text="{} refused",
    )
    model_sent_bytes: int = _metric("sum", "byte", "Bytes of models that went to other nodes.")
    model_received_bytes: int = _metric("sum", "byte", "Bytes of models that came from others.")
    model_memory_bytes: int = _metric("sum", "byte", "Memory of models, one copy per node.")
    model_chunks_resent: int = _metric(
        "sum",
        "chunk",
        "Chunks of models that were sent again: after a loss, or because a bit was flipped.",
        row="models",
        text="{} sent again",
    )
    model_nodes_bypassed: int = _metric(
        "sum",
        "node",
        "Nodes that could not be reached, and were bypassed.",
        row="models",
        text="{} bypassed",
    )


METRICS: Mapping[str, Metric] = {each.name: each.metadata[_KEY] for each in fields(Metrics)}
"""All declared metrics, by name, in the order in which they are shown."""


def merged(tasks: Sequence[tuple[str, Metrics]]) -> dict[str, Any]:
    """The metrics of a job, by name, from those of its tasks and their vertices."""
    vertices = [vertex for vertex, _ in tasks]
    columns = zip(*(_values(task) for _, task in tasks), strict=True) if tasks else repeat(())
    return {
        name: _MERGES[metric.merge](zip(vertices, column, strict=True)) if any(column) else 0
        for (name, metric), column in zip(METRICS.items(), columns, strict=False)
    }


def together(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics of a task, from those of its network and each of its services."""
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            before = found.get(name, 0)
            found[name] = before + value if METRICS[name].merge == "sum" else max(before, value)
    return found


def in_json(metrics: Metrics) -> dict[str, Any]:
    """All metrics, by their names in JSON."""
    return {metric.json or name: getattr(metrics, name) for name, metric in METRICS.items()}


_values = attrgetter(*METRICS)
"""All metrics of a task at once: a job has many tasks, and most of their metrics are 0."""


def _sum(values: Iterable[tuple[str, Any]]) -> Any:
    return sum(value for _, value in values)


def _max(values: Iterable[tuple[str, Any]]) -> Any:
    return max((value for _, value in values), default=0)


def _along_the_way(values: Iterable[tuple[str, Any]]) -> Any:
    worst: dict[str, Any] = {}
    for vertex, value in values:
        worst[vertex] = max(worst.get(vertex, 0), value)
    return sum(worst.values())


_MERGES: dict[Merge, Callable[[Iterable[tuple[str, Any]]], Any]] = {
    "sum": _sum,
    "max": _max,
    "way": _along_the_way,
}
