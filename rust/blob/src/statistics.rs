//! Counters of a node: how many blobs and bytes it holds and has moved.

/// The counters of one node. `held_bytes` and `blobs` are those of the moment, the others only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobStatistics {
    /// Bytes of chunks that were sent to other nodes.
    pub bytes_sent: u64,
    /// Bytes of chunks that came from other nodes.
    pub bytes_received: u64,
    /// Chunks that were sent again: after a loss, or because a bit was flipped.
    pub chunks_resent: u64,
    /// Nodes of a chain that could not be reached, and were bypassed.
    pub nodes_bypassed: u64,
    /// Connections that were turned away: no key or a wrong one, or another protocol.
    pub refused_connections: u64,
    /// Bytes of memory that blobs take which this process made, until the last one lets go.
    pub held_bytes: u64,
    /// Blobs that someone here still needs.
    pub blobs: u64,
}
