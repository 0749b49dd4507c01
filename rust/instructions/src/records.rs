//! Encoded records: writing, reading, hashing, aggregating.

use std::hint::black_box;

use oka_compute::{
    Aggregate, Aggregation, Emit, Path, Problem, Reader, Step, TimePath, Unit, WindowAggregate,
    encode,
};
use oka_protocol::partition::{hash_str, target};
use oka_window::{Assigner, Windows};

use crate::data::{BATCH_US, BATCHES, RECORDS, START_US, drawn, words};

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
    let counts = Aggregate::new((Aggregation::Count, Path::default()), Path::default());
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
    aggregate(
        Aggregate::new((Aggregation::Sum, value), key),
        &body,
        rounds,
    );
}

/// The native count of words in windows of ten batches, of pairs (word, time).
#[inline(never)]
pub fn window_count(rounds: usize) {
    let size = BATCHES * BATCH_US;
    let windows = Windows::new(size, size, 0).expect("a size");
    count_in(windows.into(), rounds);
}

/// The same in sessions, one of each word, that last for ten batches.
#[inline(never)]
pub fn session_count(rounds: usize) {
    count_in(Assigner::sessions(BATCH_US).expect("a gap"), rounds);
}

fn count_in(windows: Assigner, rounds: usize) {
    let bodies: Vec<_> = (0..BATCHES).map(body_of_times).collect();
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

/// The pairs of a batch, one each millisecond.
fn body_of_times(batch: i64) -> Vec<u8> {
    let mut body = Vec::new();
    for (row, word) in (0..).zip(words()) {
        encode::array(&mut body, 2);
        encode::text(&mut body, word.as_bytes());
        encode::int(&mut body, START_US + batch * BATCH_US + row * 1_000);
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
