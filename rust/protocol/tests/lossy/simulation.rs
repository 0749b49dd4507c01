//! Both ends of a channel, the links between them, and the shell that a transport would be.

use std::collections::VecDeque;

use oka_protocol::{
    Arrival, CONTROL_BYTES, Control, Credit, FRAME_BYTES, FrameKind, MARKER_BYTES, Probe, Receiver,
    Report, Sender,
};

use super::link::{Fault, Link};
use super::random::Random;

pub const WINDOW: usize = 3 * FRAME_BYTES;

/// What travels to the receiver.
#[derive(Clone, Copy)]
enum Forth {
    Frame(Sent),
    Closed,
    Probe(Probe),
}

/// What travels back.
#[derive(Clone, Copy)]
enum Back {
    Credit(Credit),
    State(Report),
}

/// A frame as the sending shell keeps it.
#[derive(Clone, Copy)]
struct Sent {
    kind: FrameKind,
    sequence: u64,
    bytes: usize,
    /// Which emission it carries.
    number: usize,
    control: Option<Control>,
}

/// What a task takes from a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// The records of an emission.
    Records(usize),
    Control(Control),
    End,
}

pub struct Simulation {
    pub sender: Sender,
    receiver: Receiver,
    forth: Link<Forth>,
    back: Link<Back>,
    random: Random,
    now_ns: u64,
    /// The receiver's clock: what it is ahead, and how fast it runs away.
    ahead_ns: u64,
    drift_ppm: u64,
    breaks: u64,
    reopen_ns: [Option<u64>; 2],
    waiting: VecDeque<Sent>,
    retained: VecDeque<Sent>,
    finishing: bool,
    inbox: VecDeque<Sent>,
    emitted: Vec<Element>,
    consumed: Vec<Element>,
    last_bytes: usize,
    /// Frames that arrived and were dropped.
    pub out_of_place: u64,
}

impl Simulation {
    pub fn new(random: &mut Random) -> Self {
        let mut fault = || match random.below(4) {
            0 => Fault::default(),
            1 => Fault {
                loss: 20,
                ..Fault::default()
            },
            _ => Fault {
                loss: random.below(400),
                repeat: random.below(300),
                reorder: random.below(300),
            },
        };
        let faults = [fault(), fault()];
        let clock_of_its_own = random.below(2);
        Self {
            sender: Sender::new(1),
            receiver: Receiver::new(WINDOW, 1 + clock_of_its_own),
            forth: Link::new(random, faults[0]),
            back: Link::new(random, faults[1]),
            now_ns: 1_000_000_000,
            ahead_ns: clock_of_its_own * random.below(1 << 40),
            drift_ppm: clock_of_its_own * random.below(80),
            breaks: match random.below(3) {
                0 => 0,
                _ => random.below(20),
            },
            random: random.split(),
            reopen_ns: [None; 2],
            waiting: VecDeque::new(),
            retained: VecDeque::new(),
            finishing: false,
            inbox: VecDeque::new(),
            emitted: Vec::new(),
            consumed: Vec::new(),
            last_bytes: 0,
            out_of_place: 0,
        }
    }

    pub fn heal(&mut self) {
        self.breaks = 0;
        self.forth.heal();
        self.back.heal();
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub fn emitted(&self) -> &[Element] {
        &self.emitted
    }

    pub fn consumed(&self) -> &[Element] {
        &self.consumed
    }

    /// Emits so many frames at random moments, and runs until both ends know that all is done.
    pub fn run(&mut self, frames: usize) {
        let mut left = frames;
        for _ in 0..MOST_STEPS {
            if left > 0 && self.random.chance(300) {
                left -= 1;
                if self.random.chance(300) {
                    let control = any_control(&mut self.random);
                    self.emit_control(control);
                    continue;
                }
                let bytes = match self.random.below(20) {
                    0 => 2 * WINDOW,
                    1..8 => FRAME_BYTES,
                    _ => 1 + self.random.below(2_000) as usize,
                };
                self.emit(bytes);
            }
            self.finishing |= left == 0;
            if self.is_over() {
                return;
            }
            self.step();
            if self.random.chance(400) {
                self.consume();
            }
        }
        panic!(
            "standstill: {} of {} frames consumed, {} in flight, drained: {}, closed: {}",
            self.consumed.len(),
            self.emitted.len(),
            self.sender.in_flight(),
            self.sender.is_drained(),
            self.receiver.is_closed(),
        );
    }

    /// Runs until records may flow.
    pub fn open(&mut self) {
        self.heal();
        while !self.sender.is_open() {
            self.step();
        }
    }

    pub fn run_until(&mut self, now_ns: u64) {
        while self.now_ns < now_ns {
            self.step();
        }
    }

    pub fn emit(&mut self, bytes: usize) {
        let number = self.emitted.len();
        self.emitted.push(Element::Records(number));
        self.waiting.push_back(Sent {
            kind: FrameKind::Data,
            sequence: 0,
            bytes,
            number,
            control: None,
        });
        self.flush();
    }

    pub fn emit_control(&mut self, control: Control) {
        let number = self.emitted.len();
        self.emitted.push(Element::Control(control));
        self.waiting.push_back(Sent {
            kind: control.kind(),
            sequence: 0,
            bytes: CONTROL_BYTES,
            number,
            control: Some(control),
        });
        self.flush();
    }

    /// Sends the end behind all that was emitted.
    pub fn finish(&mut self) {
        self.finishing = true;
        self.flush();
    }

    /// Whether both ends know that all is done.
    pub fn is_over(&self) -> bool {
        self.sender.is_drained() && self.receiver.is_closed()
    }

    /// The next element that arrived, which is consumed.
    pub fn consume(&mut self) -> Option<Element> {
        loop {
            let frame = self.inbox.pop_front()?;
            let element = match frame.kind {
                FrameKind::Data => Some(Element::Records(frame.number)),
                FrameKind::End => Some(Element::End),
                _ => frame.control.map(Element::Control),
            };
            if frame.kind != FrameKind::End {
                self.receiver.on_consumed(frame.sequence, frame.bytes);
            }
            self.grant();
            if element != Some(Element::End) {
                self.consumed.extend(element);
            }
            if element.is_some() {
                return element;
            }
        }
    }

    pub fn cut_for_good(&mut self) {
        self.forth.cut();
        self.back.cut();
    }

    /// The sender is gone; what is on the way arrives.
    pub fn die(&mut self) {
        self.forth.close();
        self.reopen_ns = [Some(u64::MAX); 2];
    }

    pub fn assert_clock_is_known(&self) {
        let clock = self.sender.clock();
        let truth = self.receiver_ns() as i64 - self.now_ns as i64;
        let Some(uncertainty) = clock.uncertainty_ns(self.now_ns) else {
            assert!(self.emitted.is_empty(), "records flowed before");
            return;
        };
        let error = clock.offset_ns().abs_diff(truth);
        assert!(
            error <= uncertainty,
            "{error} ns off, {uncertainty} claimed"
        );
        assert!(self.ahead_ns != 0 || !clock.is_same() || uncertainty == 0);
    }

    /// Goes on to the next moment at which something happens, or a little.
    pub fn step(&mut self) {
        let pause = self.random.below(5_000_000);
        let arrival = self.forth.due_ns().into_iter().chain(self.back.due_ns());
        let next = arrival.min().unwrap_or(u64::MAX);
        self.now_ns = (self.now_ns + pause).min(next.max(self.now_ns + 1));
        if self.forth.due_ns().is_none() && self.back.due_ns().is_none() && self.inbox.is_empty() {
            self.now_ns += self.random.below(100_000_000);
        }
        self.break_or_repair();
        if self.random.chance(20) {
            let window =
                FRAME_BYTES / 16 + self.random.below((WINDOW - FRAME_BYTES) as u64) as usize;
            self.receiver.set_window(window as u64);
        }
        while let Some(message) = self.forth.receive(self.now_ns) {
            self.arrive(message);
        }
        while let Some(message) = self.back.receive(self.now_ns) {
            self.answer(message);
        }
        self.report();
        self.probe();
    }

    fn break_or_repair(&mut self) {
        for direction in 0..2 {
            match self.reopen_ns[direction] {
                Some(due) if due <= self.now_ns => {
                    self.reopen_ns[direction] = None;
                    if direction == 0 {
                        self.forth.repair();
                        self.sender.on_reconnected(self.now_ns);
                    } else {
                        self.back.repair();
                        self.receiver.on_reconnected();
                    }
                }
                None if self.random.chance(self.breaks) => {
                    let outage = self.random.below(2_000_000_000);
                    self.reopen_ns[direction] = Some(self.now_ns + outage);
                    if direction == 0 {
                        self.forth.cut();
                        self.sender.on_disconnected(self.now_ns);
                    } else {
                        self.back.cut();
                    }
                }
                _ => {}
            }
        }
    }

    fn arrive(&mut self, message: Forth) {
        let frame = match message {
            Forth::Probe(probe) => {
                return self.receiver.on_probe(probe, self.receiver_ns());
            }
            Forth::Closed => {
                assert!(self.receiver.on_closed(), "closed before it can be");
                return;
            }
            Forth::Frame(frame) => frame,
        };
        let arrival = self
            .receiver
            .on_frame(frame.kind, frame.sequence, frame.bytes)
            .unwrap();
        let alone = frame.bytes.max(self.last_bytes + MARKER_BYTES);
        assert!(self.receiver.backlog() <= WINDOW.max(alone) as u64);
        match (arrival, frame.kind) {
            (Arrival::Next, FrameKind::Data) => {
                self.last_bytes = frame.bytes;
                self.inbox.push_back(frame);
            }
            (Arrival::Next, FrameKind::End) => {
                self.inbox.push_back(frame);
                self.grant();
            }
            (Arrival::Next, _) => self.inbox.push_back(frame),
            _ => self.out_of_place += 1,
        }
    }

    fn answer(&mut self, message: Back) {
        let again = match message {
            Back::Credit(credit) => {
                self.sender.on_credit(credit, self.now_ns).unwrap();
                None
            }
            Back::State(state) => self.sender.on_state(state, self.now_ns).unwrap(),
        };
        while self
            .retained
            .front()
            .is_some_and(|frame| frame.sequence <= self.sender.acknowledged())
        {
            self.retained.pop_front();
        }
        if let Some(again) = again {
            self.forth.send(self.now_ns, Forth::Probe(again.probe));
            let mut expected = again.after;
            for frame in self.retained.iter().filter(|f| f.sequence > again.after) {
                expected += 1;
                assert_eq!(frame.sequence, expected, "what is asked for was kept");
                self.forth.send(self.now_ns, Forth::Frame(*frame));
            }
            assert_eq!(expected, self.sender.sequence());
        }
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(frame) = self.waiting.front().copied() {
            let marked = frame.kind == FrameKind::Data && frame.number.is_multiple_of(3);
            let markers = if marked { MARKER_BYTES } else { 0 };
            if !self.sender.may_send(frame.bytes + markers) {
                break;
            }
            self.waiting.pop_front();
            self.put(frame);
            if marked {
                self.put(Sent {
                    kind: FrameKind::Markers,
                    bytes: markers,
                    ..frame
                });
            }
        }
        if self.finishing && self.waiting.is_empty() && !self.sender.is_ended() {
            self.put(Sent {
                kind: FrameKind::End,
                sequence: 0,
                bytes: 0,
                number: 0,
                control: None,
            });
        }
        if self.sender.close_due() {
            self.forth.send(self.now_ns, Forth::Closed);
        }
    }

    fn put(&mut self, frame: Sent) {
        let sequence = self.sender.on_sent(frame.kind, frame.bytes, self.now_ns);
        let frame = Sent { sequence, ..frame };
        self.retained.push_back(frame);
        self.forth.send(self.now_ns, Forth::Frame(frame));
    }

    fn probe(&mut self) {
        self.flush();
        if let Some(probe) = self.sender.probe_due(self.now_ns) {
            self.forth.send(self.now_ns, Forth::Probe(probe));
        }
    }

    fn grant(&mut self) {
        if let Some(credit) = self.receiver.credit_due() {
            self.back.send(self.now_ns, Back::Credit(credit));
        }
    }

    fn report(&mut self) {
        if let Some(state) = self.receiver.state_due(self.receiver_ns()) {
            self.back.send(self.now_ns, Back::State(state));
        }
    }

    fn receiver_ns(&self) -> u64 {
        self.now_ns + self.ahead_ns + self.now_ns * self.drift_ppm / 1_000_000
    }
}

/// More than the worst schedule takes.
const MOST_STEPS: usize = 200_000;

/// Any element that is no record; times and epochs may go back.
pub fn any_control(random: &mut Random) -> Control {
    match random.below(10) {
        0 => Control::Barrier(1 + random.below(10)),
        1 => Control::Idle,
        _ => Control::Watermark(random.below(1_000) as i64),
    }
}
