"""Messages between the job master and a worker: plain data, the same under every runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any

from engine.checkpoint import SnapshotEntry
from engine.config import JobConfig
from engine.errors import EngineError
from engine.graph.logical import LogicalOperator
from engine.metric.declared import metric
from engine.metric.metrics import Metrics
from engine.partitioner import Partitioner
from engine.service import ServicePlan


@dataclass(frozen=True)
class OutputDescription:
    """One outgoing edge of a task: how records choose among its channels."""

    partitioner: Partitioner
    channels: tuple[int, ...]
    """Channel ids, one per task of the target vertex, in the order of their index."""
    side_output: tuple[str, str] | None = None
    """The operator and its side output that it is for; None is what leaves the chain."""


@dataclass(frozen=True)
class TaskDescription:
    """All that a worker needs to run one task."""

    id: int
    """Number of the task in the job."""
    vertex: str
    index: int
    parallelism: int
    operators: tuple[LogicalOperator, ...]
    resources: Mapping[str, float]
    inputs: tuple[int, ...]
    outputs: tuple[OutputDescription, ...]
    config: JobConfig
    neighbours: int = 1
    """Tasks of the job on the same node, this one included."""
    columns: bool = False
    """Whether an operator of the job says that it emits columns."""
    bulk: bool = False
    """Whether throughput is what counts in the job, not how soon each record is through."""
    second_inputs: tuple[int, ...] = ()
    """The `inputs` that feed the second input of the first operator, if it has two."""
    services: tuple[ServicePlan, ...] = ()
    """Its part in what runs beside the channels."""
    node: str = ""
    """Where it runs."""
    host: str = ""
    """The node's name in messages."""

    @property
    def name(self) -> str:
        """The vertex and the index, as in `source -> map[0]`."""
        return f"{self.vertex}[{self.index}]"

    @property
    def pickle(self) -> bool:
        """Whether what leaves its last operator may be pickled."""
        return self.operators[-1].pickle

    def pickles(self, output: OutputDescription) -> bool:
        """Whether records for this output may be pickled.

        A side output gets records that its operator was given or has made.
        """
        if output.side_output is None:
            return self.pickle
        names = [operator.name for operator in self.operators]
        at = names.index(output.side_output[0])
        return any(operator.pickle for operator in self.operators[: at + 1])

    @property
    def first_inputs(self) -> tuple[int, ...]:
        """The inputs that are not of a second one."""
        return tuple(channel for channel in self.inputs if channel not in self.second_inputs)

    @property
    def has_side_input(self) -> bool:
        """Whether the second input is a side input."""
        found: bool = self.operators[0].operator.properties.side_input
        return found

    @property
    def output_channels(self) -> tuple[int, ...]:
        """Ids of all outgoing channels."""
        return tuple(channel for output in self.outputs for channel in output.channels)


@dataclass(frozen=True)
class Window:
    """What passed between two moments, in ns since 1970: hosts share no other clock."""

    first_ns: int
    last_ns: int
    records_in: int
    """Records into the task's first operator."""
    records_out: int
    """Records out of its last."""


@dataclass(frozen=True)
class OperatorStatistics:
    """Records into and out of one operator of a task, and what became of them."""

    name: str
    records_in: int = metric(
        "sum",
        "record",
        "Records into the operator.",
        MISSING,
        goes_on=True,
        exposed="oka_operator_records_in_total",
        always=True,
    )
    records_out: int = metric(
        "sum",
        "record",
        "Records out of the operator; of a sink, those that it has taken.",
        MISSING,
        goes_on=True,
        exposed="oka_operator_records_out_total",
        always=True,
    )
    failures: int = metric(
        "sum",
        "",
        "Things that the operator had to leave out, such as models that do not load.",
        goes_on=True,
        exposed="oka_operator_failures_total",
        always=True,
    )
    errors: int = metric(
        "sum",
        "record",
        "Records that the operator's function failed on without failing the job, by `on_error`.",
        goes_on=True,
        exposed="oka_operator_error_records_total",
        always=True,
    )
    first_error: str | None = None
    """The first of these records, and its error."""
    late: int = metric(
        "sum",
        "record",
        "Records that came too late to count: their windows were closed.",
        goes_on=True,
        exposed="oka_operator_late_records_total",
        always=True,
    )
    native: int = metric(
        "sum",
        "record",
        "Records whose function ran in Rust, or over columns.",
        goes_on=True,
        exposed="oka_operator_native_records_total",
    )
    fallbacks: int = metric(
        "sum",
        "batch",
        "Batches that held something unusual, and so went through the function itself.",
        goes_on=True,
        exposed="oka_operator_fallback_batches_total",
    )
    first_fallback: str | None = None
    """The unusual thing in the first of these batches."""
    checkpointed_keys: int = metric(
        "sum",
        "key",
        "Keys of which the operator keeps something, as it was at the last barrier.",
        exposed="oka_operator_checkpointed_keys",
    )
    oldest_key_ms: float = metric(
        "max",
        "ms",
        "How long the operator has had the key that it has had longest, as checkpoints show it; "
        "since the task began at most.",
        exposed="oka_operator_oldest_key_seconds",
    )

    def __add__(self, other: OperatorStatistics) -> OperatorStatistics:
        return OperatorStatistics(
            self.name,
            self.records_in + other.records_in,
            self.records_out + other.records_out,
            self.failures + other.failures,
            self.errors + other.errors,
            self.first_error or other.first_error,
            self.late + other.late,
            self.native + other.native,
            self.fallbacks + other.fallbacks,
            self.first_fallback or other.first_fallback,
        )


@dataclass(frozen=True, kw_only=True)
class TaskStatistics(Metrics):
    """The measurements of one task since it began to run. A snapshot: it never changes."""

    vertex: str
    index: int
    operators: tuple[OperatorStatistics, ...]
    elapsed_seconds: float
    busy_seconds: float = metric(
        "sum",
        "s",
        "Time in operators and encoding, at work: on a core, or ready for one.",
        MISSING,
        exposed="oka_task_busy_seconds_total",
        always=True,
    )
    waiting_seconds: float = metric(
        "sum",
        "s",
        "Time in operators and the source that they spent waiting, but not for a channel.",
        MISSING,
        exposed="oka_task_waiting_seconds_total",
        always=True,
    )
    idle_seconds: float = metric(
        "sum",
        "s",
        "Time spent waiting for input, or for the moment an open-load source may emit.",
        MISSING,
        exposed="oka_task_idle_seconds_total",
        always=True,
    )
    blocked_seconds: float = metric(
        "sum",
        "s",
        "Time spent waiting for credit from downstream, and at the end for it to take the rest.",
        MISSING,
        exposed="oka_task_blocked_seconds_total",
        always=True,
    )
    source_window: Window | None
    """The steady window of a task with a source; `records_in` are those the source emitted."""
    sink_window: Window | None
    """The steady window of a task with a sink; `records_out` are those whose write returned."""
    latency: bytes | None
    """Serialized histogram of the markers that this task's sinks have observed."""
    final_seconds: float = 0.0
    """From its start until all output of its sinks was final; 0 before that."""
    parallelism: int = 1
    """The number of tasks of its vertex."""


@dataclass(frozen=True)
class Remark:
    """A line for the job's log."""

    text: str


@dataclass(frozen=True)
class LimitReached:
    """A worker's report: an operator has emitted as many records as its limit allows."""

    attempt: int
    operator: str


@dataclass(frozen=True)
class SourceProgress:
    """A worker's report: the event time that its source has reached."""

    attempt: int
    watermark_us: int | None
    """None: it is idle, or has ended."""


@dataclass(frozen=True)
class ChannelBroke:
    """A worker's report: a channel is lost, and the task may be waiting for its source."""

    attempt: int
    failure: TaskFailure


@dataclass(frozen=True)
class Start:
    """Where a task of a job with checkpoints begins, in one attempt."""

    url: str
    """Where its checkpoints are."""
    generation: int
    """The generation of the driver."""
    epoch: int
    """The epoch that it goes on from; 0 is the beginning."""
    last: int
    """The last epoch that any attempt has begun."""
    entries: tuple[SnapshotEntry, ...] = ()
    """The snapshots that the task reads."""
    is_finished: bool = False
    """Whether it had ended: it has to make its output final, and ends."""
    committed: int = 0
    """The last epoch that all sinks are known to have committed."""
    open_shares: frozenset[int] = frozenset()
    """The shares of its source that a task still reads."""
    meanings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The meaning of its operators' state when it was stored, by their identity."""
    trusted: bool = False
    """Whether the job pickles records, and so trusts all writers to its checkpoints."""
    modules: frozenset[str] = frozenset()
    """Modules of classes in the state that may be imported even if it is not trusted."""
    seen: str | None = None
    """A file of the driver's that the first task of a node has to find among the checkpoints."""


@dataclass(frozen=True)
class SnapshotWritten:
    """A worker's report: the snapshot of its task at a barrier is written."""

    attempt: int
    epoch: int
    entry: SnapshotEntry
    commits: bool
    """Whether the task has to make the epoch final, or be told that it is."""


@dataclass(frozen=True)
class SnapshotFailed:
    """A worker's report: the snapshot of its task could not be written."""

    attempt: int
    epoch: int
    error: EngineError


@dataclass(frozen=True)
class TaskFailure:
    """Why a task failed: plain data, so that it crosses every kind of control plane."""

    kind: str
    """`operator`, `storage`, `channel_lost`, `checkpoint` or `cancelled`."""
    operator: str
    record: str | None
    error: str
    """The exception in words."""
    traceback: str
    """The part of its traceback that lies in the user's code."""
    hint: str | None = None
    full_traceback: str = ""
    code: str | None = None
    """The code of a StorageError."""
