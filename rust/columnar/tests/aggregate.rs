//! Aggregates over columns, against the same loop in plain Rust.

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch,
    StringArray, StringViewArray, TimestampSecondArray, cast::AsArray, record_batch,
};
use oka_columnar::{Aggregate, Columns, Decoder, Encoder, Selector};
use oka_compute::Aggregation;

fn over(aggregation: Aggregation) -> Aggregate {
    let value = Selector::Name("value".to_owned());
    Aggregate::new(aggregation, Selector::Name("key".to_owned()), Some(value))
}

fn batch(key: ArrayRef, value: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("key", key, true), ("value", value, true)]).unwrap()
}

/// What a channel would deliver.
fn columns(batch: &RecordBatch) -> Columns {
    let (mut body, mut runs) = (Vec::new(), Vec::new());
    Encoder::default().append(batch, &mut body).unwrap();
    let rows = batch.num_rows();
    Decoder::default()
        .accept(body.into(), rows, &mut runs)
        .unwrap();
    runs.remove(0)
}

fn update(aggregate: &mut Aggregate, batch: &RecordBatch) -> RecordBatch {
    aggregate.update(&columns(batch)).unwrap().unwrap()
}

fn refusal(aggregate: &mut Aggregate, batch: &RecordBatch) -> String {
    aggregate.update(&columns(batch)).unwrap_err().to_string()
}

fn array(values: impl Array + 'static) -> ArrayRef {
    Arc::new(values)
}

#[test]
fn counts_go_on_and_name_what_they_touched() {
    let key = Selector::Index(0);
    let mut counts = Aggregate::new(Aggregation::Count, key, None);
    let words = record_batch!(("word", Utf8, [Some("to"), Some("be"), None, Some("to")])).unwrap();
    let expected = record_batch!(
        ("word", Utf8, [Some("to"), Some("be"), None]),
        ("count", Int64, [Some(2), Some(1), Some(1)])
    );
    assert_eq!(update(&mut counts, &words), expected.unwrap());
    let words = record_batch!(("word", Utf8, [Some("or"), Some("to")])).unwrap();
    let expected = record_batch!(
        ("word", Utf8, [Some("or"), Some("to")]),
        ("count", Int64, [Some(1), Some(3)])
    );
    assert_eq!(update(&mut counts, &words), expected.unwrap());
}

#[test]
fn a_key_with_a_dictionary_keeps_one_whatever_it_is() {
    let mut sums = over(Aggregation::Sum);
    for (round, words) in [["a", "b", "a"], ["c", "a", "c"]].iter().enumerate() {
        let key: DictionaryArray<Int32Type> = words.iter().copied().collect();
        let found = update(
            &mut sums,
            &batch(array(key), array(Int64Array::from(vec![1, 2, 4]))),
        );
        let keys = found.column(0).as_dictionary::<Int32Type>();
        let keys = keys.downcast_dict::<StringArray>().unwrap();
        let expected = [["a", "b"], ["c", "a"]][round];
        assert!(keys.into_iter().flatten().eq(expected));
        let sums = found.column(1).as_primitive::<Int64Type>().values();
        assert_eq!(sums[..], [[5, 2], [5, 7]][round]);
    }
}

#[test]
fn nulls_are_left_out_and_floats_stay_floats() {
    let key = || array(StringArray::from(vec!["a", "b", "a", "b"]));
    let value = array(Float64Array::from(vec![Some(0.5), None, Some(1.0), None]));
    let found = update(&mut over(Aggregation::Sum), &batch(key(), value));
    let sums: Vec<_> = found
        .column(1)
        .as_primitive::<Float64Type>()
        .iter()
        .collect();
    assert_eq!(sums, [Some(1.5), None]);
    let value = array(BooleanArray::from(vec![true, true, false, true]));
    let found = update(&mut over(Aggregation::Sum), &batch(key(), value));
    assert_eq!(
        found.column(1).as_primitive::<Int64Type>().values()[..],
        [1, 2]
    );
}

#[test]
fn least_greatest_and_first_keep_the_type() {
    let key = || array(Int64Array::from(vec![1, 2, 1, 2]));
    let texts = || array(StringViewArray::from(vec!["m", "n", "a", "z"]));
    let times = || array(TimestampSecondArray::from(vec![5, 6, 4, 7]));
    for (aggregation, text, time) in [
        (Aggregation::Min, ["a", "n"], [4, 6]),
        (Aggregation::Max, ["m", "z"], [5, 7]),
        (Aggregation::First, ["m", "n"], [5, 6]),
    ] {
        let found = update(&mut over(aggregation), &batch(key(), texts()));
        assert!(found.column(1).as_string_view().iter().flatten().eq(text));
        let found = update(&mut over(aggregation), &batch(key(), times()));
        let expected: ArrayRef = array(TimestampSecondArray::from(time.to_vec()));
        assert_eq!(found.column(1), &expected);
    }
}

#[test]
fn the_first_value_does_not_come_again() {
    let mut first = over(Aggregation::First);
    let rows = batch(
        array(StringArray::from(vec!["a", "a"])),
        array(Int64Array::from(vec![1, 2])),
    );
    assert_eq!(update(&mut first, &rows).num_rows(), 1);
    assert!(first.update(&columns(&rows)).unwrap().is_none());
}

#[test]
fn equal_floats_are_one_key() {
    let keys = Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.5]);
    let rows = RecordBatch::try_from_iter([("key", array(keys))]).unwrap();
    let mut counts = Aggregate::new(Aggregation::Count, Selector::Index(0), None);
    let found = update(&mut counts, &rows);
    assert_eq!(
        found.column(1).as_primitive::<Int64Type>().values()[..],
        [2, 2, 1]
    );
}

#[test]
fn what_does_not_suit_is_refused() {
    let text = || array(StringArray::from(vec!["a"]));
    let number = || array(Int64Array::from(vec![i64::MAX]));
    let mut sums = over(Aggregation::Sum);
    assert_eq!(
        refusal(&mut sums, &batch(text(), text())),
        "sum of a column of type Utf8"
    );
    update(&mut sums, &batch(text(), number()));
    assert!(refusal(&mut sums, &batch(text(), number())).contains("is no Int64"));
    let message = refusal(
        &mut over(Aggregation::Sum),
        &record_batch!(("k", Int32, [1])).unwrap(),
    );
    assert_eq!(message, "there is no column \"key\"; the columns are k");
    let mut sums = over(Aggregation::Sum);
    update(&mut sums, &batch(text(), number()));
    let message = refusal(&mut sums, &batch(number(), number()));
    assert_eq!(
        message,
        "columns of type Int64 and Int64 after columns of type Utf8 and Int64"
    );
}

#[test]
fn a_key_that_is_no_text_is_refused_when_it_is_shown() {
    let word = "neither here nor there";
    let rows = RecordBatch::try_from_iter([("key", array(StringArray::from(vec![word])))]).unwrap();
    let mut body = Vec::new();
    Encoder::default().append(&rows, &mut body).unwrap();
    let place = body
        .windows(word.len())
        .position(|bytes| bytes == word.as_bytes());
    body[place.unwrap()] = 0xff;
    let mut runs = Vec::new();
    Decoder::default()
        .accept(body.into(), 1, &mut runs)
        .unwrap();
    let mut counts = Aggregate::new(Aggregation::Count, Selector::Index(0), None);
    assert!(counts.update(&runs[0]).is_err());
    assert!(runs[0].to_batch().is_err());
}
