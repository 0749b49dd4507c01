//! Settings of a network, with their defaults.

use std::time::Duration;

/// The settings of one [`Network`](crate::Network).
///
/// The defaults suit tasks that exchange many small records. Every task of a job uses the same
/// values, but nothing breaks when they differ: a receiver announces its window. The defaults are
/// those of the engine's `JobConfig`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Bytes a receiver takes from one channel before it has consumed any (default 1 MiB).
    ///
    /// Cost: the memory of a task is bounded by this times its input channels. Smaller windows
    /// stall a sender whenever the receiver is busy for a moment.
    pub window_bytes: usize,
    /// Bytes that may wait on one output channel before a writer has to wait (default 128 KiB).
    ///
    /// Cost: memory per output channel, and latency under backpressure.
    pub send_buffer_bytes: usize,
    /// Largest body of one frame in bytes, hence the largest record (default 256 MiB).
    ///
    /// Cost: a peer can make this task allocate as much for one message.
    pub max_frame_bytes: usize,
    /// How long an open frame below [`FRAME_BYTES`](oka_protocol::FRAME_BYTES) may wait for
    /// company (default zero: it leaves as soon as the channel is free).
    ///
    /// Cost: latency, in steps of the timer's millisecond.
    pub linger: Duration,
    /// How long [`Network::connect`](crate::Network::connect) waits for its peers (default 30 s).
    pub connect_timeout: Duration,
    /// How long a TCP channel may be cut off before it counts as lost (default 10 s).
    ///
    /// Cost: a peer that is gone for good is only noticed after this time. What was sent and not
    /// consumed is kept meanwhile, at most `window_bytes` per channel.
    pub reconnect_timeout: Duration,
    /// How long a task that is woken again and again lets frames from shared memory gather (default
    /// 50 µs).
    ///
    /// Cost: latency, only for streams in which less than twice this lies between two frames. A
    /// wake-up takes tens of µs of CPU at both ends, so where many tasks share a core it should be
    /// longer.
    pub nap: Duration,
    /// Whether TCP channels are encrypted and both their ends authenticated (default true).
    ///
    /// Cost: about two nanoseconds of CPU per byte at each end.
    pub encryption: bool,
    /// Channels this network is going to have, inputs and outputs (default 64).
    ///
    /// Only bounds how many peers may be in a handshake at the same moment, one host an eighth of
    /// them: more of them are turned away and come again. Cost: the memory that strangers may
    /// occupy for 5 s: 68 KB per handshake, measured with half-open connections.
    pub channels: usize,
    /// Which deployment of the job's tasks this network belongs to, modulo 256 (default 0).
    ///
    /// Frames and peers of any other are refused: of a task that should be gone, for instance.
    /// Of the same number again, 256 deployments later, only the keys of encrypted channels tell.
    pub attempt: u8,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            window_bytes: 1024 * 1024,
            send_buffer_bytes: 128 * 1024,
            max_frame_bytes: 256 * 1024 * 1024,
            linger: Duration::ZERO,
            connect_timeout: Duration::from_mins(1),
            reconnect_timeout: Duration::from_secs(10),
            nap: Duration::from_micros(50),
            encryption: true,
            channels: 64,
            attempt: 0,
        }
    }
}
