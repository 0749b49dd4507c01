use std::collections::VecDeque;

use crate::{
    ChannelError, Credit, FRAME_BYTES, FrameKind, SMALL_FRAME_INTERVAL_NS, SMALL_FRAMES_IN_FLIGHT,
};

/// The sending end of a channel: which frame may leave, and when everything arrived.
///
/// Gives out consecutive sequence numbers from 1. Never lets more bytes leave than were granted,
/// except for one frame at a time that nothing else is in flight with.
#[derive(Debug, Clone, Default)]
pub struct Sender {
    sequence: u64,
    sent_bytes: u64,
    acknowledged: u64,
    limit: u64,
    data_in_flight: VecDeque<u64>,
    ended: bool,
    closed: bool,
    last_sent_ns: u64,
}

impl Sender {
    /// A sender that was granted nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether frames with `bytes` of body (records and their markers) may leave now.
    ///
    /// Full frames need credit; smaller ones also wait while others are unacknowledged.
    pub fn may_send(&self, bytes: usize) -> bool {
        if self.ended {
            return false;
        }
        if bytes < FRAME_BYTES && self.data_in_flight.len() >= SMALL_FRAMES_IN_FLIGHT {
            return false;
        }
        self.sent_bytes + bytes as u64 <= self.limit || self.acknowledged == self.sequence
    }

    /// When the next small frame may leave, on the clock of [`Sender::on_sent`]: an interval after
    /// the last frame, so that small frames on a busy channel carry what came meanwhile.
    pub fn small_frame_due_ns(&self) -> u64 {
        match self.sequence {
            0 => 0,
            _ => self.last_sent_ns + SMALL_FRAME_INTERVAL_NS,
        }
    }

    /// Counts a frame that leaves now, and gives its sequence number.
    pub fn on_sent(&mut self, kind: FrameKind, bytes: usize, now_ns: u64) -> u64 {
        debug_assert!(!self.ended, "nothing follows the end of a channel");
        self.last_sent_ns = now_ns;
        self.sequence += 1;
        self.sent_bytes += bytes as u64;
        match kind {
            FrameKind::Data => self.data_in_flight.push_back(self.sequence),
            FrameKind::End => self.ended = true,
            FrameKind::Markers | FrameKind::Credit | FrameKind::Closed => {}
        }
        self.sequence
    }

    /// Takes in what the receiver acknowledges and grants; older credits change nothing.
    pub fn on_credit(&mut self, credit: Credit) -> Result<(), ChannelError> {
        if credit.acknowledged > self.sequence {
            return Err(ChannelError::NeverSent {
                got: credit.acknowledged,
                sent: self.sequence,
            });
        }
        self.limit = self.limit.max(credit.limit);
        self.acknowledged = self.acknowledged.max(credit.acknowledged);
        while self
            .data_in_flight
            .front()
            .is_some_and(|sequence| *sequence <= self.acknowledged)
        {
            self.data_in_flight.pop_front();
        }
        Ok(())
    }

    /// Whether the end was sent.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether everything including the end was consumed by the receiver.
    pub fn is_drained(&self) -> bool {
        self.ended && self.acknowledged == self.sequence
    }

    /// Whether to tell the receiver that everything was consumed: once, when that becomes known.
    ///
    /// Without it a receiver could not know when its last credit arrived, and when it may go.
    pub fn close_due(&mut self) -> bool {
        let due = self.is_drained() && !self.closed;
        self.closed |= due;
        due
    }

    /// Sequence number of the last frame that was sent; 0 before any.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Frames that were sent and not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.sequence - self.acknowledged
    }

    /// Body bytes the receiver would still accept.
    pub fn credit(&self) -> u64 {
        self.limit.saturating_sub(self.sent_bytes)
    }
}
