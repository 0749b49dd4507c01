//! Controls that travel between records: watermarks, idleness and barriers.

use crate::{FrameHeader, FrameKind, HEADER_BYTES};

/// What travels between the records of a channel, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Control {
    /// All records that follow are later than this, in µs of event time.
    Watermark(i64),
    /// Nothing is told about time until the next watermark or record.
    Idle,
    /// What is before it belongs to the checkpoint of this epoch (from 1), what follows does not.
    Barrier(u64),
}

impl Control {
    /// The kind of its frame.
    pub fn kind(self) -> FrameKind {
        match self {
            Self::Watermark(_) | Self::Idle => FrameKind::Watermark,
            Self::Barrier(_) => FrameKind::Barrier,
        }
    }

    /// The bytes of its frame. Idleness is a watermark without a time, of count 0.
    pub fn encode(self, channel: u32, attempt: u8, sequence: u64) -> [u8; CONTROL_FRAME_BYTES] {
        let mut header = FrameHeader::new(self.kind(), channel, attempt, sequence);
        header.count = u32::from(self != Self::Idle);
        header.length = CONTROL_BYTES as u32;
        let word = match self {
            Self::Watermark(time) => time.to_le_bytes(),
            Self::Idle => [0; CONTROL_BYTES],
            Self::Barrier(epoch) => epoch.to_le_bytes(),
        };
        let mut bytes = [0; CONTROL_FRAME_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        bytes[HEADER_BYTES..].copy_from_slice(&word);
        bytes
    }

    /// What a frame of kind `Watermark` or `Barrier` tells; `None` if it is none, or its body is not.
    pub fn decode(header: &FrameHeader, body: &[u8]) -> Option<Self> {
        let word: [u8; CONTROL_BYTES] = body.try_into().ok()?;
        match (header.kind, header.count) {
            (FrameKind::Watermark, 0) => (word == [0; CONTROL_BYTES]).then_some(Self::Idle),
            (FrameKind::Watermark, 1) => Some(Self::Watermark(i64::from_le_bytes(word))),
            (FrameKind::Barrier, 1) => Some(Self::Barrier(u64::from_le_bytes(word))),
            _ => None,
        }
    }
}

/// The controls behind some records: the newest watermark, then idleness, then a barrier.
///
/// Records may join those in front of a watermark, since a watermark that comes later makes none of
/// them late; not those in front of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trailer {
    watermark: Option<i64>,
    idle: bool,
    barrier: Option<u64>,
}

impl Trailer {
    /// Whether records and controls may still join.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.barrier.is_none()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds one behind the others; it must be open.
    pub fn add(&mut self, control: Control) {
        debug_assert!(self.is_open(), "nothing joins behind a barrier");
        match control {
            Control::Watermark(time) => {
                self.watermark = self.watermark.max(Some(time));
                self.idle = false;
            }
            Control::Idle => self.idle = true,
            Control::Barrier(epoch) => self.barrier = Some(epoch),
        }
    }

    /// Takes in that records have joined, of a channel that is hence not idle; it must be open.
    #[inline]
    pub fn on_records(&mut self) {
        debug_assert!(self.is_open(), "nothing joins behind a barrier");
        self.idle = false;
    }

    /// The controls, in order.
    pub fn iter(&self) -> impl Iterator<Item = Control> {
        let watermark = self.watermark.map(Control::Watermark);
        let idle = self.idle.then_some(Control::Idle);
        let barrier = self.barrier.map(Control::Barrier);
        watermark.into_iter().chain(idle).chain(barrier)
    }

    /// Bytes that count against the channel's credit.
    #[inline]
    pub fn credited_bytes(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.iter().count() * CONTROL_BYTES
    }
}

/// Bytes of the body of a watermark or barrier, which count against the channel's credit.
pub const CONTROL_BYTES: usize = size_of::<u64>();

/// Bytes of the whole frame.
pub const CONTROL_FRAME_BYTES: usize = HEADER_BYTES + CONTROL_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_keeps_what_counts_in_order() {
        let mut trailer = Trailer::default();
        assert!(trailer.is_empty() && trailer.credited_bytes() == 0);
        for control in [Control::Watermark(7), Control::Idle, Control::Watermark(5)] {
            trailer.add(control);
        }
        assert!(
            trailer.iter().eq([Control::Watermark(7)]),
            "7 is the newest"
        );
        trailer.add(Control::Idle);
        trailer.on_records();
        assert!(trailer.iter().eq([Control::Watermark(7)]), "it is awake");
        trailer.add(Control::Idle);
        trailer.add(Control::Barrier(1));
        assert!(!trailer.is_open());
        let all = [Control::Watermark(7), Control::Idle, Control::Barrier(1)];
        assert!(trailer.iter().eq(all));
        assert_eq!(trailer.credited_bytes(), 3 * CONTROL_BYTES);
    }
}
