//! Encoded records: writing, reading, hashing, aggregating.

use std::hint::black_box;

use oka_compute::{
    Aggregate, Aggregation, Emit, Path, Problem, Reader, Step, TimePath, Unit, WindowAggregate,
    encode,
};
use oka_protocol::partition::{hash_str, target};
use oka_window::Windows;

use crate::data::{RECORDS, drawn, words};

/// Words to the body of a frame.
#[inline(never)]
pub fn encode(rounds: usize) {
    let words = words();
    let mut body = Vec::new();
    for _ in 0..rounds {
        body.clear();
        for word in black_box(&words) {
            encode::text(&mut body, word.as_bytes());
        }
        black_box(&body);
    }
}

/// The body of a frame to values.
#[inline(never)]
pub fn decode(rounds: usize) {
    let body = body_of_words();
    for _ in 0..rounds {
        let mut reader = Reader::new(black_box(&body));
        for _ in 0..RECORDS {
            black_box(reader.read().expect("encoded words"));
        }
    }
}

/// Words to one of eight channels each.
#[inline(never)]
pub fn partition(rounds: usize) {
    let words = words();
    for _ in 0..rounds {
        for word in black_box(&words) {
            black_box(target(hash_str(word), 8));
        }
    }
}

/// The native count of words.
#[inline(never)]
pub fn count(rounds: usize) {
    let counts = Aggregate::new(Aggregation::Count, Path::default(), Path::default());
    aggregate(counts, &body_of_words(), rounds);
}

/// The native sum of pairs (word, number).
#[inline(never)]
pub fn sum(rounds: usize) {
    let mut body = Vec::new();
    for (row, word) in words().iter().enumerate() {
        encode::array(&mut body, 2);
        encode::text(&mut body, word.as_bytes());
        encode::int(&mut body, drawn(row) as i64);
    }
    let (key, value) = (Path::from([Step::Item(0)]), Path::from([Step::Item(1)]));
    aggregate(Aggregate::new(Aggregation::Sum, key, value), &body, rounds);
}

/// The native count of words in windows of ten batches, of pairs (word, time).
#[inline(never)]
pub fn window_count(rounds: usize) {
    const BATCHES: i64 = 10;
    let bodies: Vec<_> = (0..BATCHES).map(body_of_times).collect();
    let batch_us = RECORDS as i64 * 1_000;
    let windows = Windows::new(BATCHES * batch_us, BATCHES * batch_us, 0).expect("a size");
    let time = TimePath::new(Path::from([Step::Item(1)]), Some(Unit::Microseconds));
    let mut counts = None;
    let mut foreign = |_: &[u8]| Err(Problem::NotATime);
    for round in 0..rounds {
        let at = round % bodies.len();
        let counts = match &mut counts {
            Some(counts) if at > 0 => counts,
            // Times begin anew: after its last window it has nothing left but its tables' room.
            none => none.insert(WindowAggregate::new(
                (Aggregation::Count, Path::default()),
                Path::from([Step::Item(0)]),
                time.clone(),
                (windows, 0),
                Emit::Final,
                false,
            )),
        };
        let updated = counts.update(black_box(&bodies[at]), RECORDS, &mut foreign);
        updated.expect("records that suit the aggregate");
        if at == bodies.len() - 1 {
            counts.advance(i64::MAX);
            let given = counts.give(RECORDS, |window, update| {
                black_box((window, update));
                Ok::<_, Problem>(())
            });
            given.expect("counts");
        }
    }
}

/// In October 2025: what times of today take in a record.
const START_US: i64 = 1_760_000_000_000_000;

/// The pairs of a batch, one each millisecond.
fn body_of_times(batch: i64) -> Vec<u8> {
    let mut body = Vec::new();
    for (row, word) in (0..).zip(words()) {
        encode::array(&mut body, 2);
        encode::text(&mut body, word.as_bytes());
        encode::int(&mut body, START_US + (batch * RECORDS as i64 + row) * 1_000);
    }
    body
}

fn aggregate(mut aggregate: Aggregate, body: &[u8], rounds: usize) {
    for _ in 0..rounds {
        let updated = aggregate.update(black_box(body), RECORDS);
        updated.expect("records that suit the aggregate");
        for update in aggregate.take_updates() {
            black_box(update);
        }
    }
}

fn body_of_words() -> Vec<u8> {
    let mut body = Vec::new();
    for word in words() {
        encode::text(&mut body, word.as_bytes());
    }
    body
}
