use oka_protocol::{Encoding, FRAME_BYTES, HEADER_BYTES, MARKER_BYTES};

/// The open frame of an output channel: records that are encoded and not sent.
///
/// `body` starts with [`OpenFrame::RESERVED`] bytes that belong to the transport (the frame's
/// header goes there, so that nothing is copied). Append behind them, or truncate to a length seen
/// earlier; never clear it.
#[derive(Debug, Default)]
pub struct OpenFrame {
    /// Reserved header bytes, then the encoded records.
    pub body: Vec<u8>,
    /// How the records in the body are encoded: all alike. Seal the frame before it changes.
    pub encoding: Encoding,
    /// Number of records in the body.
    pub records: u32,
    /// Emission stamps (nanoseconds) of the markers that travel behind these records.
    pub markers: Vec<u64>,
}

impl OpenFrame {
    /// Bytes at the start of `body` that belong to the transport.
    pub const RESERVED: usize = HEADER_BYTES;

    /// Bytes of encoded records.
    pub fn body_bytes(&self) -> usize {
        self.body.len().saturating_sub(Self::RESERVED)
    }

    /// Whether the frame is large enough to be sealed.
    pub fn is_full(&self) -> bool {
        self.body_bytes() >= FRAME_BYTES
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.records == 0 && self.markers.is_empty()
    }

    /// Bytes that count against the channel's credit.
    pub(crate) fn credited_bytes(&self) -> usize {
        self.body_bytes() + self.markers.len() * MARKER_BYTES
    }
}
