//! Credits: how much a receiver has consumed and will still accept.

use crate::{FrameHeader, FrameKind, HEADER_BYTES};

/// What a receiver tells a sender about one channel: what it consumed, and what it will accept.
///
/// Both numbers only grow, so that credits may be merged, repeated or lost as long as a later one
/// arrives. The limit is absolute (as QUIC's `MAX_DATA`): all body bytes of the channel since its
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Credit {
    /// Sequence number of the last consumed frame; 0 before any.
    pub acknowledged: u64,
    /// Body bytes that may be sent in total.
    pub limit: u64,
}

impl Credit {
    /// The bytes of the credit frame for `channel`.
    pub fn encode(self, channel: u32, attempt: u8) -> [u8; CREDIT_FRAME_BYTES] {
        let mut header = FrameHeader::new(FrameKind::Credit, channel, attempt, self.acknowledged);
        header.length = LIMIT_BYTES as u32;
        let mut bytes = [0; CREDIT_FRAME_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        bytes[HEADER_BYTES..].copy_from_slice(&self.limit.to_le_bytes());
        bytes
    }

    /// The credit in a frame of kind `Credit`; `None` if its body is none.
    pub fn decode(header: &FrameHeader, body: &[u8]) -> Option<Self> {
        Some(Self {
            acknowledged: header.sequence,
            limit: u64::from_le_bytes(body.try_into().ok()?),
        })
    }
}

const LIMIT_BYTES: usize = size_of::<u64>();
const CREDIT_FRAME_BYTES: usize = HEADER_BYTES + LIMIT_BYTES;
