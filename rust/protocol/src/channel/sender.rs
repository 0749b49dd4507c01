//! The state of a channel's sending end: numbers, credit, acknowledgement and retransmission.

use std::collections::VecDeque;

use crate::{
    CLOCK_INTERVAL_NS, ChannelError, ClockOffset, Credit, FIRST_ROUND_TRIPS, FRAME_BYTES,
    FrameKind, Link, PROBE_INTERVAL_NS, Probe, Report, RoundTrip, SMALL_FRAME_INTERVAL_NS,
    SMALL_FRAMES_IN_FLIGHT, channel::Numbers,
};

/// The sending end of a channel: which frame may leave, which has to leave again, and when
/// everything arrived.
///
/// Gives out consecutive sequence numbers from 1. Never lets more bytes leave than were granted,
/// except for one frame at a time that nothing else is in flight with. Its owner keeps what is
/// unacknowledged. Times are ns of the clock named `clock`.
#[derive(Debug, Clone)]
pub struct Sender {
    clock: u64,
    offset: ClockOffset,
    numbers: Numbers,
    sent_bytes: u64,
    acknowledged: u64,
    limit: u64,
    /// The frames that count as one each: data, and controls that travel alone.
    small_in_flight: VecDeque<u64>,
    /// Whether the last frame was data or its markers: a control behind it travels with it.
    follows_data: bool,
    closed: bool,
    last_sent_ns: u64,
    probe: Option<SentProbe>,
    probe_due: bool,
    /// Since when an answer is awaited: when the peer was last heard, or something left behind
    /// which nothing else was in flight.
    awaited_ns: u64,
    /// The probe in front of the last retransmission: states that know of no later one describe
    /// what was before it.
    resent_ns: u64,
    interrupted_ns: Option<u64>,
    reconnected_ns: u64,
    link: Link,
}

/// What to send again: the probe, and behind it every frame after `after`, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retransmission {
    /// Goes in front, so that the receiver counts what it sees anew.
    pub probe: Probe,
    /// The last frame that has arrived.
    pub after: u64,
}

impl Sender {
    /// A sender that has heard nothing yet, and reads the clock named `clock` (0: unknown).
    pub fn new(clock: u64) -> Self {
        Self {
            clock,
            offset: ClockOffset::default(),
            numbers: Numbers::default(),
            sent_bytes: 0,
            acknowledged: 0,
            limit: 0,
            small_in_flight: VecDeque::new(),
            follows_data: false,
            closed: false,
            last_sent_ns: 0,
            probe: None,
            probe_due: true,
            awaited_ns: 0,
            resent_ns: 0,
            interrupted_ns: None,
            reconnected_ns: 0,
            link: Link::default(),
        }
    }

    /// Whether frames with `bytes` of body (records, and the markers and controls behind them) may
    /// leave now.
    ///
    /// None before the peer's clock is known. Full frames need credit; smaller ones also wait while
    /// others are unacknowledged.
    #[inline]
    pub fn may_send(&self, bytes: usize) -> bool {
        if self.numbers.is_ended() || !self.is_open() {
            return false;
        }
        if bytes < FRAME_BYTES && self.small_in_flight.len() >= SMALL_FRAMES_IN_FLIGHT {
            return false;
        }
        self.sent_bytes + bytes as u64 <= self.limit || self.acknowledged == self.numbers.last()
    }

    /// When the next small frame may leave, on the clock of [`Sender::on_sent`]: an interval after
    /// the last frame, so that small frames on a busy channel carry what came meanwhile.
    pub fn small_frame_due_ns(&self) -> u64 {
        match self.numbers.last() {
            0 => 0,
            _ => self.last_sent_ns + SMALL_FRAME_INTERVAL_NS,
        }
    }

    /// Counts a frame that leaves now, and gives its sequence number.
    #[inline]
    pub fn on_sent(&mut self, kind: FrameKind, bytes: usize, now_ns: u64) -> u64 {
        if self.in_flight() == 0 {
            self.awaited_ns = now_ns;
        }
        self.last_sent_ns = now_ns;
        let sequence = self.numbers.next(kind);
        self.sent_bytes += bytes as u64;
        match kind {
            FrameKind::Data => {
                self.small_in_flight.push_back(sequence);
                self.follows_data = true;
            }
            FrameKind::Watermark | FrameKind::Barrier => {
                let travels_alone = !std::mem::take(&mut self.follows_data);
                if travels_alone {
                    self.small_in_flight.push_back(sequence);
                }
            }
            _ => {}
        }
        sequence
    }

    /// Takes in what the receiver acknowledges and grants; older credits change nothing.
    #[inline]
    pub fn on_credit(&mut self, credit: Credit, now_ns: u64) -> Result<(), ChannelError> {
        self.check_sent(credit.acknowledged)?;
        self.on_heard(now_ns);
        self.limit = self.limit.max(credit.limit);
        self.acknowledged = self.acknowledged.max(credit.acknowledged);
        while self
            .small_in_flight
            .front()
            .is_some_and(|sequence| *sequence <= self.acknowledged)
        {
            self.small_in_flight.pop_front();
        }
        Ok(())
    }

    /// Takes in what the receiver knows; gives what has to be sent again, if frames were lost.
    pub fn on_state(
        &mut self,
        state: Report,
        now_ns: u64,
    ) -> Result<Option<Retransmission>, ChannelError> {
        self.check_sent(state.arrived.max(state.seen))?;
        self.on_credit(state.credit, now_ns)?;
        let mut described_ns = 0;
        if let Some(echo) = state.echo {
            described_ns = echo.probe_ns;
            self.offset.on_round_trip(RoundTrip {
                sent_ns: echo.probe_ns,
                received_ns: echo.received_ns,
                answered_ns: echo.answered_ns,
                returned_ns: now_ns,
            });
            if state.clock == self.clock && self.clock != 0 {
                self.offset.on_same_clock();
            }
            if let Some(probe) = &mut self.probe {
                probe.answered |= probe.sent_ns == echo.probe_ns;
            }
        }
        if described_ns >= self.reconnected_ns
            && let Some(since) = self.interrupted_ns.take()
        {
            self.link.on_interruption(now_ns.saturating_sub(since));
        }
        // A receiver that still reports does not know that the end was confirmed.
        self.closed = false;
        let arrived = state.arrived.max(self.acknowledged);
        if state.seen <= arrived || arrived >= self.numbers.last() || described_ns < self.resent_ns
        {
            return Ok(None);
        }
        self.link.retransmitted += self.numbers.last() - arrived;
        let probe = self.ask(arrived, now_ns);
        self.resent_ns = probe.sent_ns;
        Ok(Some(Retransmission {
            probe,
            after: arrived,
        }))
    }

    /// The probe to send now, if one is due; counts it as sent.
    ///
    /// Due at the start until the peer's clock is known, after a reconnect, when something is
    /// unacknowledged and nothing was heard for [`PROBE_INTERVAL_NS`], and every
    /// [`CLOCK_INTERVAL_NS`] between hosts with different clocks.
    pub fn probe_due(&mut self, now_ns: u64) -> Option<Probe> {
        let due = self.probe_due
            || self.probe.is_some_and(|probe| {
                let silent = now_ns
                    >= probe
                        .sent_ns
                        .max(self.awaited_ns)
                        .saturating_add(PROBE_INTERVAL_NS);
                if self.is_open() {
                    let old = now_ns >= probe.sent_ns.saturating_add(CLOCK_INTERVAL_NS);
                    let drifts = !self.offset.is_same() && !self.is_drained();
                    (silent && self.in_flight() > 0) || (old && drifts)
                } else {
                    silent || probe.answered
                }
            });
        due.then(|| self.ask(self.numbers.last(), now_ns))
    }

    /// Takes in that the connection is gone; frames may leave all the same, and are lost.
    pub fn on_disconnected(&mut self, now_ns: u64) {
        let since = match self.in_flight() {
            0 => now_ns,
            _ => self.awaited_ns.min(now_ns),
        };
        self.interrupted_ns.get_or_insert(since);
        self.reconnected_ns = u64::MAX;
    }

    /// Takes in that a new connection has taken the place of the old one.
    pub fn on_reconnected(&mut self, now_ns: u64) {
        self.link.reconnects += 1;
        self.reconnected_ns = now_ns;
        self.probe_due = true;
    }

    /// An error if the peer has left frames without an answer for `timeout_ns`.
    pub fn check_answered(&self, now_ns: u64, timeout_ns: u64) -> Result<(), ChannelError> {
        let waited_ns = now_ns.saturating_sub(self.awaited_ns);
        // A peer that has granted nothing yet may still be starting.
        if self.limit > 0 && self.in_flight() > 0 && waited_ns >= timeout_ns {
            return Err(ChannelError::Unanswered { waited_ns });
        }
        Ok(())
    }

    /// Whether the first round trips are done, so that records may flow.
    pub fn is_open(&self) -> bool {
        self.offset.is_same() || self.offset.round_trips() >= FIRST_ROUND_TRIPS
    }

    /// Whether the end was sent.
    pub fn is_ended(&self) -> bool {
        self.numbers.is_ended()
    }

    /// Whether everything including the end was consumed by the receiver.
    pub fn is_drained(&self) -> bool {
        self.numbers.is_ended() && self.acknowledged == self.numbers.last()
    }

    /// Whether to tell the receiver that everything was consumed: when that becomes known, and
    /// again when the receiver asks.
    ///
    /// Without it a receiver could not know when its last credit arrived, and when it may go.
    pub fn close_due(&mut self) -> bool {
        let due = self.is_drained() && !self.closed;
        self.closed |= due;
        due
    }

    /// Sequence number of the last frame that was sent; 0 before any.
    pub fn sequence(&self) -> u64 {
        self.numbers.last()
    }

    /// Sequence number of the last frame that was consumed; those up to it need not be kept.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Frames that were sent and not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.numbers.last() - self.acknowledged
    }

    /// Body bytes the receiver would still accept.
    pub fn credit(&self) -> u64 {
        self.limit.saturating_sub(self.sent_bytes)
    }

    /// The receiver's clock, as far as it is known.
    pub fn clock(&self) -> &ClockOffset {
        &self.offset
    }

    /// What the link has cost up to now.
    pub fn link(&self) -> Link {
        self.link
    }

    fn check_sent(&self, sequence: u64) -> Result<(), ChannelError> {
        if sequence > self.numbers.last() {
            return Err(ChannelError::NeverSent {
                got: sequence,
                sent: self.numbers.last(),
            });
        }
        Ok(())
    }

    #[inline]
    fn on_heard(&mut self, now_ns: u64) {
        let silence = now_ns.saturating_sub(self.awaited_ns);
        if self.in_flight() > 0 && silence >= INTERRUPTION_NS {
            self.link.on_interruption(silence);
        }
        self.awaited_ns = now_ns;
    }

    /// A probe that leaves now; no two have one stamp, and none has 0.
    fn ask(&mut self, sequence: u64, now_ns: u64) -> Probe {
        let sent_ns = now_ns.max(self.probe.map_or(0, |probe| probe.sent_ns) + 1);
        self.probe_due = false;
        self.probe = Some(SentProbe {
            sent_ns,
            answered: false,
        });
        Probe { sequence, sent_ns }
    }
}

/// The last probe.
#[derive(Debug, Clone, Copy)]
struct SentProbe {
    sent_ns: u64,
    answered: bool,
}

/// Silence of a peer that counts as an interruption: a probe went unanswered.
const INTERRUPTION_NS: u64 = 3 * PROBE_INTERVAL_NS;
