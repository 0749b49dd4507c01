//! A sender and a receiver joined by a simulated link: in order, delayed, with a clock of its own.

use std::collections::VecDeque;

use oka_protocol::{
    ChannelError, Credit, FRAME_BYTES, FrameKind, Receiver, SMALL_FRAME_INTERVAL_NS,
    SMALL_FRAMES_IN_FLIGHT, Sender,
};
use proptest::prelude::*;

const WINDOW: usize = 4 * FRAME_BYTES;

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
        let mut pair = Self {
            sender: Sender::new(),
            receiver: Receiver::new(WINDOW),
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
        };
        pair.grant();
        for _ in 0..=delay {
            pair.tick(false);
        }
        pair
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
            self.receiver.on_frame(kind, sequence, bytes).unwrap();
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
            self.sender.on_credit(credit).unwrap();
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
    let mut receiver = Receiver::new(WINDOW);
    receiver.credit_due().unwrap();
    receiver.on_frame(FrameKind::Data, 1, WINDOW).unwrap();
    receiver.on_frame(FrameKind::Markers, 2, 8).unwrap();
    receiver.on_frame(FrameKind::End, 3, 0).unwrap();
    receiver.on_consumed(2, WINDOW + 8);
    assert_eq!(receiver.credit_due().unwrap().acknowledged, 3);
}

#[test]
fn frames_out_of_place_are_told_apart() {
    let mut receiver = Receiver::new(WINDOW);
    receiver.credit_due().unwrap();
    receiver.on_frame(FrameKind::Data, 1, WINDOW).unwrap();
    assert_eq!(
        receiver.on_frame(FrameKind::Data, 3, 1),
        Err(ChannelError::Gap {
            expected: 2,
            got: 3
        })
    );
    assert_eq!(
        receiver.on_frame(FrameKind::Data, 1, 1),
        Err(ChannelError::Duplicate {
            expected: 2,
            got: 1
        })
    );
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
fn credits_only_grow_and_cannot_run_ahead() {
    let mut sender = Sender::new();
    sender
        .on_credit(Credit {
            acknowledged: 0,
            limit: 100,
        })
        .unwrap();
    assert_eq!(sender.small_frame_due_ns(), 0);
    sender.on_sent(FrameKind::Data, 60, 5);
    assert_eq!(sender.small_frame_due_ns(), 5 + SMALL_FRAME_INTERVAL_NS);
    sender
        .on_credit(Credit {
            acknowledged: 0,
            limit: 50,
        })
        .unwrap();
    assert_eq!(sender.credit(), 40);
    assert!(sender.may_send(40) && !sender.may_send(41));
    assert_eq!(
        sender.on_credit(Credit {
            acknowledged: 2,
            limit: 0
        }),
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
