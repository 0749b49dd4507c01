use crate::EmitError;

/// The open frame of an output channel: records that are encoded but not sent.
///
/// `body` starts with [`OpenFrame::RESERVED`] bytes that belong to the transport (the frame's
/// header goes there, so that nothing is copied). Append behind them, or truncate to a length seen
/// earlier; never clear it.
#[derive(Debug, Default)]
pub struct OpenFrame {
    /// Reserved header bytes, then the encoded records.
    pub body: Vec<u8>,
    /// Number of records in the body.
    pub records: u32,
    /// Emission stamps (nanoseconds) of the markers that travel behind these records.
    pub markers: Vec<u64>,
}

impl OpenFrame {
    /// Bytes at the start of `body` that belong to the transport.
    pub const RESERVED: usize = 24;

    /// Bytes of encoded records.
    pub fn body_bytes(&self) -> usize {
        todo!()
    }

    /// Whether the frame is large enough to be sealed.
    pub fn is_full(&self) -> bool {
        todo!()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
}

/// The sending end of one channel; a cheap handle.
#[derive(Debug, Clone)]
pub struct OutputChannel {}

impl OutputChannel {
    /// Id of the channel.
    pub fn id(&self) -> u32 {
        todo!()
    }

    /// Takes the open frame for exclusive writing without a lock.
    pub fn checkout(&self) -> OpenFrame {
        todo!()
    }

    /// Gives the open frame back; it leaves as soon as the channel is free.
    pub fn checkin(&self, _frame: OpenFrame) {
        todo!()
    }

    /// Queues a full frame in the middle of an emission and goes on with an empty one.
    pub fn seal(&self, _frame: OpenFrame) -> OpenFrame {
        todo!()
    }

    /// Whether a writer may go on: no failure, and at most `send_buffer_bytes` wait. Never blocks.
    pub fn is_writable(&self) -> bool {
        todo!()
    }

    /// Blocks until the channel takes records again.
    pub fn wait_writable(&self) -> Result<(), EmitError> {
        todo!()
    }
}
