//! What a channel does for records that travel alone: frames, credit and order, shared memory.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use oka_protocol::{
    Arrival, Encoding, FRAME_BYTES, Frame, FrameHeader, FrameKind, Frames, Receiver, Sender,
};
use oka_ring::{Reader, Ring, SharedRing, Writer};

use crate::data::{RECORDS, words};

/// Frames of one record to a message.
#[inline(never)]
pub fn frame_encode(rounds: usize) {
    let frames = frames();
    let mut message = Vec::new();
    for _ in 0..rounds {
        message.clear();
        for frame in black_box(&frames) {
            frame.encode_into(&mut message);
        }
        black_box(&message);
    }
}

/// A message to frames of one record.
#[inline(never)]
pub fn frame_decode(rounds: usize) {
    let mut message = Vec::new();
    for frame in frames() {
        frame.encode_into(&mut message);
    }
    for _ in 0..rounds {
        for frame in Frames::new(black_box(&message)) {
            black_box(frame.expect("an encoded frame"));
        }
    }
}

/// Frames of one record through both ends of the protocol, each consumed and acknowledged.
#[inline(never)]
pub fn channel(rounds: usize) {
    let (mut sender, mut receiver) = (Sender::new(CLOCK), Receiver::new(WINDOW, CLOCK));
    let probe = sender.probe_due(0).expect("the first question");
    receiver.on_probe(probe, 1);
    let state = receiver.state_due(1).expect("the answer");
    sender.on_state(state, 2).expect("the answer to the probe");
    let bytes = words()[0].len();
    for now in 0..(rounds * RECORDS) as u64 {
        assert!(sender.may_send(bytes), "everything was acknowledged");
        let sequence = sender.on_sent(FrameKind::Data, bytes, now);
        let arrival = receiver.on_frame(FrameKind::Data, sequence, bytes);
        assert_eq!(arrival, Ok(Arrival::Next));
        receiver.on_consumed(sequence, bytes);
        let credit = receiver.credit_due().expect("nothing is left to consume");
        sender.on_credit(credit, now).expect("what was sent");
    }
}

/// Words through a ring in shared memory, each written, published, taken and consumed.
#[inline(never)]
pub fn ring(rounds: usize) {
    let (here, descriptor) = SharedRing::create(RING_BYTES).expect("shared memory");
    let there = SharedRing::open(&descriptor).expect("the same memory");
    // SAFETY: the only writer, and the only reader, of this memory.
    let (mut writer, mut reader) = unsafe {
        (
            Writer::new(Arc::new(Ring::new(here))),
            Reader::new(Arc::new(Ring::new(there))),
        )
    };
    let words = words();
    for _ in 0..rounds {
        for word in black_box(&words) {
            assert_eq!(writer.write(word.as_bytes()), word.len());
            writer.publish();
            let taken = black_box(reader.available().expect("a sane writer")).len();
            reader.take(taken);
            // SAFETY: nobody looks at the bytes any more.
            black_box(unsafe { Reader::consume(reader.ring(), reader.position()) });
        }
    }
}

fn frames() -> Vec<Frame> {
    let framed = |(sequence, word): (u64, &String)| Frame {
        header: FrameHeader {
            kind: FrameKind::Data,
            encoding: Encoding::Msgpack,
            attempt: 0,
            channel: 7,
            sequence,
            count: 1,
            length: word.len() as u32,
        },
        body: Bytes::copy_from_slice(word.as_bytes()),
    };
    (1..).zip(&words()).map(framed).collect()
}

const CLOCK: u64 = 7;
const WINDOW: usize = 4 * FRAME_BYTES;
const RING_BYTES: usize = 65_536;
