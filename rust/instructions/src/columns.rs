//! Columns: encoding, decoding, partitioning, aggregating a batch of rows.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use oka_columnar::{Aggregate, Columns, Decoder, Encoder, Partitioner, Selector, WindowAggregate};
use oka_compute::{Aggregation, Emit, Unit};
use oka_window::{Assigner, Windows};

use crate::data::{BATCH_US, BATCHES, RECORDS, START_US, drawn, words};

/// A batch to the body of a frame.
#[inline(never)]
pub fn encode(rounds: usize) {
    let batch = batch();
    let (mut encoder, mut body) = (Encoder::default(), Vec::new());
    for _ in 0..rounds {
        body.clear();
        let appended = encoder.append(black_box(&batch), &mut body);
        appended.expect("columns that can travel");
        black_box(&body);
    }
}

/// The body of a frame to a batch with memory of its own.
#[inline(never)]
pub fn decode(rounds: usize) {
    let (mut decoder, body) = channel();
    let mut runs = Vec::new();
    for _ in 0..rounds {
        accept(&mut decoder, &body, &mut runs);
        black_box(runs[0].to_batch().expect("encoded columns"));
    }
}

/// A batch to the bodies of frames for eight channels.
#[inline(never)]
pub fn partition(rounds: usize) {
    let batch = batch();
    let mut partitioner = Partitioner::new(vec![Selector::Index(0)]);
    let mut channels: Vec<(Encoder, Vec<u8>)> = (0..8).map(|_| Default::default()).collect();
    for _ in 0..rounds {
        let parts = partitioner.split(black_box(&batch), channels.len());
        let parts = parts.expect("a column of keys");
        for ((encoder, body), rows) in channels.iter_mut().zip(parts) {
            body.clear();
            let appended = encoder.append_rows(&batch, Some(rows), body);
            appended.expect("columns that can travel");
        }
        black_box(&channels);
    }
}

/// The count of words, read from the frame in place.
#[inline(never)]
pub fn count(rounds: usize) {
    let counts = Aggregate::by(vec![Selector::Index(0)]);
    aggregate(counts.compute("count", Aggregation::Count, None), rounds);
}

/// The sum of the numbers of each word, read from the frame in place.
#[inline(never)]
pub fn sum(rounds: usize) {
    let (sums, value) = (Aggregate::by(vec![Selector::Index(0)]), Selector::Index(1));
    aggregate(sums.compute("sum", Aggregation::Sum, Some(value)), rounds);
}

/// The count of words in windows of ten batches.
#[inline(never)]
pub fn window_count(rounds: usize) {
    let size = BATCHES * BATCH_US;
    let windows = Windows::new(size, size, 0).expect("a size");
    count_in(windows.into(), rounds);
}

/// The count of words in sessions, one of each word, that last for ten batches.
#[inline(never)]
pub fn session_count(rounds: usize) {
    count_in(Assigner::sessions(BATCH_US).expect("a gap"), rounds);
}

fn count_in(windows: Assigner, rounds: usize) {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let batches = (0..BATCHES).map(|batch| {
        let mut body = Vec::new();
        let appended = encoder.append(&batch_of_times(batch), &mut body);
        appended.expect("columns that can travel");
        let mut runs = Vec::new();
        accept(&mut decoder, &body.into(), &mut runs);
        runs.remove(0)
    });
    let batches: Vec<_> = batches.collect();
    let mut counts = None;
    for round in 0..rounds {
        let at = round % batches.len();
        let counts = match &mut counts {
            Some(counts) if at > 0 => counts,
            // As of records: times begin anew.
            none => none.insert(WindowAggregate::new(
                Aggregate::by(vec![Selector::Index(0)]).compute("count", Aggregation::Count, None),
                Some((Selector::Index(1), Unit::Microseconds)),
                (windows, 0),
                Emit::Final,
                false,
            )),
        };
        let added = counts.add(black_box(&batches[at]));
        added.expect("columns that suit the aggregate");
        if at == batches.len() - 1 {
            counts.advance(i64::MAX);
            black_box(counts.give(RECORDS).expect("counts"));
        }
    }
}

fn batch_of_times(batch: i64) -> RecordBatch {
    let step = BATCH_US / RECORDS as i64;
    let times = (0..RECORDS as i64).map(|row| START_US + batch * BATCH_US + row * step);
    RecordBatch::try_from_iter([
        ("word", Arc::new(StringArray::from(words())) as _),
        ("time", Arc::new(times.collect::<Int64Array>()) as _),
    ])
    .expect("two columns of one length")
}

fn aggregate(mut aggregate: Aggregate, rounds: usize) {
    let (mut decoder, body) = channel();
    let mut runs = Vec::new();
    for _ in 0..rounds {
        accept(&mut decoder, &body, &mut runs);
        let updated = aggregate.update(black_box(&runs[0]));
        black_box(updated.expect("columns that suit the aggregate"));
    }
}

fn accept(decoder: &mut Decoder, body: &Bytes, runs: &mut Vec<Columns>) {
    runs.clear();
    let accepted = decoder.accept(black_box(body.clone()), RECORDS, runs);
    accepted.expect("encoded columns");
}

/// The reading end of a channel that has had the schema, and the body of the next frame.
fn channel() -> (Decoder, Bytes) {
    let (mut encoder, mut decoder, batch) = (Encoder::default(), Decoder::default(), batch());
    let mut bodies = [Vec::new(), Vec::new()];
    for body in &mut bodies {
        encoder.append(&batch, body).expect("columns");
    }
    let [first, next] = bodies.map(Bytes::from);
    accept(&mut decoder, &first, &mut Vec::new());
    (decoder, next)
}

fn batch() -> RecordBatch {
    let numbers: Int64Array = (0..RECORDS).map(|row| drawn(row) as i64).collect();
    RecordBatch::try_from_iter([
        ("word", Arc::new(StringArray::from(words())) as _),
        ("number", Arc::new(numbers) as _),
    ])
    .expect("two columns of one length")
}
