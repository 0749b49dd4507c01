//! The frame that a writer fills before it is sent.

use oka_protocol::{Encoding, FRAME_BYTES, HEADER_BYTES, MARKER_BYTES, Trailer};

/// Records that are encoded and not sent: what a writer fills and an output channel takes.
///
/// `body` starts with [`OpenFrame::RESERVED`] bytes that belong to the transport (the frame's
/// header goes there, so that nothing is copied). Append behind them, or truncate to a length seen
/// earlier; never clear it.
#[derive(Debug)]
pub struct OpenFrame {
    /// Reserved header bytes, then the encoded records.
    pub body: Vec<u8>,
    /// How the records in the body are encoded: all alike. Push the frame before it changes.
    pub encoding: Encoding,
    /// Number of records in the body.
    pub records: u32,
    /// Emission stamps (nanoseconds) of the markers that travel behind these records.
    pub markers: Vec<u64>,
    /// The controls behind them.
    pub(crate) trailer: Trailer,
}

impl OpenFrame {
    /// Bytes at the start of `body` that belong to the transport.
    pub const RESERVED: usize = HEADER_BYTES;

    /// An empty frame.
    pub fn new() -> Self {
        Self::with_buffer(Vec::new())
    }

    /// An empty frame that writes into this memory.
    pub(crate) fn with_buffer(mut body: Vec<u8>) -> Self {
        body.clear();
        body.resize(Self::RESERVED, 0);
        Self {
            body,
            encoding: Encoding::default(),
            records: 0,
            markers: Vec::new(),
            trailer: Trailer::default(),
        }
    }

    /// The encoded records.
    pub fn records_bytes(&self) -> &[u8] {
        &self.body[Self::RESERVED..]
    }

    /// Bytes of encoded records.
    pub fn body_bytes(&self) -> usize {
        self.body.len() - Self::RESERVED
    }

    /// Whether the frame is large enough to be sent as it is.
    pub fn is_full(&self) -> bool {
        self.body_bytes() >= FRAME_BYTES
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.has_records() && self.trailer.is_empty()
    }

    /// Whether there are records, a schema of none, or markers, and not controls alone.
    #[inline]
    pub(crate) fn has_records(&self) -> bool {
        self.body_bytes() > 0 || self.records > 0 || !self.markers.is_empty()
    }

    /// Drops what is in the frame; keeps its memory unless that is large.
    pub fn clear(&mut self) {
        if self.body.capacity() > LARGEST_KEPT_BYTES {
            self.body = Vec::new();
        }
        self.body.clear();
        self.body.resize(Self::RESERVED, 0);
        self.records = 0;
        self.markers.clear();
        self.trailer = Trailer::default();
    }

    /// Takes over the records of `other`, which is empty afterwards; `false`, and nothing happens, if
    /// the two do not fit into one frame.
    pub(crate) fn append(&mut self, other: &mut Self) -> bool {
        let together = self.body_bytes() + other.body_bytes();
        let alike = self.encoding == other.encoding || !self.has_records();
        if !alike || together > 2 * FRAME_BYTES || !self.trailer.is_open() {
            return false;
        }
        self.body.extend_from_slice(other.records_bytes());
        self.records += other.records;
        self.encoding = other.encoding;
        self.markers.append(&mut other.markers);
        self.trailer.on_records();
        other.clear();
        true
    }

    /// Bytes that count against the channel's credit.
    pub(crate) fn credited_bytes(&self) -> usize {
        self.body_bytes() + self.markers.len() * MARKER_BYTES + self.trailer.credited_bytes()
    }
}

impl Default for OpenFrame {
    fn default() -> Self {
        Self::new()
    }
}

/// Memory of one large record is given back.
const LARGEST_KEPT_BYTES: usize = 1024 * 1024;
