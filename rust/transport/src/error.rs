//! Errors of a network: why it could not bind, connect, emit or receive.

use std::time::Duration;

use oka_ipc::InvalidEndpoint;
use oka_protocol::ChannelError;
use oka_ring::MapError;
use thiserror::Error;

/// Why [`Network::bind`](crate::Network::bind) failed.
#[derive(Debug, Error)]
pub enum BindError {
    /// The text is no endpoint.
    #[error(transparent)]
    Invalid(#[from] InvalidEndpoint),
    /// Nothing to listen on.
    #[error("a network listens on at least one endpoint, got none\n\nhint: pass one per transport")]
    NoEndpoint,
    /// The operating system refused the endpoint.
    #[error(
        "cannot listen on {endpoint}: {reason}\n\nhint: the directory must exist, be writable and \
         keep socket paths below 108 bytes; a TCP port must be free (0 picks one)"
    )]
    Refused {
        /// The endpoint as it was given.
        endpoint: String,
        /// What the operating system said.
        reason: String,
    },
    /// The I/O thread could not be started.
    #[error("cannot start the I/O thread: {0}\n\nhint: check the limits on threads and open files")]
    Thread(#[from] std::io::Error),
    /// Shared memory could not be had.
    #[error(transparent)]
    Memory(#[from] MapError),
}

/// Why [`Network::connect`](crate::Network::connect) failed.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The text is no endpoint.
    #[error(transparent)]
    Invalid(#[from] InvalidEndpoint),
    /// Two channels with one id.
    #[error("channel {0} was given twice\n\nhint: a channel id is unique in the whole job")]
    Duplicate(u32),
    /// `connect` was called before.
    #[error("the network is connected already\n\nhint: give all channels to one call of connect")]
    AlreadyConnected,
    /// A peer did not answer in time.
    #[error(
        "channel {channel} to {peer} is not connected after {waited:?}\n\nhint: the peer must \
         listen before it is connected to; raise connect_timeout for slow starts"
    )]
    TimedOut {
        /// Id of the channel.
        channel: u32,
        /// Endpoint of the peer.
        peer: String,
        /// How long it was waited.
        waited: Duration,
    },
    /// The two ends did not understand each other.
    #[error(
        "channel {channel} to {peer} could not be connected: {reason}\n\nhint: check the limits on \
         open files and memory; both tasks must run one version"
    )]
    Refused {
        /// Id of the channel.
        channel: u32,
        /// Endpoint of the peer.
        peer: String,
        /// What was refused.
        reason: String,
    },
    /// `cancel` was called.
    #[error("cancelled while connecting")]
    Cancelled,
}

/// A channel that broke before its end; the records in flight on it are lost.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("channel {channel} to {peer} was lost: {reason}\n\nhint: {}", reason.hint())]
pub struct ChannelLost {
    /// Id of the channel.
    pub channel: u32,
    /// Endpoint of the peer.
    pub peer: String,
    /// What was seen.
    pub reason: LostReason,
}

/// What broke a channel.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LostReason {
    /// The peer is gone: a connection within a machine breaks for no other reason.
    #[error("its connection closed before the channel ended")]
    Closed,
    /// The peer never connected.
    #[error("it did not connect within {waited:?}")]
    Absent {
        /// How long it was waited.
        waited: Duration,
    },
    /// The peer wrote what cannot be.
    #[error("{0}")]
    Malformed(String),
    /// The connection did not come back in time.
    #[error("its connection was gone for {:.1} s", waited.as_secs_f64())]
    CutOff {
        /// How long it was waited.
        waited: Duration,
    },
    /// The peer broke the protocol, or stopped answering.
    #[error(transparent)]
    Protocol(#[from] ChannelError),
}

impl LostReason {
    fn hint(&self) -> &'static str {
        match self {
            Self::Closed | Self::Absent { .. } | Self::Malformed(_) => {
                "look at the log of the task at its other end, which stopped or was cut off"
            }
            Self::CutOff { .. } | Self::Protocol(ChannelError::Unanswered { .. }) => {
                "is the host of its other end up, and the network to it? raise \
                 reconnect_timeout_seconds to wait longer"
            }
            Self::Protocol(_) => {
                "all tasks of a job run one version; was the traffic tampered with?"
            }
        }
    }
}

/// Why [`Network::receive`](crate::Network::receive) gave no batch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReceiveError {
    /// `cancel` was called.
    #[error("cancelled while receiving")]
    Cancelled,
    /// A channel of this task broke.
    #[error(transparent)]
    Lost(#[from] ChannelLost),
}

/// Why an output channel takes no more records.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EmitError {
    /// `cancel` was called.
    #[error("cancelled while emitting")]
    Cancelled,
    /// A channel of this task broke.
    #[error(transparent)]
    Lost(#[from] ChannelLost),
    /// A frame is larger than the network carries.
    #[error(
        "a frame of {bytes} bytes on channel {channel}, expected at most {limit}\n\nhint: raise \
         max_record_bytes, or split what is in one record"
    )]
    Oversized {
        /// Id of the channel.
        channel: u32,
        /// Size of the frame's body.
        bytes: usize,
        /// The network's `max_frame_bytes`.
        limit: usize,
    },
    /// Records were emitted after `finish`.
    #[error("channel {0} was finished already\n\nhint: finish after the last record")]
    Finished(u32),
}

/// A channel that is no input of the task.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("channel {0} is no input of this task\n\nhint: connect it first")]
pub struct NoInput(pub u32);

/// Why [`Network::finish`](crate::Network::finish) could not deliver everything.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FinishError {
    /// `cancel` was called.
    #[error("cancelled while finishing")]
    Cancelled,
    /// A channel of this task broke.
    #[error(transparent)]
    Lost(#[from] ChannelLost),
    /// Records were refused earlier, so not everything can be delivered.
    #[error(transparent)]
    Emit(EmitError),
    /// Peers did not consume everything in time.
    #[error(
        "channels {channels:?} are not consumed after {waited:?}\n\nhint: the tasks behind them \
         are slow or stuck"
    )]
    TimedOut {
        /// Ids of the channels with unacknowledged frames.
        channels: Vec<u32>,
        /// How long it was waited.
        waited: Duration,
    },
}
