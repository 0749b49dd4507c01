//! The ring and the doorbell under every interleaving of their threads and every order of memory
//! that the processor may show, as `loom` explores them.
//!
//! A lost wake-up shows as a thread that yields without end, which loom reports.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::heap::{HeapBell, HeapStorage};
use crate::{Doorbell, Reader, Ring, Writer};

struct Pair {
    ring: std::sync::Arc<Ring<HeapStorage>>,
    of_writer: Doorbell<HeapBell>,
    of_reader: Doorbell<HeapBell>,
}

impl Pair {
    fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            ring: std::sync::Arc::new(Ring::new(HeapStorage::new(capacity))),
            of_writer: Doorbell::new(HeapBell::new()),
            of_reader: Doorbell::new(HeapBell::new()),
        })
    }

    /// Writes `bytes`, piece by piece as there is room, and waits until all were consumed.
    fn write(&self, bytes: &[u8]) {
        // SAFETY: called once for a ring.
        let mut writer = unsafe { Writer::new(std::sync::Arc::clone(&self.ring)) };
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = writer.write(rest);
            if written > 0 {
                rest = &rest[written..];
                writer.publish();
                self.of_reader.ring_with(MARK);
                continue;
            }
            let waiting = self.of_writer.announce();
            writer.wake_when_free(1);
            if writer.free(1) == 0 {
                waiting.sleep(None);
            }
        }
        while !writer.is_drained() {
            let waiting = self.of_writer.announce();
            writer.wake_when_drained();
            if !writer.is_drained() {
                waiting.sleep(None);
            }
        }
    }

    /// Reads `count` bytes, consuming each piece after it was looked at.
    fn read(&self, count: usize) -> Vec<u8> {
        // SAFETY: called once for a ring.
        let mut reader = unsafe { Reader::new(std::sync::Arc::clone(&self.ring)) };
        let mut read = Vec::new();
        while read.len() < count {
            // It looks into the ring only when there is a mark.
            if self.of_reader.take_marks().next().is_none() {
                let waiting = self.of_reader.announce();
                if self.of_reader.take_marks().next().is_none() {
                    waiting.sleep(None);
                    continue;
                }
            }
            let available = reader.available().unwrap();
            let length = available.len();
            read.extend_from_slice(available);
            reader.take(length);
            // SAFETY: the bytes were copied.
            if unsafe { Reader::consume(&self.ring, reader.position()) } {
                self.of_writer.ring();
            }
        }
        read
    }
}

const MARK: usize = 5;

fn check(capacity: usize, bytes: &'static [u8]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let pair = Pair::new(capacity);
        let writer = thread::spawn({
            let pair = Arc::clone(&pair);
            move || pair.write(bytes)
        });
        assert_eq!(pair.read(bytes.len()), bytes);
        writer.join().unwrap();
    });
}

#[test]
fn one_byte_arrives_and_nobody_oversleeps() {
    check(1, b"a");
}

#[test]
fn a_full_ring_is_written_again_only_when_it_was_read() {
    check(1, b"abc");
}

#[test]
fn pieces_that_wrap_around_arrive() {
    check(2, b"abc");
}

/// What marks alone must guarantee, without a ring, whose own orderings could stand in for theirs.
#[test]
fn whoever_takes_a_mark_sees_what_it_stands_for() {
    loom::model(|| {
        let shared = Arc::new((AtomicUsize::new(0), Doorbell::new(HeapBell::new())));
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let (value, bell) = &*shared;
                for written in 1..=CHANGES {
                    value.store(written, Ordering::Relaxed);
                    bell.ring_with(MARK);
                }
            }
        });
        let (value, bell) = &*shared;
        while value_behind_marks(bell, value) < CHANGES {}
        writer.join().unwrap();
    });
}

/// Sleeps until there is a mark, and then looks.
fn value_behind_marks(bell: &Doorbell<HeapBell>, value: &AtomicUsize) -> usize {
    loop {
        let waiting = bell.announce();
        if bell.take_marks().next().is_some() {
            return value.load(Ordering::Relaxed);
        }
        waiting.sleep(None);
    }
}

/// The second may find the mark of the first, taken or not.
const CHANGES: usize = 2;
