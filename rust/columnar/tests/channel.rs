//! The way of columns through a channel: what was cut and encoded is decoded equal, and any other
//! bytes are refused calmly.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float64Array, Int32Array,
    Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray,
    UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use oka_columnar::{Columns, Decoder, Encoder, Partitioner, Selector, pieces};
use proptest::prelude::*;

/// A column of `rows` rows of one of the types that are keys, or of lists.
fn column(rows: usize) -> impl Strategy<Value = ArrayRef> {
    use prop::collection::vec;
    use prop::option::of;
    fn array<T: Array + 'static>(array: T) -> ArrayRef {
        Arc::new(array)
    }
    let text = || vec(of("[a-zü]{0,20}"), rows);
    prop_oneof![
        vec(of(any::<i64>()), rows).prop_map(|v| array(Int64Array::from(v))),
        vec(of(any::<u64>()), rows).prop_map(|v| array(UInt64Array::from(v))),
        vec(of(any::<f64>()), rows).prop_map(|v| array(Float64Array::from(v))),
        vec(of(any::<bool>()), rows).prop_map(|v| array(BooleanArray::from(v))),
        text().prop_map(|v| array(StringArray::from_iter(v))),
        text().prop_map(|v| array(LargeStringArray::from_iter(v))),
        text().prop_map(|v| array(StringViewArray::from_iter(v))),
        vec(of(vec(any::<u8>(), 0..9)), rows).prop_map(|v| array(BinaryArray::from_iter(v))),
        text().prop_map(|v| {
            let words: DictionaryArray<Int32Type> = v.iter().map(Option::as_deref).collect();
            array(words)
        }),
        vec(of(vec(of(any::<i32>()), 0..4)), rows)
            .prop_map(|v| array(ListArray::from_iter_primitive::<Int32Type, _, _>(v))),
    ]
}

/// A batch of numbered rows, and possibly a slice of it.
fn batch() -> impl Strategy<Value = RecordBatch> {
    (0..40_usize)
        .prop_flat_map(|rows| (prop::collection::vec(column(rows), 1..4), 0..=rows))
        .prop_flat_map(|(columns, start)| {
            let rows = columns[0].len();
            let number: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows as i32));
            let names = (0..).map(|index| format!("column {index}"));
            let columns = names.zip(columns).chain([("number".to_owned(), number)]);
            let batch = RecordBatch::try_from_iter_with_nullable(
                columns.map(|(name, column)| (name, column, true)),
            );
            (Just(batch.unwrap()), Just(start), 0..=rows - start)
        })
        .prop_map(|(batch, start, length)| batch.slice(start, length))
}

/// Encodes batches into frames and decodes them.
fn through_a_channel(batches: &[RecordBatch]) -> Vec<RecordBatch> {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let mut found = Vec::new();
    for batch in batches {
        let mut body = Vec::new();
        encoder.append(batch, &mut body).unwrap();
        assert_eq!(body.len() % 8, 0);
        let mut runs = Vec::new();
        // Off by one byte: nothing may depend on the alignment.
        body.insert(0, 0);
        let body = Bytes::from(body).slice(1..);
        decoder.accept(body, batch.num_rows(), &mut runs).unwrap();
        found.extend(runs.iter().map(|run| run.to_batch().unwrap()));
    }
    found
}

/// The rows of the batch as two frames, decoded.
fn frames_of(batch: &RecordBatch, rows: &[u32]) -> Vec<RecordBatch> {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    let frame = |_| {
        let mut body = Vec::new();
        encoder.append_rows(batch, Some(rows), &mut body).unwrap();
        let mut runs = Vec::new();
        decoder.accept(body.into(), rows.len(), &mut runs).unwrap();
        runs[0].to_batch().unwrap()
    };
    (0..2).map(frame).collect()
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(batches in prop::collection::vec(batch(), 1..4)) {
        // Twice: the first message of a schema is made in another way than the others.
        let batches: Vec<_> = batches.iter().flat_map(|batch| [batch.clone(), batch.clone()]).collect();
        prop_assert_eq!(through_a_channel(&batches), batches);
    }

    #[test]
    fn parts_are_the_batch(batch in batch(), targets in 1_usize..5) {
        let mut partitioner = Partitioner::new(vec![Selector::Index(0)]);
        let Ok(parts) = partitioner.split(&batch, targets) else {
            prop_assert!(batch.column(0).as_list_opt::<i32>().is_some());
            return Ok(());
        };
        prop_assert_eq!(parts.len(), targets);
        let mut rows: Vec<(i32, RecordBatch)> = Vec::new();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            // Twice: the first message of a schema is made in another way than the others.
            let [first, part] = &frames_of(&batch, part)[..] else {
                panic!("two batches");
            };
            prop_assert_eq!(first, part);
            let numbers = part["number"].as_primitive::<Int32Type>().values();
            prop_assert!(numbers.is_sorted());
            rows.extend(numbers.iter().zip(0..).map(|(n, row)| (*n, part.slice(row, 1))));
        }
        rows.sort_by_key(|(number, _)| *number);
        let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
        prop_assert_eq!(concat_batches(&batch.schema(), &rows).unwrap(), batch);
    }

    #[test]
    fn any_bytes_are_columns_or_an_error(
        batch in batch(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut body = Vec::new();
        Encoder::default().append(&batch, &mut body).unwrap();
        for (place, value) in changes {
            let place = place.index(body.len());
            body[place] = value;
        }
        body.truncate(end.index(body.len() + 1));
        let mut runs = Vec::new();
        if Decoder::default().accept(body.into(), batch.num_rows(), &mut runs).is_ok() {
            for run in &runs {
                let _ = run.to_batch();
                let _ = run.in_place(&[0]).map(Iterator::count);
            }
        }
    }
}

fn coded(words: &[&str]) -> RecordBatch {
    let column: DictionaryArray<Int32Type> = words.iter().copied().collect();
    RecordBatch::try_from_iter([("word", Arc::new(column) as ArrayRef)]).unwrap()
}

fn encoded(encoder: &mut Encoder, batch: &RecordBatch) -> Vec<u8> {
    let mut body = Vec::new();
    encoder.append(batch, &mut body).unwrap();
    body
}

#[test]
fn a_dictionary_travels_once_and_is_replaced() {
    let long = ["a word of many letters", "and another one of them"];
    let batches = [coded(&long), coded(&long), coded(&["other"]), coded(&long)];
    let mut encoder = Encoder::default();
    let bodies = batches.each_ref().map(|batch| encoded(&mut encoder, batch));
    assert!(bodies[1].len() < 300, "{} bytes", bodies[1].len());
    assert!(bodies[3].len() > bodies[1].len());
    // All in one frame: each batch has the dictionary that it was encoded with.
    let (mut decoder, mut runs) = (Decoder::default(), Vec::new());
    decoder
        .accept(bodies.concat().into(), 7, &mut runs)
        .unwrap();
    let [run] = &runs[..] else {
        panic!("one schema")
    };
    let words = run.to_batch().unwrap();
    let words = words.column(0).as_dictionary::<Int32Type>();
    let words: Vec<_> = words
        .downcast_dict::<StringArray>()
        .unwrap()
        .into_iter()
        .collect();
    let expected = [&long[..], &long, &["other"], &long].concat();
    assert_eq!(words.into_iter().flatten().collect::<Vec<_>>(), expected);
}

#[test]
fn another_schema_begins_another_run() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let numbers = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let (mut encoder, mut body) = (Encoder::default(), Vec::new());
    for batch in [&numbers, &numbers, &coded(&["a"]), &numbers] {
        encoder.append(batch, &mut body).unwrap();
    }
    let mut runs = Vec::new();
    Decoder::default()
        .accept(body.into(), 7, &mut runs)
        .unwrap();
    let rows: Vec<_> = runs.iter().map(Columns::rows).collect();
    assert_eq!(rows, [4, 1, 2]);
}

#[test]
fn a_frame_of_other_rows_or_without_a_schema_is_refused() {
    let mut encoder = Encoder::default();
    let first = encoded(&mut encoder, &coded(&["a", "b"]));
    let second = encoded(&mut encoder, &coded(&["a", "b"]));
    let refused = |body: &[u8], rows| {
        let body = Bytes::copy_from_slice(body);
        let error = Decoder::default().accept(body, rows, &mut Vec::new());
        error.unwrap_err().to_string()
    };
    assert_eq!(refused(&first, 3), "2 rows in a frame of 3");
    assert_eq!(refused(&second, 2), "columns without a schema");
    assert!(refused(b"garbage", 1).contains("no messages"));
}

#[test]
fn views_travel_without_what_they_do_not_show() {
    let long = "x".repeat(1000);
    let views = StringViewArray::from_iter_values((0..100).map(|n| format!("{n}{long}")));
    let batch = RecordBatch::try_from_iter([("view", Arc::new(views) as ArrayRef)]).unwrap();
    let slice = batch.slice(7, 2);
    let body = encoded(&mut Encoder::default(), &slice);
    assert!(body.len() < 3_000, "{} bytes", body.len());
    assert_eq!(through_a_channel(std::slice::from_ref(&slice)), [slice]);
    let (mut encoder, mut body) = (Encoder::default(), Vec::new());
    let appended = encoder.append_rows(&batch, Some(&[3, 90]), &mut body);
    appended.unwrap();
    assert!(body.len() < 3_000, "{} bytes", body.len());
    assert!(pieces(&batch, 10_000).count() > 5);
}

/// One column of lists in lists, so many levels deep.
fn nested(levels: usize) -> RecordBatch {
    let mut column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    for _ in 1..levels {
        let field = Arc::new(Field::new("item", column.data_type().clone(), true));
        let lengths = OffsetBuffer::from_lengths(std::iter::repeat_n(1, column.len()));
        column = Arc::new(ListArray::new(field, lengths, column, None));
    }
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

#[test]
fn what_nests_as_deep_as_it_may_arrives_and_what_nests_deeper_does_not_leave() {
    let deepest = nested(61);
    assert_eq!(through_a_channel(std::slice::from_ref(&deepest)), [deepest]);
    let mut body = Vec::new();
    let error = Encoder::default()
        .append(&nested(62), &mut body)
        .unwrap_err();
    let expected = "a column nests 62 levels deep, expected at most 61";
    assert!(error.to_string().contains(expected), "{error}");
    assert!(body.is_empty());
}
