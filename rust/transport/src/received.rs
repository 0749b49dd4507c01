use bytes::Bytes;
use oka_protocol::Encoding;

/// One batch of records that arrived on one channel, still encoded.
///
/// Holds its share of the channel's window until the next call of
/// [`Network::receive`](crate::Network::receive). Over shared memory the body is a view of the
/// sender's memory: drop it soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Id of the channel.
    pub channel: u32,
    /// Number of records in the body.
    pub records: u32,
    /// How the body is encoded.
    pub encoding: Encoding,
    /// The encoded records, back to back.
    pub body: Bytes,
    /// Emission stamps (nanoseconds) of the latency markers that travelled behind these records.
    pub markers: Vec<u64>,
}

/// What [`Network::try_receive`](crate::Network::try_receive) found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TryReceive {
    /// The next batch.
    Batch(Received),
    /// Nothing has arrived; more may come.
    Empty,
    /// Every input channel ended, and everything was consumed.
    Ended,
}
