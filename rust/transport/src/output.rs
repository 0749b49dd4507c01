//! The handle by which a task sends on one channel.

use std::fmt;
use std::slice;
use std::sync::Arc;

use oka_protocol::Control;

use crate::clock::now_ns;
use crate::outbox::Outbox;
use crate::shm::{RingOutput, wait_rings_writable};
use crate::wait_time::WaitTime;
use crate::{EmitError, OpenFrame, OutputStatistics};

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
    end: SendingEnd,
    /// For how long channels have held up their task; all of its channels share it.
    blocked: Arc<WaitTime>,
}

/// The two kinds of channels.
#[derive(Clone)]
pub(crate) enum SendingEnd {
    Ring(Arc<RingOutput>),
    Socket(Arc<Outbox>),
}

impl SendingEnd {
    pub(crate) fn ring(&self) -> Option<&Arc<RingOutput>> {
        match self {
            Self::Ring(ring) => Some(ring),
            Self::Socket(_) => None,
        }
    }

    pub(crate) fn socket(&self) -> Option<&Arc<Outbox>> {
        match self {
            Self::Ring(_) => None,
            Self::Socket(outbox) => Some(outbox),
        }
    }
}

impl OutputChannel {
    pub(crate) fn new(end: SendingEnd, blocked: Arc<WaitTime>) -> Self {
        Self { end, blocked }
    }

    pub(crate) fn end(&self) -> &SendingEnd {
        &self.end
    }

    /// Id of the channel.
    pub fn id(&self) -> u32 {
        match &self.end {
            SendingEnd::Ring(ring) => ring.id,
            SendingEnd::Socket(outbox) => outbox.id,
        }
    }

    /// The largest frame that the channel takes, in bytes of its body.
    pub fn max_frame_bytes(&self) -> usize {
        match &self.end {
            SendingEnd::Ring(ring) => ring.max_frame_bytes,
            SendingEnd::Socket(outbox) => outbox.max_frame_bytes,
        }
    }

    /// Takes what is in the frame, which is empty afterwards and may be filled again. It leaves now
    /// if the channel is free, else as soon as it is.
    #[inline]
    pub fn push(&self, frame: &mut OpenFrame) {
        match &self.end {
            SendingEnd::Ring(ring) => ring.push(frame),
            SendingEnd::Socket(outbox) => outbox.push(frame),
        }
    }

    /// Sends a control behind everything that was pushed. It counts as records do: `wait_writable`
    /// waits, and reports what was refused.
    pub fn send_control(&self, control: Control) {
        match &self.end {
            SendingEnd::Ring(ring) => ring.send_control(control),
            SendingEnd::Socket(outbox) => outbox.send_control(control),
        }
    }

    /// Whether a writer may go on: nothing failed, and not too much waits. Takes no lock.
    #[inline]
    pub fn is_writable(&self) -> bool {
        match &self.end {
            SendingEnd::Ring(ring) => ring.is_writable(),
            SendingEnd::Socket(outbox) => outbox.is_writable(),
        }
    }

    /// Blocks until the channel takes records again; at once if it does now.
    ///
    /// What `push` refused is reported here.
    pub fn wait_writable(&self) -> Result<(), EmitError> {
        Self::wait_all_writable(slice::from_ref(self))
    }

    /// Blocks until all these channels of one network take records again; none holds up another.
    pub fn wait_all_writable(channels: &[Self]) -> Result<(), EmitError> {
        let Some(held_up) = channels.iter().find(|channel| !channel.is_writable()) else {
            return Ok(());
        };
        held_up.blocked.begin(now_ns());
        let result = Self::wait_each_writable(channels);
        held_up.blocked.end();
        result
    }

    fn wait_each_writable(channels: &[Self]) -> Result<(), EmitError> {
        let ends = || channels.iter().map(|channel| &channel.end);
        wait_rings_writable(ends().filter_map(SendingEnd::ring))?;
        let mut outboxes = ends().filter_map(SendingEnd::socket);
        outboxes.try_for_each(|outbox| outbox.wait_writable())
    }

    pub(crate) fn statistics(&self) -> OutputStatistics {
        match &self.end {
            SendingEnd::Ring(ring) => ring.statistics(),
            SendingEnd::Socket(outbox) => outbox.statistics(),
        }
    }
}

impl fmt::Debug for OutputChannel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OutputChannel")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
