//! The two ends of one channel.

mod link;
mod order;
mod receiver;
mod sender;

use thiserror::Error;

pub use link::Link;
pub use order::Arrival;
pub(crate) use order::{Numbers, Order};
pub use receiver::Receiver;
pub use sender::{Retransmission, Sender};

/// A frame or credit that cannot belong to a correct channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChannelError {
    /// A frame behind the end of the channel.
    #[error("frame {got} arrived after the end of the channel")]
    AfterEnd {
        /// The sequence number that came.
        got: u64,
    },
    /// More bytes than were granted.
    #[error("the channel carried {sent} bytes, but only {limit} were granted")]
    OverCredit {
        /// Body bytes of the channel, with this frame.
        sent: u64,
        /// Body bytes that were granted.
        limit: u64,
    },
    /// An acknowledgement of frames that were never sent.
    #[error("frame {got} was acknowledged, but only {sent} were sent")]
    NeverSent {
        /// The sequence number that was acknowledged.
        got: u64,
        /// The last sequence number that was used.
        sent: u64,
    },
    /// The peer does not answer any more.
    #[error("no answer for {} s", waited_ns / 1_000_000_000)]
    Unanswered {
        /// Nanoseconds since the peer was last heard.
        waited_ns: u64,
    },
}

/// Data frames below [`FRAME_BYTES`](crate::FRAME_BYTES) that may be unacknowledged at a time.
///
/// One is consumed while the next travels; further records wait for company until an
/// acknowledgement comes, so that frames grow with the load and a lone record leaves at once.
pub const SMALL_FRAMES_IN_FLIGHT: usize = 2;

/// Least time between a frame and a small one behind it on the same channel, in ns.
///
/// A frame costs both ends tens of µs of CPU in wake-ups, whatever it carries. Without the interval
/// a fast receiver acknowledges so soon that a stream of single records travels in frames of about
/// ten; with it, a record that comes alone still leaves at once, and one in a stream waits at most
/// this long.
pub const SMALL_FRAME_INTERVAL_NS: u64 = 250_000;

/// After how long without an answer a sender asks what has arrived, in ns.
///
/// In normal running credits come sooner and nobody asks; a task that is busy with one batch for
/// longer costs one question and answer each.
pub const PROBE_INTERVAL_NS: u64 = 200_000_000;

/// How often the offset between two hosts' clocks is estimated anew, in ns: quartz clocks drift
/// apart by up to 100 µs in this time.
pub const CLOCK_INTERVAL_NS: u64 = 1_000_000_000;

/// Round trips between hosts with different clocks before records flow: the best of them counts,
/// and the first one may have waited for the peer to start.
pub const FIRST_ROUND_TRIPS: u32 = 5;
