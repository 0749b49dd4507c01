//! A sender and a receiver joined by a simulated link: in order, delayed, with a clock of its own.

use std::collections::VecDeque;

use oka_protocol::{
    Arrival, ChannelError, Credit, FRAME_BYTES, FrameKind, PROBE_INTERVAL_NS, Receiver,
    SMALL_FRAME_INTERVAL_NS, SMALL_FRAMES_IN_FLIGHT, Sender,
};
use proptest::prelude::*;

const WINDOW: usize = 4 * FRAME_BYTES;
const CLOCK: u64 = 7;

/// One frame on its way: kind, sequence number, body bytes.
type Wire = (FrameKind, u64, usize);

/// Both ends of a channel and everything in between. Ticks are the unit of time.
struct Pair {
    sender: Sender,
    receiver: Receiver,
    now: u64,
    delay: u64,
    frames: VecDeque<(u64, Wire)>,
    credits: VecDeque<(u64, Credit)>,
    open: usize,
    sealed: VecDeque<usize>,
    inbox: VecDeque<(u64, usize)>,
    consumed: usize,
    largest_backlog: u64,
    sent: u64,
}

impl Pair {
    fn new(delay: u64) -> Self {
        let (sender, receiver) = open_pair();
        Self {
            sender,
            receiver,
            now: 0,
            delay,
            frames: VecDeque::new(),
            credits: VecDeque::new(),
            open: 0,
            sealed: VecDeque::new(),
            inbox: VecDeque::new(),
            consumed: 0,
            largest_backlog: 0,
            sent: 0,
        }
    }

    fn emit(&mut self, bytes: usize) {
        self.open += bytes;
        if self.open >= FRAME_BYTES {
            self.sealed.push_back(std::mem::take(&mut self.open));
        }
        self.send();
    }

    fn send(&mut self) {
        while let Some(bytes) = self.sealed.front().copied() {
            if !self.sender.may_send(bytes) {
                return;
            }
            self.sealed.pop_front();
            self.put(FrameKind::Data, bytes);
        }
        if self.open > 0 && self.sender.may_send(self.open) {
            let bytes = std::mem::take(&mut self.open);
            self.put(FrameKind::Data, bytes);
        }
    }

    fn put(&mut self, kind: FrameKind, bytes: usize) {
        let sequence = self.sender.on_sent(kind, bytes, self.now);
        self.sent = sequence;
        self.frames
            .push_back((self.now + self.delay, (kind, sequence, bytes)));
    }

    fn end(&mut self) {
        assert!(self.sealed.is_empty() && self.open == 0);
        self.put(FrameKind::End, 0);
    }

    fn grant(&mut self) {
        if let Some(credit) = self.receiver.credit_due() {
            self.credits.push_back((self.now + self.delay, credit));
        }
    }

    fn consume(&mut self) {
        if let Some((sequence, bytes)) = self.inbox.pop_front() {
            self.consumed += bytes;
            self.receiver.on_consumed(sequence, bytes);
            self.grant();
        }
    }

    /// One tick: deliver what is due, consume if asked to.
    fn tick(&mut self, consume: bool) {
        self.now += 1;
        while self.frames.front().is_some_and(|(due, _)| *due <= self.now) {
            let (_, (kind, sequence, bytes)) = self.frames.pop_front().unwrap();
            let arrival = self.receiver.on_frame(kind, sequence, bytes);
            assert_eq!(arrival, Ok(Arrival::Next));
            self.largest_backlog = self.largest_backlog.max(self.receiver.backlog());
            match kind {
                FrameKind::Data => self.inbox.push_back((sequence, bytes)),
                _ => self.grant(),
            }
        }
        while self
            .credits
            .front()
            .is_some_and(|(due, _)| *due <= self.now)
        {
            let (_, credit) = self.credits.pop_front().unwrap();
            self.sender.on_credit(credit, self.now).unwrap();
            self.send();
        }
        if consume {
            self.consume();
        }
    }

    /// Runs until everything emitted was consumed and acknowledged.
    fn drive(&mut self) {
        for _ in 0..100_000 {
            if self.sealed.is_empty() && self.open == 0 && !self.sender.is_ended() {
                self.end();
            }
            if self.sender.is_drained() {
                return;
            }
            self.tick(true);
        }
        panic!("the channel came to a standstill");
    }
}

/// Both ends of a channel after their first round trip.
fn open_pair() -> (Sender, Receiver) {
    let (mut sender, mut receiver) = (Sender::new(CLOCK), Receiver::new(WINDOW, CLOCK));
    let probe = sender.probe_due(0).unwrap();
    receiver.on_probe(probe, 1);
    let state = receiver.state_due(1).unwrap();
    assert_eq!(sender.on_state(state, 2), Ok(None));
    (sender, receiver)
}

#[test]
fn nothing_leaves_before_the_first_round_trip() {
    let mut sender = Sender::new(CLOCK);
    assert!(!sender.may_send(1));
    let mut receiver = Receiver::new(WINDOW, CLOCK);
    let unasked = receiver.state_due(0).unwrap();
    sender.on_state(unasked, 5).unwrap();
    assert!(!sender.may_send(1), "the grant says nothing of the clock");
    assert!(receiver.state_due(0).is_none());
    let (sender, _) = open_pair();
    assert!(sender.may_send(WINDOW) && sender.clock().is_same());
}

#[test]
fn a_lone_record_leaves_at_once() {
    let mut pair = Pair::new(3);
    pair.emit(10);
    assert_eq!(pair.frames.len(), 1);
    pair.emit(10);
    assert_eq!(pair.frames.len(), SMALL_FRAMES_IN_FLIGHT);
    pair.emit(10);
    pair.emit(10);
    assert_eq!(pair.frames.len(), SMALL_FRAMES_IN_FLIGHT);
    pair.drive();
    assert_eq!(pair.consumed, 40);
}

#[test]
fn frames_grow_with_the_load() {
    let mut pair = Pair::new(5);
    for _ in 0..2_000 {
        for _ in 0..100 {
            pair.emit(30);
        }
        pair.tick(true);
    }
    pair.drive();
    assert_eq!(pair.consumed, 2_000 * 100 * 30);
    // 200,000 records, two frames per round trip of about ten ticks.
    assert!(pair.sent < 500, "{} frames", pair.sent);
}

#[test]
fn a_stalled_receiver_holds_at_most_its_window() {
    let mut pair = Pair::new(1);
    for _ in 0..200 {
        pair.emit(FRAME_BYTES);
        pair.tick(false);
    }
    assert_eq!(pair.largest_backlog, WINDOW as u64);
    assert_eq!(pair.sender.credit(), 0);
    pair.drive();
    assert_eq!(pair.consumed, 200 * FRAME_BYTES);
}

#[test]
fn a_frame_beyond_the_window_travels_alone() {
    let mut pair = Pair::new(2);
    pair.emit(10 * WINDOW);
    pair.emit(10 * WINDOW);
    pair.emit(1);
    pair.drive();
    assert_eq!(pair.largest_backlog, 10 * WINDOW as u64);
    assert_eq!(pair.consumed, 20 * WINDOW + 1);
}

#[test]
fn the_end_is_acknowledged_after_the_last_frame_was_consumed() {
    let mut pair = Pair::new(1);
    pair.emit(10);
    pair.end();
    for _ in 0..10 {
        pair.tick(false);
    }
    assert!(pair.receiver.is_ended() && !pair.receiver.is_finished());
    assert!(!pair.sender.is_drained());
    assert!(!pair.receiver.on_closed(), "nobody can know yet");
    pair.tick(true);
    assert!(pair.receiver.is_finished() && pair.receiver.is_closing());
    assert!(!pair.sender.close_due());
    pair.tick(true);
    assert!(pair.sender.is_drained());
    assert!(pair.sender.close_due() && !pair.sender.close_due());
    assert!(pair.receiver.on_closed() && !pair.receiver.is_closing());
}

#[test]
fn markers_may_exceed_the_window_with_their_records() {
    let (_, mut receiver) = open_pair();
    receiver.on_frame(FrameKind::Data, 1, WINDOW).unwrap();
    receiver.on_frame(FrameKind::Markers, 2, 8).unwrap();
    receiver.on_frame(FrameKind::End, 3, 0).unwrap();
    receiver.on_consumed(2, WINDOW + 8);
    assert_eq!(receiver.credit_due().unwrap().acknowledged, 3);
}

#[test]
fn frames_out_of_place_are_told_apart() {
    let (_, mut receiver) = open_pair();
    receiver.on_frame(FrameKind::Data, 1, WINDOW).unwrap();
    let missing = receiver.on_frame(FrameKind::Data, 3, 1);
    assert_eq!(missing, Ok(Arrival::Early));
    let again = receiver.on_frame(FrameKind::Data, 1, 1);
    assert_eq!(again, Ok(Arrival::Duplicate));
    assert_eq!(receiver.backlog(), WINDOW as u64, "neither is counted");
    let granted = WINDOW as u64;
    assert_eq!(
        receiver.on_frame(FrameKind::Data, 2, 1),
        Err(ChannelError::OverCredit {
            sent: granted + 1,
            limit: granted
        })
    );
    receiver.on_frame(FrameKind::End, 2, 0).unwrap();
    assert_eq!(
        receiver.on_frame(FrameKind::Data, 3, 0),
        Err(ChannelError::AfterEnd { got: 3 })
    );
}

#[test]
fn a_gap_is_asked_for_once_and_filled_once() {
    let (mut sender, mut receiver) = open_pair();
    for number in 1..=4 {
        assert_eq!(sender.on_sent(FrameKind::Data, 10, 10), number);
    }
    receiver.on_frame(FrameKind::Data, 1, 10).unwrap();
    receiver.on_frame(FrameKind::Data, 3, 10).unwrap();
    let state = receiver.state_due(20).unwrap();
    assert_eq!((state.arrived, state.seen), (1, 3));
    receiver.on_frame(FrameKind::Data, 4, 10).unwrap();
    assert_eq!(receiver.state_due(21), None, "one gap, one state");

    let again = sender.on_state(state, 30).unwrap().unwrap();
    assert_eq!((again.after, again.probe.sequence), (1, 1));
    assert_eq!(sender.on_state(state, 31), Ok(None), "it is on its way");
    receiver.on_probe(again.probe, 40);
    let answer = receiver.state_due(40).unwrap();
    assert_eq!((answer.arrived, answer.seen), (1, 1));
    assert_eq!(sender.on_state(answer, 50), Ok(None));
    receiver.on_frame(FrameKind::Data, 3, 10).unwrap();
    let lost_again = receiver.state_due(60).unwrap();
    let again = sender.on_state(lost_again, 70).unwrap().unwrap();
    assert_eq!(again.after, 1);
    for number in 2..=4 {
        let arrival = receiver.on_frame(FrameKind::Data, number, 10);
        assert_eq!(arrival, Ok(Arrival::Next));
    }
    assert_eq!(sender.link().retransmitted, 6);
}

#[test]
fn both_ends_speak_up_on_a_new_connection() {
    let (mut sender, mut receiver) = open_pair();
    sender.on_sent(FrameKind::Data, 10, 1_000);
    assert_eq!(sender.probe_due(2_000), None);
    sender.on_disconnected(3_000);
    sender.on_reconnected(5_000);
    let probe = sender.probe_due(6_000).unwrap();
    assert_eq!((probe.sequence, sender.probe_due(6_001)), (1, None));
    assert_eq!(receiver.state_due(7_000), None);
    receiver.on_reconnected();
    let unasked = receiver.state_due(7_000).unwrap();
    assert_eq!(sender.on_state(unasked, 8_000), Ok(None));
    assert_eq!(sender.link().longest_interruption_ns, 0, "still waiting");
    receiver.on_probe(probe, 9_000);
    receiver.on_probe(probe, 9_500);
    let answer = receiver.state_due(9_000).unwrap();
    let again = sender.on_state(answer, 10_000).unwrap().unwrap();
    assert_eq!(again.after, 0);
    let link = sender.link();
    assert_eq!((link.reconnects, link.longest_interruption_ns), (1, 9_000));
}

#[test]
fn a_busy_receiver_is_asked_at_intervals() {
    let (mut sender, mut receiver) = open_pair();
    let mut now = 1_000;
    sender.on_sent(FrameKind::Data, 10, now);
    receiver.on_frame(FrameKind::Data, 1, 10).unwrap();
    for _ in 0..100 {
        assert_eq!(sender.probe_due(now + PROBE_INTERVAL_NS - 1), None);
        now += PROBE_INTERVAL_NS;
        receiver.on_probe(sender.probe_due(now).unwrap(), now);
        let answer = receiver.state_due(now).unwrap();
        assert_eq!(sender.on_state(answer, now), Ok(None));
        assert_eq!(sender.check_answered(now, 1_000_000_000), Ok(()));
    }
    receiver.on_consumed(1, 10);
    sender
        .on_credit(receiver.credit_due().unwrap(), now)
        .unwrap();
    assert_eq!(sender.probe_due(now + 100 * PROBE_INTERVAL_NS), None);
    assert_eq!(sender.link().longest_interruption_ns, 0);
}

#[test]
fn credits_only_grow_and_cannot_run_ahead() {
    let (mut sender, _) = open_pair();
    assert_eq!(sender.small_frame_due_ns(), 0);
    let granted = WINDOW as u64;
    sender.on_sent(FrameKind::Data, 60, 5);
    assert_eq!(sender.small_frame_due_ns(), 5 + SMALL_FRAME_INTERVAL_NS);
    let older = Credit {
        acknowledged: 0,
        limit: 50,
    };
    sender.on_credit(older, 6).unwrap();
    assert_eq!(sender.credit(), granted - 60);
    assert!(sender.may_send(WINDOW - 60) && !sender.may_send(WINDOW - 59));
    let ahead = Credit {
        acknowledged: 2,
        limit: 0,
    };
    assert_eq!(
        sender.on_credit(ahead, 7),
        Err(ChannelError::NeverSent { got: 2, sent: 1 })
    );
}

proptest! {
    #[test]
    fn everything_arrives_once_and_in_order_under_any_schedule(
        delay in 0..20_u64,
        steps in prop::collection::vec(
            (prop_oneof![8 => 0..200_usize, 1 => 1..3 * FRAME_BYTES, 1 => Just(2 * WINDOW)], any::<bool>()),
            0..300,
        ),
    ) {
        let mut pair = Pair::new(delay);
        let mut emitted = 0;
        for (bytes, consume) in steps {
            if bytes > 0 && pair.sealed.len() < 3 {
                pair.emit(bytes);
                emitted += bytes;
            }
            pair.tick(consume);
        }
        pair.drive();
        prop_assert_eq!(pair.consumed, emitted);
        prop_assert!(pair.largest_backlog <= (2 * WINDOW + FRAME_BYTES) as u64 + WINDOW as u64);
    }
}
