//! Any bytes are columns, batches and aggregates of them, or are refused.
#![no_main]

use std::panic;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use libfuzzer_sys::fuzz_target;
use oka_columnar::{Aggregate, Columns, Decoder, Encoder, Selector};
use oka_compute::Aggregation;

fuzz_target!(
    init: {
        oka_fuzz::write_seeds(&seeds());
        // libFuzzer's hook ends the process even where a panic is caught, as it is around Arrow's
        // reader; one that is not caught ends it all the same.
        panic::set_hook(Box::new(|_| {}));
    },
    |bytes: &[u8]| {
        let [rows, body @ ..] = bytes else { return };
        let mut runs = Vec::new();
        let mut decoder = Decoder::default();
        if decoder.accept(body.to_vec().into(), *rows as usize, &mut runs).is_err() {
            return;
        }
        let total: usize = runs.iter().map(Columns::rows).sum();
        assert_eq!(total, *rows as usize);
        for columns in &runs {
            if let Ok(batch) = columns.to_batch() {
                assert_eq!(batch.num_rows(), columns.rows());
            }
            aggregate(columns);
        }
    }
);

fn aggregate(columns: &Columns) {
    let (first, last) = (Selector::Index(0), Selector::Index(-1));
    for key in [vec![first.clone()], vec![first, last.clone()]] {
        for aggregation in Aggregation::ALL {
            let aggregate = Aggregate::by(key.clone()).compute("n", Aggregation::Count, None);
            let mut aggregate = aggregate.compute("value", aggregation, Some(last.clone()));
            if let Ok(Some(touched)) = aggregate.update(columns) {
                assert!(touched.num_rows() <= columns.rows());
            }
        }
    }
}

/// Frames as tasks send them, behind the number of their rows.
fn seeds() -> Vec<Vec<u8>> {
    let words = [Some("moon"), None, Some("sun")];
    let plain: ArrayRef = Arc::new(words.iter().copied().collect::<StringArray>());
    let coded: ArrayRef = Arc::new(
        words
            .iter()
            .copied()
            .collect::<DictionaryArray<Int32Type>>(),
    );
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(300), None]));
    let frame = |key: ArrayRef, times: u8| {
        let columns = [("key", key, true), ("value", Arc::clone(&numbers), true)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("of one length");
        let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
        for _ in 0..times {
            encoder
                .append(&batch, &mut bytes)
                .expect("it can be encoded");
        }
        bytes.insert(0, 3 * times);
        bytes
    };
    vec![
        frame(plain, 1),
        frame(coded, 2),
        frame(Arc::clone(&numbers), 3),
    ]
}
