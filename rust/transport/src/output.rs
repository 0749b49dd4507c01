use std::fmt;
use std::sync::Arc;

use crate::outbox::Outbox;
use crate::{EmitError, OpenFrame};

/// The sending end of one channel; a cheap handle.
///
/// Frames leave in the order of `checkin` and `seal`. None of the calls waits for a peer except
/// `wait_writable`: a writer that never calls it is not held back, and grows the backlog.
///
/// ```
/// # use oka_transport::{EmitError, OutputChannel};
/// fn emit(channel: &OutputChannel, records: &[&[u8]]) -> Result<(), EmitError> {
///     let mut frame = channel.checkout();
///     for record in records {
///         frame.body.extend_from_slice(record);
///         frame.records += 1;
///         if frame.is_full() {
///             frame = channel.seal(frame);
///         }
///     }
///     channel.checkin(frame);
///     if channel.is_writable() { Ok(()) } else { channel.wait_writable() }
/// }
/// ```
#[derive(Clone)]
pub struct OutputChannel {
    outbox: Arc<Outbox>,
}

impl OutputChannel {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox }
    }

    /// Id of the channel.
    pub fn id(&self) -> u32 {
        self.outbox.id
    }

    /// Takes the open frame for exclusive writing without a lock; give it back soon with
    /// [`OutputChannel::checkin`].
    pub fn checkout(&self) -> OpenFrame {
        self.outbox.checkout()
    }

    /// Gives the open frame back; it leaves now if the channel is free, else as soon as it is.
    pub fn checkin(&self, frame: OpenFrame) {
        self.outbox.checkin(frame);
    }

    /// Queues a full frame in the middle of an emission and goes on with an empty one.
    pub fn seal(&self, frame: OpenFrame) -> OpenFrame {
        self.outbox.seal(frame)
    }

    /// Whether a writer may go on: nothing failed, and at most `send_buffer_bytes` wait. Takes no
    /// lock.
    pub fn is_writable(&self) -> bool {
        self.outbox.is_writable()
    }

    /// Blocks until the channel takes records again; at once if it does now.
    ///
    /// A writer that had to wait goes on when half the buffer has left. What `checkin` and `seal`
    /// refused is reported here.
    pub fn wait_writable(&self) -> Result<(), EmitError> {
        self.outbox.wait_writable()
    }
}

impl fmt::Debug for OutputChannel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OutputChannel")
            .field("id", &self.outbox.id)
            .field("peer", &self.outbox.peer)
            .finish_non_exhaustive()
    }
}
