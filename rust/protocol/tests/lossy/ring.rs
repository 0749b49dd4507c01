//! Both ends of a channel in a ring, and the bytes between them, of which the reader sees any part.

use std::collections::VecDeque;

use oka_protocol::{
    Control, FrameHeader, FrameKind, HEADER_BYTES, NextFrame, StreamError, StreamReceiver,
    StreamSender, padded,
};

use super::random::Random;
use super::simulation::Element;

pub const CAPACITY: usize = 1024;

const CHANNEL: u32 = 3;
const ATTEMPT: u8 = 5;
const LARGEST: usize = 4 * CAPACITY;

/// What happens to one of the frames, which no correct ring does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    Lost,
    Repeated,
    Reordered,
    OfAnotherAttempt,
}

pub struct RingSimulation {
    sender: StreamSender,
    receiver: StreamReceiver,
    random: Random,
    /// What was written and not consumed; the reader sees the first `published` bytes.
    bytes: VecDeque<u8>,
    published: usize,
    waiting: VecDeque<Vec<u8>>,
    large: Option<(FrameHeader, usize, Vec<u8>)>,
    tampering: Option<(u64, Tampering)>,
    swapped: Option<Vec<u8>>,
    dead: bool,
    emitted: Vec<Element>,
    consumed: Vec<Element>,
    ended: bool,
}

impl RingSimulation {
    pub fn new(random: &mut Random) -> Self {
        Self {
            sender: StreamSender::new(CAPACITY),
            receiver: StreamReceiver::new(CHANNEL, ATTEMPT, CAPACITY, LARGEST),
            random: random.split(),
            bytes: VecDeque::new(),
            published: 0,
            waiting: VecDeque::new(),
            large: None,
            tampering: None,
            swapped: None,
            dead: false,
            emitted: Vec::new(),
            consumed: Vec::new(),
            ended: false,
        }
    }

    /// Does this to the frame of this number.
    pub fn tamper(&mut self, number: u64, how: Tampering) {
        self.tampering = Some((number, how));
    }

    pub fn emitted(&self) -> &[Element] {
        &self.emitted
    }

    pub fn consumed(&self) -> &[Element] {
        &self.consumed
    }

    pub fn is_over(&self) -> bool {
        self.ended && self.bytes.is_empty()
    }

    pub fn emit(&mut self) {
        let number = self.emitted.len();
        self.emitted.push(Element::Records(number));
        let length = match self.random.below(20) {
            0 => 2 * CAPACITY + self.random.below(CAPACITY as u64) as usize,
            1..4 => CAPACITY - HEADER_BYTES,
            _ => self.random.below(300) as usize,
        };
        let mut header = self.header(FrameKind::Data);
        header.count = number as u32;
        header.length = length as u32;
        self.put(&header, &vec![number as u8; length]);
    }

    pub fn emit_control(&mut self, control: Control) {
        self.emitted.push(Element::Control(control));
        let sequence = self.sender.next(control.kind());
        let frame = control.encode(CHANNEL, ATTEMPT, sequence);
        let (header, body) = frame.split_at(HEADER_BYTES);
        self.put(&FrameHeader::decode(header).unwrap(), body);
    }

    pub fn finish(&mut self) {
        if !self.sender.is_ended() {
            let header = self.header(FrameKind::End);
            self.put(&header, &[]);
        }
    }

    /// The writer is gone, in the middle of whatever it did.
    pub fn die(&mut self) {
        self.dead = true;
        self.waiting.clear();
    }

    /// The writer goes on as far as there is room, and the reader sees some of it.
    pub fn step(&mut self) {
        while !self.dead
            && let Some(needed) = self.sender.room_needed()
        {
            let free = CAPACITY - self.bytes.len();
            let awaited = self.sender.room_awaited();
            assert!((1..=CAPACITY).contains(&awaited), "worth waiting for");
            if free < needed {
                break;
            }
            let rest = &self.waiting[0][self.sender.written()..];
            let length = rest.len().min(free);
            self.bytes.extend(&rest[..length]);
            if self.sender.on_written(length) {
                self.waiting.pop_front();
            }
        }
        let left: usize = self.waiting.iter().map(Vec::len).sum();
        if !self.dead {
            assert_eq!(left - self.sender.written(), self.sender.waiting_bytes());
        }
        assert!(self.bytes.len() <= CAPACITY, "the room is the credit");
        let hidden = (self.bytes.len() - self.published) as u64;
        self.published += if self.random.chance(500) {
            hidden
        } else {
            self.random.below(hidden + 1)
        } as usize;
    }

    /// The next element that arrived, which is consumed.
    pub fn consume(&mut self) -> Result<Option<Element>, StreamError> {
        if self.receiver.is_ended() {
            return Ok(None);
        }
        self.bytes.make_contiguous();
        if let Some((header, total, mut taken)) = self.large.take() {
            let length = self.published.min(total - taken.len());
            taken.extend(self.give_back(length));
            if taken.len() < total {
                self.large = Some((header, total, taken));
                return Ok(None);
            }
            return Ok(Some(self.element(&header, &taken[HEADER_BYTES..])));
        }
        match self
            .receiver
            .next(&self.bytes.as_slices().0[..self.published])?
        {
            NextFrame::Unfinished => Ok(None),
            NextFrame::Large { header, bytes } => {
                assert!(bytes > CAPACITY);
                self.receiver.accept(&header);
                self.large = Some((header, bytes, Vec::new()));
                self.consume()
            }
            NextFrame::Whole { header, bytes } => {
                self.receiver.accept(&header);
                let frame = self.give_back(bytes);
                Ok(Some(self.element(&header, &frame[HEADER_BYTES..])))
            }
        }
    }

    fn give_back(&mut self, length: usize) -> Vec<u8> {
        self.published -= length;
        self.bytes.drain(..length).collect()
    }

    fn element(&mut self, header: &FrameHeader, body: &[u8]) -> Element {
        let body = &body[..header.length as usize];
        let element = match header.kind {
            FrameKind::End => {
                self.ended = true;
                return Element::End;
            }
            FrameKind::Data => {
                assert!(body.iter().all(|byte| *byte == header.count as u8));
                Element::Records(header.count as usize)
            }
            _ => Element::Control(Control::decode(header, body).expect("as it was encoded")),
        };
        self.consumed.push(element);
        element
    }

    fn header(&mut self, kind: FrameKind) -> FrameHeader {
        FrameHeader::new(kind, CHANNEL, ATTEMPT, self.sender.next(kind))
    }

    fn put(&mut self, header: &FrameHeader, body: &[u8]) {
        if self.dead {
            return;
        }
        let mut frame = header.encode().to_vec();
        frame.extend_from_slice(body);
        frame.resize(padded(frame.len()), 0);
        match self.tampering {
            Some((number, how)) if number == header.sequence => match how {
                Tampering::Lost => {}
                Tampering::Reordered => self.swapped = Some(frame),
                Tampering::Repeated => {
                    self.write(frame.clone());
                    self.write(frame);
                }
                Tampering::OfAnotherAttempt => {
                    frame[3] -= 1;
                    self.write(frame);
                }
            },
            _ => self.write(frame),
        }
        if let Some(earlier) = self.swapped.take_if(|_| {
            self.tampering
                .is_some_and(|(number, _)| number < header.sequence)
        }) {
            self.write(earlier);
        }
    }

    fn write(&mut self, frame: Vec<u8>) {
        if self.sender.is_clear() && CAPACITY - self.bytes.len() >= frame.len() {
            self.bytes.extend(frame);
            return;
        }
        self.sender.wait(frame.len());
        self.waiting.push_back(frame);
    }
}
