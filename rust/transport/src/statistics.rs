//! Counters of a network and of its channels.

/// A snapshot of the counters of one [`Network`](crate::Network).
///
/// Counters only grow; gauges (`backlog_bytes`, `credit_bytes`) are those of the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkStatistics {
    /// One entry per output channel, in the order in which they were connected.
    pub outputs: Vec<OutputStatistics>,
    /// One entry per input channel, in the order in which they were connected.
    pub inputs: Vec<InputStatistics>,
    /// Nanoseconds `receive` has waited for a batch.
    pub waited_ns: u64,
    /// Nanoseconds writers have waited until channels took records again.
    pub blocked_ns: u64,
    /// Longest time in ns for which inputs that had come to a barrier waited for the others.
    pub barrier_wait_ns: u64,
    /// Messages that were dropped: garbage, unknown channels, frames out of place.
    pub dropped_messages: u64,
    /// Connections that were turned away: no key or a wrong one, garbage, a handshake that took too
    /// long, or too many of them at once. Of thousands in one moment some may be missing.
    pub refused_connections: u64,
}

/// The counters of one output channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputStatistics {
    /// Id of the channel.
    pub channel: u32,
    /// Records that left this task.
    pub records: u64,
    /// Body bytes that left this task.
    pub bytes: u64,
    /// Data frames that left this task.
    pub frames: u64,
    /// Bytes that wait here for credit.
    pub backlog_bytes: u64,
    /// Bytes the receiver would still accept.
    pub credit_bytes: u64,
    /// Connections that took the place of an earlier one.
    pub reconnects: u64,
    /// Frames that were sent again, after a reconnect.
    pub retransmitted_frames: u64,
    /// The longest time in ns for which the peer was cut off or silent; 0 if it never was.
    pub longest_interruption_ns: u64,
    /// What the receiver's `CLOCK_MONOTONIC` is ahead of this host's, in ns.
    pub clock_offset_ns: i64,
    /// How far off that may be, in ns; 0 on one host, whose clock is one.
    pub clock_uncertainty_ns: u64,
}

/// The counters of one input channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputStatistics {
    /// Id of the channel.
    pub channel: u32,
    /// Records that arrived.
    pub records: u64,
    /// Body bytes that arrived.
    pub bytes: u64,
    /// Data frames that arrived.
    pub frames: u64,
    /// Bytes that arrived and were not consumed yet.
    pub backlog_bytes: u64,
}
