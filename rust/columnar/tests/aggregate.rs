//! Aggregates over columns, against the same loop in plain Rust.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, ListArray,
    RecordBatch, StringArray, StringViewArray, TimestampSecondArray, cast::AsArray, record_batch,
};
use oka_columnar::{Aggregate, AggregateError, Columns, Decoder, Encoder, Latest, Selector};
use oka_compute::{Aggregation, Copied};

fn over(aggregation: Aggregation) -> Aggregate {
    let value = Selector::Name("value".to_owned());
    Aggregate::by(vec![Selector::Name("key".to_owned())]).compute(
        aggregation.name(),
        aggregation,
        Some(value),
    )
}

fn counts() -> Aggregate {
    Aggregate::by(vec![Selector::Index(0)]).compute("count", Aggregation::Count, None)
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

/// The words of a column with a dictionary.
fn words(batch: &RecordBatch) -> Vec<Option<String>> {
    let coded = batch.column(0).as_dictionary::<Int32Type>();
    let words = coded.downcast_dict::<StringArray>().unwrap();
    words.into_iter().map(|w| w.map(str::to_owned)).collect()
}

#[test]
fn counts_go_on_and_name_what_they_touched() {
    let mut counts = counts();
    let words = record_batch!(("word", Utf8, [Some("to"), Some("be"), None, Some("to")])).unwrap();
    let found = update(&mut counts, &words);
    assert_eq!(found.schema().field(0).name(), "word");
    assert_eq!(found.schema().field(1).name(), "count");
    let owned =
        |words: &[Option<&str>]| -> Vec<_> { words.iter().map(|w| w.map(str::to_owned)).collect() };
    assert_eq!(self::words(&found), owned(&[Some("to"), Some("be"), None]));
    let numbers = found.column(1).as_primitive::<Int64Type>();
    assert_eq!(numbers.values()[..], [2, 1, 1]);
    let words = record_batch!(("word", Utf8, [Some("or"), Some("to")])).unwrap();
    let found = update(&mut counts, &words);
    assert_eq!(self::words(&found), owned(&[Some("or"), Some("to")]));
    let numbers = found.column(1).as_primitive::<Int64Type>();
    assert_eq!(numbers.values()[..], [1, 3]);
}

#[test]
fn results_share_a_dictionary_and_copy_few_keys() {
    let mut counts = counts();
    let (mut so_far, mut copied, mut touched) = (HashMap::new(), 0, 0);
    let mut last: Option<ArrayRef> = None;
    for round in 0_usize..400 {
        // A new word every other round, then none for a while, among some that were there.
        let newest = if round < 200 { round / 2 } else { 100 };
        let keys = [newest, newest / 2, round % 7].map(|n| Some(n.to_string()));
        let column: StringArray = keys.iter().chain([&None]).collect();
        let batch = RecordBatch::try_from_iter([("key", array(column))]).unwrap();
        let found = update(&mut counts, &batch);
        for key in keys.into_iter().chain([None]) {
            *so_far.entry(key).or_insert(0_i64) += 1;
        }
        let numbers = found.column(1).as_primitive::<Int64Type>();
        for (key, number) in words(&found).iter().zip(numbers.values()) {
            assert_eq!(so_far[key], *number, "{key:?} in round {round}");
        }
        touched += found.num_rows();
        let dictionary = found.column(0).as_dictionary::<Int32Type>().values();
        let shared = |last: &ArrayRef| last.to_data().ptr_eq(&dictionary.to_data());
        if !last.as_ref().is_some_and(shared) {
            copied += dictionary.len();
        }
        last = Some(Arc::clone(dictionary));
    }
    assert!(copied <= 2 * touched, "{copied} keys copied for {touched}");
    let settled = last.unwrap();
    let batch = record_batch!(("key", Utf8, ["3"])).unwrap();
    let found = update(&mut counts, &batch);
    let dictionary = found.column(0).as_dictionary::<Int32Type>().values();
    assert!(settled.to_data().ptr_eq(&dictionary.to_data()));
}

#[test]
fn the_latest_values_are_kept_whatever_their_type() {
    let mut latest = Latest::default();
    assert!(latest.take().unwrap().is_none());
    let rows = |from: i64| {
        let keys = (from..from + 1000).map(|n| Some((n % 1500).to_string()));
        let values = (from..from + 1000).map(|n| (n % 3 > 0).then(|| format!("value {n}")));
        batch(
            array(keys.collect::<StringArray>()),
            array(values.collect::<StringArray>()),
        )
    };
    for from in 0..100 {
        assert!(latest.add(&rows(from * 1000)).unwrap());
    }
    let numbers = record_batch!(("key", Int64, [1]), ("value", Int64, [2])).unwrap();
    assert!(!latest.add(&numbers).unwrap());
    let found = latest.take().unwrap().unwrap();
    let (keys, values) = (found.column(0), found.column(1));
    assert_eq!(found.num_rows(), 1500);
    for (key, value) in keys
        .as_string::<i32>()
        .iter()
        .zip(values.as_string::<i32>())
    {
        let key: i64 = key.unwrap().parse().unwrap();
        let last = (98_500..100_000).find(|n| n % 1500 == key).unwrap();
        assert_eq!(
            value.map(str::to_owned),
            (last % 3 > 0).then(|| format!("value {last}"))
        );
    }
    assert!(latest.add(&numbers).unwrap());
    assert_eq!(latest.take().unwrap().unwrap().num_rows(), 1);
    let alone = record_batch!(("key", Int64, [1])).unwrap();
    assert!(!latest.add(&alone).unwrap());
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
        let expected = [["a", "b"], ["c", "a"]][round];
        assert!(self::words(&found).iter().flatten().eq(expected));
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
fn means_are_floats_and_leave_nulls_out() {
    let key = || array(StringArray::from(vec!["a", "b", "a", "b"]));
    for value in [
        array(Float64Array::from(vec![Some(0.5), None, Some(1.0), None])),
        array(Int64Array::from(vec![Some(1), None, Some(2), None])),
    ] {
        let found = update(
            &mut over(Aggregation::Mean),
            &batch(key(), Arc::clone(&value)),
        );
        let means: Vec<_> = found
            .column(1)
            .as_primitive::<Float64Type>()
            .iter()
            .collect();
        let expected = if value.as_primitive_opt::<Int64Type>().is_some() {
            1.5
        } else {
            0.75
        };
        assert_eq!(means, [Some(expected), None]);
    }
    let times = array(TimestampSecondArray::from(vec![5, 6, 4, 7]));
    let message = refusal(&mut over(Aggregation::Mean), &batch(key(), times));
    assert!(
        message.starts_with("mean of column \"value\" of type Timestamp"),
        "{message}"
    );
}

#[test]
fn several_aggregations_and_key_columns_give_a_column_each() {
    let name = |name: &str| Selector::Name(name.to_owned());
    let mut aggregate = Aggregate::by(vec![name("word"), name("number")])
        .compute("n", Aggregation::Count, None)
        .compute("total", Aggregation::Sum, Some(name("value")))
        .compute("first", Aggregation::First, Some(name("value")))
        .compute("least", Aggregation::Min, Some(name("word")));
    let rows = |words: [Option<&str>; 4], values: [i64; 4]| {
        let numbers = Int64Array::from(vec![Some(1), Some(1), None, Some(1)]);
        RecordBatch::try_from_iter_with_nullable([
            ("value", array(Int64Array::from(values.to_vec())), true),
            ("word", array(StringArray::from(words.to_vec())), true),
            ("number", array(numbers), true),
        ])
        .unwrap()
    };
    let found = update(
        &mut aggregate,
        &rows([Some("a"), Some("b"), None, Some("a")], [1, 2, 3, 4]),
    );
    let names: Vec<_> = found
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(names, ["word", "number", "n", "total", "first", "least"]);
    let number = |column: usize| -> Vec<_> {
        found
            .column(column)
            .as_primitive::<Int64Type>()
            .iter()
            .collect()
    };
    assert_eq!(
        words(&found),
        [Some("a".to_owned()), Some("b".to_owned()), None]
    );
    assert_eq!(number(1), [Some(1), Some(1), None]);
    assert_eq!(number(2), [Some(2), Some(1), Some(1)]);
    assert_eq!(number(3), [Some(5), Some(2), Some(3)]);
    assert_eq!(number(4), [Some(1), Some(2), Some(3)]);
    let least: Vec<_> = found.column(5).as_string::<i32>().iter().collect();
    assert_eq!(least, [Some("a"), Some("b"), None]);
    // A first value that stays does not hide that its key was touched.
    let found = update(&mut aggregate, &rows([Some("b"); 4], [5, 6, 7, 8]));
    assert_eq!(words(&found), [Some("b".to_owned()), Some("b".to_owned())]);
    let totals = found.column(3).as_primitive::<Int64Type>();
    assert_eq!(totals.values()[..], [2 + 5 + 6 + 8, 7]);
    let firsts = found.column(4).as_primitive::<Int64Type>();
    assert_eq!(firsts.values()[..], [2, 7]);
}

#[test]
fn what_was_only_added_is_given_in_parts() {
    let mut first = over(Aggregation::First);
    let mut expected = Vec::new();
    for round in 0_i64..300 {
        let keys: StringArray = (0..3).map(|n| Some(format!("{}", round / 2 + n))).collect();
        let values = Int64Array::from_iter_values((0..3).map(|n| 10 * round + n));
        for n in 0..3 {
            if round == 0 || (round % 2 == 0 && n == 2) {
                expected.push(((round / 2 + n).to_string(), 10 * round + n));
            }
        }
        first
            .add(&columns(&batch(array(keys), array(values))))
            .unwrap();
    }
    assert_eq!(first.touched(), expected.len());
    let mut found = Vec::new();
    for start in (0..expected.len()).step_by(7) {
        let part = first
            .updates(start..expected.len().min(start + 7))
            .unwrap()
            .unwrap();
        let values = part.column(1).as_primitive::<Int64Type>().values();
        let keys = words(&part).into_iter().flatten();
        found.extend(keys.zip(values.iter().copied()));
    }
    assert_eq!(found, expected);
    assert!(first.updates(0..0).unwrap().is_none());
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
    let mut counts = counts();
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
        "sum of column \"value\" of type Utf8, expected integers, floats, bools or dictionaries of them"
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
    let mut counts = counts();
    assert!(counts.update(&runs[0]).is_err());
    assert!(runs[0].to_batch().is_err());
}

type Kept = Vec<(Vec<u8>, Vec<u8>)>;

/// Keys with what is kept of them.
fn encoded(copied: Copied<AggregateError>) -> Kept {
    let (keys, kept) = copied().unwrap();
    let pairs = keys.iter().zip(kept.iter());
    pairs
        .map(|(key, kept)| (key.to_vec(), kept.to_vec()))
        .collect()
}

/// What it keeps: a frame of no rows, keys with their values.
fn exported(aggregate: &mut Aggregate) -> (Vec<u8>, Kept) {
    let (layout, copied) = aggregate.export().unwrap();
    (layout, encoded(copied))
}

/// A key with its value, where t-digests do not say in which direction they merge next.
fn either_direction((key, mut value): (Vec<u8>, Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    let digest = value.windows(5).position(|it| it == [2, 1, 20, 200, 0]);
    if let Some(at) = digest {
        value[at + 5] &= !4;
    }
    (key, value)
}

/// An aggregate for each of these keys alone goes on as the one that had them all.
#[test]
fn others_go_on_with_what_is_exported() {
    let coded: DictionaryArray<Int32Type> = ["x", "y", "x"].into_iter().collect();
    let lists = vec![Some(vec![Some(1)]), None, Some(vec![])];
    let keys = [
        array(StringArray::from(vec![Some("a"), None, Some("a")])),
        array(StringViewArray::from(vec!["a", "\u{fc}", "a"])),
        array(coded.clone()),
        array(Int64Array::from(vec![i64::MIN, 7, i64::MIN])),
        array(Float64Array::from(vec![-0.0, f64::NAN, 0.0])),
        array(BooleanArray::from(vec![Some(true), None, Some(true)])),
    ];
    let values = [
        array(Int64Array::from(vec![Some(i64::MAX), None, Some(i64::MAX)])),
        array(Float64Array::from(vec![Some(0.5), None, Some(f64::NAN)])),
        array(StringArray::from(vec![Some("n"), Some(""), Some("m")])),
        array(TimestampSecondArray::from(vec![Some(5), None, Some(4)])),
        array(coded),
        array(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
    ];
    let mut compared = 0;
    for (key, value) in keys
        .iter()
        .flat_map(|key| values.iter().map(move |v| (key, v)))
    {
        let frame = columns(&batch(Arc::clone(key), Arc::clone(value)));
        for aggregation in Aggregation::ALL {
            let mut whole = over(aggregation);
            if whole.add(&frame).is_err() {
                continue; // no such values
            }
            let (layout, entries) = exported(&mut whole);
            let (_, later) = whole.export().unwrap();
            whole.add(&frame).unwrap();
            // It is of its time, whoever encodes it when.
            assert_eq!(encoded(later), entries);
            let (_, expected) = exported(&mut whole);
            assert_eq!(entries.len(), 2);
            for (at, (key, value)) in entries.iter().cloned().enumerate() {
                let mut other = over(aggregation);
                other.import(&layout, &[(&key, &value)], true).unwrap();
                assert_eq!(other.touched(), 1);
                assert_eq!(exported(&mut other).1, entries[at..=at]);
                other.add(&frame).unwrap();
                let found = exported(&mut other).1;
                let found = found.iter().find(|it| it.0 == key).cloned();
                assert_eq!(
                    found.map(either_direction),
                    Some(either_direction(expected[at].clone()))
                );
                compared += 1;
            }
            let mut none = over(aggregation);
            none.import(&layout, &[], true).unwrap();
            assert!(none.updates(0..0).unwrap().is_none());
            assert_eq!(exported(&mut none), (layout.clone(), Vec::new()));
            let mut twice = over(aggregation);
            let (key, value) = (&entries[0].0[..], &entries[0].1[..]);
            let error = twice.import(&layout, &[(key, value); 2], true);
            assert_eq!(
                error.unwrap_err().to_string(),
                "a state that cannot go on here: its key has a state already"
            );
        }
    }
    assert_eq!(compared, 2 * keys.len() * (20 + 17 + 9 + 9 + 9 + 4));
}

#[test]
fn what_is_exported_is_what_records_are() {
    let key = array(StringArray::from(vec!["a", "a"]));
    let mut means = Aggregate::by(vec![Selector::Index(0), Selector::Index(1)])
        .compute("n", Aggregation::Mean, Some(Selector::Index(1)))
        .compute("most", Aggregation::Max, Some(Selector::Index(0)));
    means
        .add(&columns(&batch(key, array(Int64Array::from(vec![7, 7])))))
        .unwrap();
    let (_, entries) = exported(&mut means);
    let key = vec![0x92, 0xa1, b'a', 7];
    assert_eq!(entries, [(key, vec![0x92, 0x92, 14, 2, 0xa1, b'a'])]);
    let mut none = Aggregate::by(vec![Selector::Index(0)]);
    assert!(exported(&mut none).0.is_empty());
    let (layout, _) = exported(&mut means);
    let error = counts().import(&layout, &[(&[0x07], &[0xa1, b'a'])], true);
    assert_eq!(
        error.unwrap_err().to_string(),
        "a state that cannot go on here: its value is not of the same kind as the values before it"
    );
}
