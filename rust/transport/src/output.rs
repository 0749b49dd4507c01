use std::fmt;
use std::sync::Arc;

use crate::outbox::Outbox;
use crate::{EmitError, OpenFrame};

/// The sending end of one channel; a cheap handle.
///
/// Records leave in the order of `push`. It never waits for a peer; `wait_writable` does: a writer
/// that never calls it is not held back, and grows the backlog.
///
/// ```
/// # use oka_transport::{EmitError, OpenFrame, OutputChannel};
/// fn emit(channel: &OutputChannel, records: &[&[u8]]) -> Result<(), EmitError> {
///     let mut frame = OpenFrame::new();
///     for record in records {
///         frame.body.extend_from_slice(record);
///         frame.records += 1;
///         if frame.is_full() {
///             channel.push(&mut frame);
///         }
///     }
///     channel.push(&mut frame);
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

    /// Takes what is in the frame, which is empty afterwards and may be filled again. It leaves now
    /// if the channel is free, else as soon as it is.
    pub fn push(&self, frame: &mut OpenFrame) {
        self.outbox.push(frame);
    }

    /// Whether a writer may go on: nothing failed, and at most `send_buffer_bytes` wait. Takes no
    /// lock.
    pub fn is_writable(&self) -> bool {
        self.outbox.is_writable()
    }

    /// Blocks until the channel takes records again; at once if it does now.
    ///
    /// A writer that had to wait goes on when half the buffer has left. What `push` refused
    /// is reported here.
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
