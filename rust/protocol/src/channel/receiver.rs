use crate::{ChannelError, Credit, FrameKind};

/// The receiving end of a channel: what may arrive, and what to acknowledge when.
///
/// Accepts each sequence number once, in order, within the granted bytes. Acknowledges frames only
/// when they were consumed, so that a sender knows that its records were processed.
#[derive(Debug, Clone)]
pub struct Receiver {
    window: u64,
    arrived: u64,
    arrived_bytes: u64,
    consumed: u64,
    consumed_bytes: u64,
    granted: Option<Grant>,
    ended: bool,
    closed: bool,
}

impl Receiver {
    /// A receiver that holds at most `window` bytes.
    pub fn new(window: usize) -> Self {
        Self {
            window: window as u64,
            arrived: 0,
            arrived_bytes: 0,
            consumed: 0,
            consumed_bytes: 0,
            granted: None,
            ended: false,
            closed: false,
        }
    }

    /// Checks and counts a frame that arrived.
    pub fn on_frame(
        &mut self,
        kind: FrameKind,
        sequence: u64,
        bytes: usize,
    ) -> Result<(), ChannelError> {
        let expected = self.arrived + 1;
        if sequence < expected {
            return Err(ChannelError::Duplicate {
                expected,
                got: sequence,
            });
        }
        if self.ended {
            return Err(ChannelError::AfterEnd { got: sequence });
        }
        if sequence > expected {
            return Err(ChannelError::Gap {
                expected,
                got: sequence,
            });
        }
        let sent = self.arrived_bytes + bytes as u64;
        let grant = self.granted.unwrap_or_default();
        let excess = sent > grant.credit.limit && kind != FrameKind::End;
        if excess && !self.is_alone(kind, grant.credit.acknowledged) {
            return Err(ChannelError::OverCredit {
                sent,
                limit: grant.credit.limit,
            });
        }
        self.arrived = sequence;
        self.arrived_bytes = sent;
        self.ended = kind == FrameKind::End;
        Ok(())
    }

    /// Counts frames up to `sequence`, with `bytes` of body, as consumed.
    pub fn on_consumed(&mut self, sequence: u64, bytes: usize) {
        debug_assert!(sequence <= self.arrived, "only what arrived is consumed");
        self.consumed = sequence;
        self.consumed_bytes += bytes as u64;
    }

    /// The credit to send now, if one is due; counts it as sent.
    ///
    /// Due at the start, when nothing is left to consume and something is unacknowledged, and when
    /// a quarter of the window was consumed since the last.
    pub fn credit_due(&mut self) -> Option<Credit> {
        if self.ended && self.consumed + 1 == self.arrived {
            self.consumed = self.arrived;
        }
        let due = self.granted.is_none_or(|grant| {
            let idle = self.consumed == self.arrived;
            let unacknowledged = grant.credit.acknowledged != self.consumed;
            let bytes = self.consumed_bytes - grant.consumed_bytes;
            unacknowledged && (idle || bytes >= self.window / 4)
        });
        if !due {
            return None;
        }
        let credit = Credit {
            acknowledged: self.consumed,
            limit: self.consumed_bytes + self.window,
        };
        self.granted = Some(Grant {
            credit,
            consumed_bytes: self.consumed_bytes,
        });
        Some(credit)
    }

    /// Takes in that the sender knows of the end; `false` if it cannot know yet.
    pub fn on_closed(&mut self) -> bool {
        self.closed = self.is_finished();
        self.closed
    }

    /// Whether the last credit was sent, and the sender has not confirmed it.
    pub fn is_closing(&self) -> bool {
        self.is_finished() && !self.closed
    }

    /// Whether the end arrived.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether the end arrived and everything before it was consumed and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.ended
            && self
                .granted
                .is_some_and(|grant| grant.credit.acknowledged == self.arrived)
    }

    /// Bytes that arrived and were not consumed.
    pub fn backlog(&self) -> u64 {
        self.arrived_bytes - self.consumed_bytes
    }

    /// Whether a frame belongs to those that may exceed the window: the sender had nothing else in
    /// flight. Markers travel, and were let go, with the records before them.
    fn is_alone(&self, kind: FrameKind, acknowledged: u64) -> bool {
        acknowledged == self.arrived
            || (kind == FrameKind::Markers && acknowledged + 1 == self.arrived)
    }
}

/// The last credit that was sent, and what was consumed by then.
#[derive(Debug, Clone, Copy, Default)]
struct Grant {
    credit: Credit,
    consumed_bytes: u64,
}
