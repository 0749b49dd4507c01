//! Snapshots of a network's counters.

use pyo3::prelude::*;

/// The counters of one network. Counters only grow; backlog and credit are those of the moment.
#[pyclass(frozen, get_all, module = "engine._native")]
pub(crate) struct NetworkStatistics {
    /// Seconds that `receive` has waited for a batch.
    idle_seconds: f64,
    /// Longest time for which inputs that had come to a barrier waited for the others, in seconds.
    longest_barrier_wait_seconds: f64,
    /// Seconds that `emit` has waited for receivers.
    blocked_seconds: f64,
    /// Bytes that wait here for credit, over all channels.
    backlog_bytes: u64,
    /// Messages that were dropped: garbage, unknown channels, frames out of place.
    dropped_messages: u64,
    /// Connections that were turned away: no key or a wrong one, garbage, a handshake that took too
    /// long, or too many of them at once.
    refused_connections: u64,
    /// One entry per output channel, in the order in which they were connected.
    outputs: Vec<Py<OutputStatistics>>,
    /// One entry per input channel, in the order in which they were connected.
    inputs: Vec<Py<InputStatistics>>,
}

/// The counters of one output channel.
#[pyclass(frozen, get_all, module = "engine._native")]
pub(crate) struct OutputStatistics {
    /// Id of the channel.
    channel: u32,
    /// Records that left this task.
    records: u64,
    /// Bytes of records that left this task.
    bytes: u64,
    /// Data frames that left this task.
    frames: u64,
    /// Bytes that wait here for credit.
    backlog_bytes: u64,
    /// Bytes that the receiver would still accept.
    credit_bytes: u64,
    /// Connections that took the place of an earlier one.
    reconnects: u64,
    /// Frames that were sent again, after a reconnect.
    retransmitted_frames: u64,
    /// Longest time for which the receiver was cut off or silent, in seconds.
    longest_interruption_seconds: f64,
    /// What the receiver's monotonic clock is ahead of this host's, in seconds.
    clock_offset_seconds: f64,
    /// How far off that may be, in seconds; 0 on one host.
    clock_uncertainty_seconds: f64,
}

/// The counters of one input channel.
#[pyclass(frozen, get_all, module = "engine._native")]
pub(crate) struct InputStatistics {
    /// Id of the channel.
    channel: u32,
    /// Records that arrived.
    records: u64,
    /// Bytes of records that arrived.
    bytes: u64,
    /// Data frames that arrived.
    frames: u64,
    /// Bytes that arrived and were not consumed yet.
    backlog_bytes: u64,
}

/// The counters of one blob node. `held_bytes` and `blobs` are those of the moment, the others only
/// grow.
#[pyclass(frozen, get_all, module = "engine._native")]
pub(crate) struct BlobStatistics {
    /// Bytes of chunks that were sent to other nodes.
    bytes_sent: u64,
    /// Bytes of chunks that came from other nodes.
    bytes_received: u64,
    /// Chunks that were sent again: after a loss, or because a bit was flipped.
    chunks_resent: u64,
    /// Nodes of a chain that could not be reached, and were bypassed.
    nodes_bypassed: u64,
    /// Connections that were turned away: no key or a wrong one, or another protocol.
    refused_connections: u64,
    /// Bytes of memory of the blobs that this node made, until the last one lets go.
    held_bytes: u64,
    /// Blobs that someone here still needs.
    blobs: u64,
}

impl NetworkStatistics {
    pub(crate) fn new(
        py: Python<'_>,
        statistics: oka_transport::NetworkStatistics,
    ) -> PyResult<Self> {
        let outputs = &statistics.outputs;
        Ok(Self {
            idle_seconds: seconds(statistics.waited_ns),
            longest_barrier_wait_seconds: seconds(statistics.barrier_wait_ns),
            blocked_seconds: seconds(statistics.blocked_ns),
            backlog_bytes: outputs.iter().map(|output| output.backlog_bytes).sum(),
            dropped_messages: statistics.dropped_messages,
            refused_connections: statistics.refused_connections,
            outputs: statistics
                .outputs
                .into_iter()
                .map(|output| Py::new(py, OutputStatistics::from(output)))
                .collect::<PyResult<_>>()?,
            inputs: statistics
                .inputs
                .into_iter()
                .map(|input| Py::new(py, InputStatistics::from(input)))
                .collect::<PyResult<_>>()?,
        })
    }
}

impl From<oka_blob::BlobStatistics> for BlobStatistics {
    fn from(blobs: oka_blob::BlobStatistics) -> Self {
        Self {
            bytes_sent: blobs.bytes_sent,
            bytes_received: blobs.bytes_received,
            chunks_resent: blobs.chunks_resent,
            nodes_bypassed: blobs.nodes_bypassed,
            refused_connections: blobs.refused_connections,
            held_bytes: blobs.held_bytes,
            blobs: blobs.blobs,
        }
    }
}

impl From<oka_transport::OutputStatistics> for OutputStatistics {
    fn from(output: oka_transport::OutputStatistics) -> Self {
        Self {
            channel: output.channel,
            records: output.records,
            bytes: output.bytes,
            frames: output.frames,
            backlog_bytes: output.backlog_bytes,
            credit_bytes: output.credit_bytes,
            reconnects: output.reconnects,
            retransmitted_frames: output.retransmitted_frames,
            longest_interruption_seconds: seconds(output.longest_interruption_ns),
            clock_offset_seconds: output.clock_offset_ns as f64 / 1e9,
            clock_uncertainty_seconds: seconds(output.clock_uncertainty_ns),
        }
    }
}

impl From<oka_transport::InputStatistics> for InputStatistics {
    fn from(input: oka_transport::InputStatistics) -> Self {
        Self {
            channel: input.channel,
            records: input.records,
            bytes: input.bytes,
            frames: input.frames,
            backlog_bytes: input.backlog_bytes,
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
