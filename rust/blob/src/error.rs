//! Errors of a node: why it could not bind or connect, and why a blob is lost.

use std::io;
use std::time::Duration;

use oka_ipc::InvalidEndpoint;
use thiserror::Error;

use crate::message::FailedNode;

/// Why [`BlobNode::bind`](crate::BlobNode::bind) failed.
#[derive(Debug, Error)]
pub enum BindError {
    /// The text is no endpoint.
    #[error(transparent)]
    Invalid(#[from] InvalidEndpoint),
    /// A setting cannot work.
    #[error("{0}")]
    Setting(String),
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
}

/// Why [`BlobNode::connect`](crate::BlobNode::connect) failed.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The text is no endpoint.
    #[error(transparent)]
    Invalid(#[from] InvalidEndpoint),
    /// `connect` was called before.
    #[error("the node is connected already\n\nhint: give all peers to one call of connect")]
    AlreadyConnected,
    /// A leader or a follower of this machine did not come in time.
    #[error(
        "{missing} after {waited:?}\n\nhint: the other workers of this machine must listen before; \
         raise the timeout for slow starts"
    )]
    TimedOut {
        /// Who did not come.
        missing: String,
        /// How long it was waited.
        waited: Duration,
    },
    /// `cancel` or `close` was called.
    #[error("cancelled while connecting")]
    Cancelled,
}

/// Why there is no memory for a blob.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// There is not enough.
    #[error(
        "a blob of {size} bytes does not fit: {available} bytes of memory are available\n\nhint: \
         blobs lie in memory, one copy per node; free memory, raise the container's limit, or send \
         smaller ones"
    )]
    Full {
        /// Bytes of the blob.
        size: u64,
        /// Bytes that could be had.
        available: u64,
    },
    /// A peer could change the memory while it is in use.
    #[error("the memory of a peer is not sealed, or not of the size it says")]
    Unsealed,
    /// The operating system refused.
    #[error("no memory for a blob: {0}\n\nhint: check the limits on memory and open files")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for MemoryError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// A blob that will not come, or did not get everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("blob {number} of task {origin} {what}")]
pub struct BlobLost {
    /// Where the blob began.
    pub origin: u32,
    /// Which one it is.
    pub number: u64,
    /// What happened, with a hint.
    pub what: String,
}

/// Why a call that waits for a blob gave none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WaitError {
    /// `cancel` or `close` was called.
    #[error("cancelled while waiting for a blob")]
    Cancelled,
    /// It will not come, or did not get everywhere.
    #[error(transparent)]
    Lost(#[from] BlobLost),
    /// The caller's own limit.
    #[error("blob {number} of task {origin} is not there after {waited:?}")]
    TimedOut {
        /// Where the blob began.
        origin: u32,
        /// Which one it is.
        number: u64,
        /// How long it was waited.
        waited: Duration,
    },
}

/// Why a blob could not be begun.
#[derive(Debug, Error)]
pub enum CreateError {
    /// There is a blob with that number.
    #[error("blob {number} of task {origin} was begun before\n\nhint: count the numbers up")]
    Duplicate {
        /// Where the blob began.
        origin: u32,
        /// Which one it is.
        number: u64,
    },
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// `cancel` or `close` was called.
    #[error("cancelled before the blob was begun")]
    Cancelled,
}

/// Why a blob could not be filled.
#[derive(Debug, Error)]
pub enum FillError {
    /// More than its size.
    #[error(
        "{written} bytes for a blob of {size} bytes\n\nhint: its size is fixed when it is created"
    )]
    TooLong {
        /// Bytes with what was just given.
        written: u64,
        /// Bytes of the blob.
        size: u64,
    },
    /// Finished too early.
    #[error("only {written} of {size} bytes were written\n\nhint: finish after the last byte")]
    TooShort {
        /// Bytes that were written.
        written: u64,
        /// Bytes of the blob.
        size: u64,
    },
    /// Finished or aborted before.
    #[error("the blob was finished or aborted before\n\nhint: create the next one")]
    Ended,
    /// Written after a view was handed out.
    #[error("a blob with a view is filled through it\n\nhint: call advance, or write without view")]
    Viewed,
    /// No view, but advanced.
    #[error("there is no view to have filled\n\nhint: call view first")]
    NotViewed,
    /// `cancel` or `close` was called.
    #[error("cancelled while a blob was filled")]
    Cancelled,
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A file could not be read.
    #[error("cannot read {path:?}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What the operating system said.
        reason: String,
    },
}

/// A sentence about nodes that have not got a blob.
pub(crate) fn undelivered(failed: &[FailedNode]) -> String {
    let each = failed
        .iter()
        .map(|FailedNode { endpoint, reason }| format!("{endpoint} ({reason})"));
    format!(
        "did not get to {}\n\nhint: are their hosts up, and the network to them? raise \
         reconnect_timeout_seconds to wait longer",
        each.collect::<Vec<_>>().join(", ")
    )
}
