//! The state of a channel's receiving end: order, credit and acknowledgement.

use crate::channel::Order;
use crate::{Arrival, ChannelError, Credit, Echo, FrameKind, PROBE_INTERVAL_NS, Probe, Report};

/// The receiving end of a channel: what may arrive, and what to acknowledge when.
///
/// Accepts each sequence number once, in order, within the granted bytes; asks for those that are
/// missing. Acknowledges frames only when they were consumed, so that a sender knows that its
/// records were processed. Times are ns of the clock named `clock`.
#[derive(Debug, Clone)]
pub struct Receiver {
    window: u64,
    clock: u64,
    order: Order,
    arrived_bytes: u64,
    seen: u64,
    consumed: u64,
    consumed_bytes: u64,
    granted: Option<Grant>,
    closed: bool,
    probe: Option<ReceivedProbe>,
    /// The last gap that was reported: where, and after which probe. Once is enough.
    reported: (u64, u64),
    report_due: bool,
    reported_ns: u64,
}

impl Receiver {
    /// A receiver that holds at most `window` bytes and reads the clock named `clock`.
    pub fn new(window: usize, clock: u64) -> Self {
        Self {
            window: window as u64,
            clock,
            order: Order::default(),
            arrived_bytes: 0,
            seen: 0,
            consumed: 0,
            consumed_bytes: 0,
            granted: None,
            closed: false,
            probe: None,
            reported: (0, 0),
            report_due: true,
            reported_ns: 0,
        }
    }

    /// Grants at most so many bytes beyond what was consumed from now on; what was granted stays so.
    pub fn set_window(&mut self, bytes: u64) {
        self.window = bytes;
    }

    /// Checks and counts a frame that arrived. Only one that is [`Arrival::Next`] is to be used.
    #[inline]
    pub fn on_frame(
        &mut self,
        kind: FrameKind,
        sequence: u64,
        bytes: usize,
    ) -> Result<Arrival, ChannelError> {
        match self.order.place(sequence)? {
            Arrival::Next => {}
            Arrival::Duplicate => return Ok(Arrival::Duplicate),
            Arrival::Early => {
                self.seen = self.seen.max(sequence);
                self.report_due |= self.reported != (self.order.arrived(), self.probe_ns());
                return Ok(Arrival::Early);
            }
        }
        let sent = self.arrived_bytes + bytes as u64;
        let limit = self.granted.map_or(0, |grant| grant.credit.limit);
        if sent > limit && kind != FrameKind::End && !self.is_alone(kind) {
            return Err(ChannelError::OverCredit { sent, limit });
        }
        self.order.on_next(kind);
        self.arrived_bytes = sent;
        Ok(Arrival::Next)
    }

    /// Takes in a question of the sender; one that came before, or is older, changes nothing.
    pub fn on_probe(&mut self, probe: Probe, now_ns: u64) {
        if probe.sent_ns <= self.probe_ns() {
            return;
        }
        self.probe = Some(ReceivedProbe {
            sent_ns: probe.sent_ns,
            received_ns: now_ns,
        });
        // Not the maximum: the probe in front of a retransmission starts the count anew.
        self.seen = probe.sequence;
        self.report_due = true;
    }

    /// Takes in that the way to the sender is new: what was on it may be lost.
    pub fn on_reconnected(&mut self) {
        self.report_due = true;
    }

    /// Counts frames up to `sequence`, with `bytes` of body, as consumed.
    #[inline]
    pub fn on_consumed(&mut self, sequence: u64, bytes: usize) {
        debug_assert!(
            sequence <= self.order.arrived(),
            "only what arrived is consumed"
        );
        self.consumed = sequence;
        self.consumed_bytes += bytes as u64;
    }

    /// The credit to send now, if one is due; counts it as sent.
    ///
    /// Due when nothing is left to consume and something is unacknowledged, and when a quarter of
    /// the window was consumed since the last. The first one comes with a [`Report`].
    #[inline]
    pub fn credit_due(&mut self) -> Option<Credit> {
        self.consume_end();
        let grant = self.granted?;
        let idle = self.consumed == self.order.arrived();
        let unacknowledged = grant.credit.acknowledged != self.consumed;
        let bytes = self.consumed_bytes - grant.consumed_bytes;
        let due = unacknowledged && (idle || bytes >= self.window / 4);
        due.then(|| self.grant(grant.credit.limit))
    }

    /// Whether the sender has to hear of what just arrived: a probe, or a gap.
    #[inline]
    pub fn is_report_due(&self) -> bool {
        self.report_due
    }

    /// The state to send now, if one is due; counts it as sent.
    ///
    /// Due at the start, for each probe, after a reconnect, once for each gap, and again and again
    /// while the sender has not confirmed the end.
    pub fn state_due(&mut self, now_ns: u64) -> Option<Report> {
        self.consume_end();
        let unconfirmed =
            self.is_closing() && now_ns.saturating_sub(self.reported_ns) >= PROBE_INTERVAL_NS;
        if !self.report_due && !unconfirmed {
            return None;
        }
        self.report_due = false;
        if self.seen > self.order.arrived() {
            self.reported = (self.order.arrived(), self.probe_ns());
        }
        self.reported_ns = now_ns;
        Some(Report {
            credit: self.grant(self.granted.map_or(0, |grant| grant.credit.limit)),
            arrived: self.order.arrived(),
            seen: self.seen.max(self.order.arrived()),
            clock: self.clock,
            echo: self.probe.map(|probe| Echo {
                probe_ns: probe.sent_ns,
                received_ns: probe.received_ns,
                answered_ns: now_ns,
            }),
        })
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

    /// Whether the sender confirmed the end: nothing follows in either direction.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the end arrived.
    pub fn is_ended(&self) -> bool {
        self.order.is_ended()
    }

    /// Whether the end arrived and everything before it was consumed and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.order.is_ended()
            && self
                .granted
                .is_some_and(|grant| grant.credit.acknowledged == self.order.arrived())
    }

    /// Bytes that were consumed.
    pub fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes
    }

    /// Bytes that arrived and were not consumed.
    pub fn backlog(&self) -> u64 {
        self.arrived_bytes - self.consumed_bytes
    }

    /// Whether a frame belongs to those that may exceed the window: the sender had nothing else in
    /// flight. Markers and controls travel, and were let go, with the records before them.
    fn is_alone(&self, kind: FrameKind) -> bool {
        let acknowledged = self.granted.map_or(0, |grant| grant.credit.acknowledged);
        let before = self.order.arrived() - acknowledged;
        before == 0 || (kind != FrameKind::Data && before <= MOST_BEHIND_DATA)
    }

    /// An end that nothing is left to consume before counts as consumed.
    fn consume_end(&mut self) {
        if self.order.is_ended() && self.consumed + 1 == self.order.arrived() {
            self.consumed = self.order.arrived();
        }
    }

    /// What is granted now, no less than before.
    #[inline]
    fn grant(&mut self, granted: u64) -> Credit {
        let credit = Credit {
            acknowledged: self.consumed,
            limit: granted.max(self.consumed_bytes + self.window),
        };
        self.granted = Some(Grant {
            credit,
            consumed_bytes: self.consumed_bytes,
        });
        credit
    }

    fn probe_ns(&self) -> u64 {
        self.probe.map_or(0, |probe| probe.sent_ns)
    }
}

/// The last credit that was sent, and what was consumed by then.
#[derive(Debug, Clone, Copy)]
struct Grant {
    credit: Credit,
    consumed_bytes: u64,
}

/// The latest probe.
#[derive(Debug, Clone, Copy)]
struct ReceivedProbe {
    sent_ns: u64,
    received_ns: u64,
}

/// Frames that travel behind one of data, but for the end: markers, a watermark, idleness, a barrier.
const MOST_BEHIND_DATA: u64 = 4;
