"""The metrics of tasks: each is declared once, with how it is merged, shown and exposed.

A task tells its own `Metrics`, and a job has those of its tasks merged. To add one is a field here
and its measurement; results, their tables, the progress of a job, its JSON and what monitoring
systems are told (`engine.monitoring`) follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.metric.declared import Metric, declared, metric


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The metrics of a task, or of a job."""

    clock_uncertainty_us: float = metric(
        "way",
        "µs",
        "How far off a latency may be since hosts' clocks differ: the sum over the vertices on a "
        "record's way, each with its worst channel. 0 on one host.",
        row="clocks",
        text="hosts' offsets known to ±{}",
        exposed="oka_task_clock_uncertainty_seconds",
    )
    reconnects: int = metric(
        "sum",
        "",
        "Connections between tasks that were lost and made anew.",
        row="reconnects",
        progress=True,
        exposed="oka_channel_reconnects_total",
        always=True,
    )
    longest_interruption_ms: float = metric(
        "max",
        "ms",
        "The longest time for which a channel was cut off, or its receiver silent.",
        row="reconnects",
        text="longest interruption {}",
        alone=False,
        exposed="oka_channel_longest_interruption_seconds",
    )
    retransmitted_frames: int = metric(
        "sum",
        "frame",
        "Frames that were sent again, after a reconnect.",
        exposed="oka_channel_retransmitted_frames_total",
    )
    watermark_lag_ms: float = metric(
        "max",
        "ms",
        "How far the watermark is behind the wall clock; of a job, in the task where it is "
        "farthest behind; 0 where there is none. Of live data it is how long results wait for "
        "records; of old data, how old they are.",
        row="watermark",
        text="{} behind the clock",
        progress=True,
        exposed="oka_task_watermark_lag_seconds",
    )
    lag_records: int = metric(
        "sum",
        "record",
        "Records that wait in the systems in front of the sources, behind what was read; of those "
        "whose partitions tell it, about once a second.",
        row="sources",
        text="{} behind",
        progress=True,
        exposed="oka_source_lag_records",
    )
    disbelieved_times: int = metric(
        "sum",
        "time",
        "Times of records that were too far ahead of others, or of the wall clock, to be believed; "
        "of those that were looked at for watermarks.",
        row="watermark",
        text="{} too far ahead to be believed",
        goes_on=True,
        exposed="oka_task_disbelieved_times_total",
    )
    state_records: int = metric(
        "sum",
        "record",
        "Records that joins keep, since partners may still come; 0 when event time has passed all.",
        row="joins",
        text="{} kept",
        progress=True,
        exposed="oka_task_state_records",
    )
    checkpointed_bytes: int = metric(
        "sum",
        "byte",
        "Bytes of all files of the task's last snapshot: its state, as it was at the last barrier.",
        exposed="oka_task_checkpointed_bytes",
    )
    partial_matches: int = metric(
        "sum",
        "match",
        "Matches of patterns that are under way, and may still become complete.",
        row="patterns",
        text="{} under way",
        progress=True,
        exposed="oka_task_partial_matches",
    )
    restarts: int = metric(
        "sum",
        "",
        "Failures that the job went on after, from its last checkpoint.",
        row="restarts",
        progress=True,
        exposed="oka_job_restarts_total",
        of_job=True,
        always=True,
    )
    checkpoints: int = metric(
        "sum",
        "",
        "Checkpoints that were stored.",
        row="checkpoints",
        text="{} stored",
        exposed="oka_job_checkpoints_total",
        of_job=True,
        always=True,
    )
    checkpoint_ms: float = metric(
        "max",
        "ms",
        "How long the last checkpoint took, from its barriers until all tasks had written.",
        row="checkpoints",
        text="the last in {}",
        alone=False,
        exposed="oka_checkpoint_duration_seconds",
        labels={"phase": "write"},
        of_job=True,
    )
    checkpoint_store_ms: float = metric(
        "max",
        "ms",
        "How long it then took until it was in the log, so that the job can go on from it.",
        exposed="oka_checkpoint_duration_seconds",
        labels={"phase": "store"},
        of_job=True,
    )
    checkpoint_commit_ms: float = metric(
        "max",
        "ms",
        "How long it then took until all sinks had made their output final.",
        exposed="oka_checkpoint_duration_seconds",
        labels={"phase": "commit"},
        of_job=True,
    )
    checkpoint_bytes: int = metric(
        "max",
        "byte",
        "What the last checkpoint wrote: a file for each task.",
        row="checkpoints",
        text="of {}",
        alone=False,
        exposed="oka_checkpoint_size_bytes",
        of_job=True,
    )
    checkpoint_pause_ms: float = metric(
        "max",
        "ms",
        "The longest time for which a task held records to gather what it was for a checkpoint.",
        row="checkpoints",
        text="longest pause {}",
        alone=False,
        exposed="oka_checkpoint_longest_pause_seconds",
    )
    checkpoint_alignment_ms: float = metric(
        "max",
        "ms",
        "The longest time for which inputs of a task that had brought a barrier waited for others.",
        row="checkpoints",
        text="longest alignment {}",
        alone=False,
        exposed="oka_checkpoint_longest_alignment_seconds",
    )
    checkpoint_age_ms: float = metric(
        "max",
        "ms",
        "How long ago the last checkpoint was stored: so much would be done again after a failure.",
        row="checkpoint age",
        alone=False,
        progress=True,
        exposed="oka_checkpoint_age_seconds",
        of_job=True,
    )
    cpu_seconds: float = metric(
        "sum",
        "s",
        "User and system time of the workers, all threads, while their tasks ran. Behind a "
        "restart, without what was done in vain.",
        goes_on=True,
        exposed="oka_task_cpu_seconds_total",
        always=True,
    )
    memory_bytes: int = metric(
        "max",
        "byte",
        "Largest resident set of a worker.",
        json="max_worker_memory_bytes",
        exposed="oka_task_peak_memory_bytes",
        always=True,
    )
    backlog_bytes: int = metric(
        "sum",
        "byte",
        "Bytes that wait for credit in outgoing channels.",
        exposed="oka_channel_backlog_bytes",
        always=True,
    )
    input_backlog_bytes: int = metric(
        "sum",
        "byte",
        "Bytes that have arrived in channels and were not consumed yet.",
        exposed="oka_channel_input_backlog_bytes",
        always=True,
    )
    sent_bytes: int = metric(
        "sum",
        "byte",
        "Bytes of records that left tasks over channels.",
        exposed="oka_channel_sent_bytes_total",
        always=True,
    )
    received_bytes: int = metric(
        "sum",
        "byte",
        "Bytes of records that arrived at tasks over channels.",
        exposed="oka_channel_received_bytes_total",
        always=True,
    )
    refused_connections: int = metric(
        "sum",
        "connection",
        "Connections to tasks that were turned away: no key, a wrong one, garbage, too slow.",
        row="strangers",
        text="{} refused",
        exposed="oka_task_refused_connections_total",
    )
    dropped_messages: int = metric(
        "sum",
        "message",
        "Messages to tasks that belong to no channel of theirs, or are none at all.",
        row="strangers",
        text="{} dropped",
        exposed="oka_task_dropped_messages_total",
    )
    requests_answered: int = metric(
        "sum",
        "request",
        "Requests over HTTP that were answered.",
        exposed="oka_http_requests_total",
        labels={"end": "answered"},
    )
    requests_expired: int = metric(
        "sum",
        "request",
        "Requests that nobody answered in time: 504.",
        row="requests",
        text="{} expired",
        exposed="oka_http_requests_total",
        labels={"end": "expired"},
    )
    requests_disconnected: int = metric(
        "sum",
        "request",
        "Requests whose client went before the answer.",
        row="requests",
        text="{} disconnected",
        exposed="oka_http_requests_total",
        labels={"end": "disconnected"},
    )
    requests_refused: int = metric(
        "sum",
        "request",
        "Requests that were one too many: 503.",
        row="requests",
        text="{} refused",
        exposed="oka_http_requests_total",
        labels={"end": "refused"},
    )
    responses: Mapping[str, int] = metric(
        "each",
        "response",
        "Responses over HTTP by their status, those to requests that came to no task included.",
        row="responses",
        exposed="oka_http_responses_total",
        by="code",
    )
    model_version: int = metric(
        "max",
        "",
        "The version of the model that is in use; of a task with several models, the largest.",
        exposed="oka_model_version",
    )
    model_sent_bytes: int = metric(
        "sum",
        "byte",
        "Bytes of models that went to other nodes.",
        exposed="oka_model_sent_bytes_total",
    )
    model_received_bytes: int = metric(
        "sum",
        "byte",
        "Bytes of models that came from others.",
        exposed="oka_model_received_bytes_total",
    )
    model_memory_bytes: int = metric(
        "sum",
        "byte",
        "Memory of models, one copy per node.",
        exposed="oka_model_memory_bytes",
    )
    model_chunks_resent: int = metric(
        "sum",
        "chunk",
        "Chunks of models that were sent again: after a loss, or because a bit was flipped.",
        row="models",
        text="{} sent again",
        exposed="oka_model_resent_chunks_total",
    )
    model_nodes_bypassed: int = metric(
        "sum",
        "node",
        "Nodes that could not be reached, and were bypassed.",
        row="models",
        text="{} bypassed",
        exposed="oka_model_bypassed_nodes_total",
    )


METRICS: Mapping[str, Metric] = declared(Metrics)
"""All declared metrics, by name, in the order in which they are shown."""

SHARED: Mapping[str, str] = {
    "oka_http_requests_total": "Requests over HTTP that have ended, by how they did.",
    "oka_checkpoint_duration_seconds": "How long each phase of the last checkpoint took.",
}
"""The help of names by which several metrics are exposed."""
