//! Nanoseconds per row of each step between a source and a native count, without any channel:
//! `cargo run --release -p oka-columnar --example steps`.
//!
//! The best of many rounds: the machine's other work only ever adds.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use bytes::Bytes;
use oka_columnar::{Aggregate, Decoder, Encoder, Partitioner, Selector};
use oka_compute::Aggregation;

fn main() {
    println!(
        "ns per row                 encode  partition       cut     accept      copy     count"
    );
    for rows in [1_000, 10_000] {
        for (name, width, coded) in [
            ("32 B", 32, false),
            ("1024 B", 1024, false),
            ("32 B, dictionary", 32, true),
        ] {
            measure(name, &batch(rows, width, WORDS, coded));
        }
    }
    // So many keys that neither they nor their table stay in the processor's cache.
    measure("32 B, 1 M keys", &batch(1_000_000, 32, 1_000_000, false));
}

fn measure(name: &str, batch: &RecordBatch) {
    let rows = batch.num_rows();
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let mut body = Vec::new();
    encoder.append(batch, &mut body).expect("it can be encoded");
    let mut runs = Vec::new();
    decoder
        .accept(Bytes::from(body.clone()), rows, &mut runs)
        .expect("it can be decoded");
    let encode = best(rows, || {
        body.clear();
        encoder
            .append(black_box(batch), &mut body)
            .expect("as before");
    });
    let mut partitioner = Partitioner::new(vec![Selector::Index(0)]);
    let partition = best(rows, || {
        black_box(partitioner.split(batch, 8).expect("a key column"));
    });
    let mut bodies: Vec<(Encoder, Vec<u8>)> = (0..8).map(|_| Default::default()).collect();
    let cut = best(rows, || {
        let parts = partitioner.split(batch, 8).expect("a key column");
        for ((encoder, body), rows) in bodies.iter_mut().zip(parts) {
            body.clear();
            let appended = encoder.append_rows(batch, Some(rows), body);
            appended.expect("it can be encoded");
        }
    });
    let body = Bytes::from(body);
    let accept = best(rows, || {
        runs.clear();
        let accepted = decoder.accept(body.clone(), rows, &mut runs);
        accepted.expect("as before");
    });
    let columns = &runs[0];
    let copy = best(rows, || {
        black_box(columns.to_batch().expect("columns"));
    });
    let mut counts =
        Aggregate::by(vec![Selector::Index(0)]).compute("count", Aggregation::Count, None);
    let count = best(rows, || {
        black_box(counts.update(columns).expect("a key column"));
    });
    println!(
        "{name:18}{rows:>6} {encode:>9.2} {partition:>10.2} {cut:>9.2} {accept:>10.2} {copy:>9.2} {count:>9.2}"
    );
}

/// The least time of a call, per row.
fn best(rows: usize, mut call: impl FnMut()) -> f64 {
    let mut least = u128::MAX;
    for _ in 0..(ROUND_ROWS / rows).clamp(5, 2_000) {
        let started = Instant::now();
        call();
        least = least.min(started.elapsed().as_nanos());
    }
    least as f64 / rows as f64
}

/// Rows of so many different words in no order.
fn batch(rows: usize, width: usize, words: usize, coded: bool) -> RecordBatch {
    let numbered: Vec<String> = (0..words)
        .map(|number| format!("{number:0width$}"))
        .collect();
    let drawn = (0..rows).map(|row| row.wrapping_mul(2_654_435_761) / 7 % words);
    let column: ArrayRef = if coded {
        let numbers: Int32Array = drawn.map(|word| word as i32).collect();
        let words = StringArray::from_iter_values(&numbered);
        let coded = DictionaryArray::<Int32Type>::try_new(numbers, Arc::new(words));
        Arc::new(coded.expect("codes of words"))
    } else {
        Arc::new(StringArray::from_iter_values(
            drawn.map(|word| &numbered[word]),
        ))
    };
    RecordBatch::try_from_iter([("word", column)]).expect("one column")
}

const ROUND_ROWS: usize = 20_000_000;
const WORDS: usize = 100;
