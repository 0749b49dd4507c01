//! What an aggregate exports, others import, and go on as if all records had come to them.

use oka_compute::{
    Accumulated, Aggregate, Aggregation, ByteStrings, Path, Problem, Step, Values, encode, key,
    quantiles,
};
use proptest::prelude::*;
use std::collections::HashMap;

type Record = (Key, i64);

#[derive(Clone, Debug)]
enum Key {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Pair(i64, f64),
}

impl Key {
    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Nil => encode::nil(&mut out),
            Self::Bool(truth) => encode::boolean(&mut out, *truth),
            Self::Int(number) => encode::int(&mut out, *number),
            Self::Float(number) => encode::float(&mut out, *number),
            Self::Text(text) => encode::text(&mut out, text.as_bytes()),
            Self::Pair(left, right) => {
                encode::array(&mut out, 2);
                encode::int(&mut out, *left);
                encode::float(&mut out, *right);
            }
        }
        out
    }

    /// What all keys have that are equal in Python.
    fn canonical(&self) -> Vec<u8> {
        canonical(&self.encoded())
    }
}

fn canonical(encoded: &[u8]) -> Vec<u8> {
    let mut scratch = Vec::new();
    key::canonical(encoded, &mut scratch)
        .expect("a key")
        .to_vec()
}

fn keys() -> impl Strategy<Value = Key> {
    let floats = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(1.0),
        Just(f64::NAN),
        Just(-f64::NAN)
    ];
    prop_oneof![
        Just(Key::Nil),
        any::<bool>().prop_map(Key::Bool),
        (-2_i64..3).prop_map(Key::Int),
        any::<i64>().prop_map(Key::Int),
        floats.clone().prop_map(Key::Float),
        "[ab]{0,2}".prop_map(Key::Text),
        (0_i64..2, floats).prop_map(|(left, right)| Key::Pair(left, right)),
    ]
}

fn aggregate() -> Aggregate {
    let item = |item| Path::from([Step::Item(item)]);
    Aggregate::new((Aggregation::Sum, item(1)), item(0))
        .and((Aggregation::Count, Path::default()))
        .and((Aggregation::Min, item(1)))
        .and((Aggregation::Max, item(1)))
        .and((Aggregation::Mean, item(1)))
        .and((Aggregation::First, item(1)))
        .and((Aggregation::Last, item(1)))
        .and((Aggregation::Quantiles, item(1)))
        .and((Aggregation::Top, item(0)))
}

fn add(aggregate: &mut Aggregate, (key, value): &Record) {
    let mut body = Vec::new();
    encode::array(&mut body, 2);
    body.extend(key.encoded());
    encode::int(&mut body, *value);
    aggregate.update(&body, 1).expect("a record");
}

/// The values of each key, by its canonical bytes.
fn values(aggregate: &Aggregate) -> HashMap<Vec<u8>, (Vec<u8>, Vec<Accumulated>)> {
    let updates = aggregate.updates(0..aggregate.touched());
    let pairs = updates.map(|update| {
        let values = update.values().cloned().collect();
        (canonical(update.key), (update.key.to_vec(), values))
    });
    pairs.collect()
}

proptest! {
    #[test]
    fn others_go_on(
        before in prop::collection::vec((keys(), any::<i64>()), 0..200),
        after in prop::collection::vec((keys(), any::<i64>()), 0..60),
        parts in 1_usize..5,
    ) {
        let mut first = aggregate();
        for record in &before {
            add(&mut first, record);
        }
        let place = |canonical: &[u8]| canonical.iter().map(|byte| *byte as usize).sum::<usize>() % parts;
        let mut others: Vec<_> = (0..parts).map(|_| aggregate()).collect();
        let (kept, values_of) = (first.keys(0).collect::<ByteStrings>(), first.values());
        let states = values_of.gather(0..values_of.len());
        let mut given = vec![Vec::new(); parts];
        for number in 0..kept.len() {
            let (key, state) = (kept.get(number), states.get(number));
            given[place(&canonical(key))].push((key, state));
            let twice = [(key, state); 2];
            prop_assert_eq!(aggregate().import(&twice, true), Err(Problem::Twice));
        }
        for (other, pairs) in others.iter_mut().zip(given) {
            other.import(&pairs, true).expect("what was exported");
        }
        let mut whole = aggregate();
        let mut sums: HashMap<Vec<u8>, i128> = HashMap::new();
        for record in before.iter().chain(&after) {
            add(&mut whole, record);
            *sums.entry(record.0.canonical()).or_default() += i128::from(record.1);
        }
        for record in &after {
            add(&mut others[place(&record.0.canonical())], record);
        }
        let found: HashMap<_, _> = others.iter().flat_map(values).collect();
        prop_assert_eq!(&found, &values(&whole));
        prop_assert_eq!(found.len(), others.iter().map(Aggregate::len).sum::<usize>());
        for (key, (_, values)) in &found {
            prop_assert_eq!(&values[0], &Accumulated::Integer(sums[key]));
        }
        prop_assert_eq!(found.len(), sums.len());
    }
}

proptest! {
    #[test]
    fn what_was_copied_stays_as_it_was(
        records in prop::collection::vec((keys(), any::<i64>()), 1..100),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut first, mut whole) = (aggregate(), aggregate());
        let cut = cut.index(records.len());
        records[..cut].iter().for_each(|record| add(&mut first, record));
        let copied = first.values();
        let known = first.len();
        records[cut..].iter().for_each(|record| add(&mut first, record));
        records[..cut].iter().for_each(|record| add(&mut whole, record));
        let expected = whole.values();
        prop_assert_eq!((copied.len(), known), (expected.len(), whole.len()));
        let encoded = |values: Values| values.gather(0..known).into_parts();
        prop_assert_eq!(encoded(copied), encoded(expected));
        prop_assert!(first.keys(0).take(known).eq(whole.keys(0)));
    }
}

#[test]
fn values_of_any_kind_are_copied() {
    let value = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        encode(&mut out);
        out
    };
    let kinds = [
        vec![
            value(&|out| encode::int(out, 1)),
            value(&|out| encode::int(out, i64::MAX)),
        ],
        vec![
            value(&|out| encode::float(out, -0.0)),
            value(&|out| encode::float(out, 0.5)),
        ],
        vec![
            value(&|out| encode::float(out, 2.0)),
            value(&|out| encode::int(out, 3)),
        ],
        vec![
            value(&|out| encode::text(out, b"to")),
            value(&|out| encode::text(out, b"")),
        ],
    ];
    for values in kinds {
        let item = |item| Path::from([Step::Item(item)]);
        let mut aggregate = Aggregate::new((Aggregation::Max, item(1)), item(0));
        for (key, value) in (0..).zip(&values) {
            let mut body = pair_of(key);
            body.extend(value);
            aggregate.update(&body, 1).expect("a record");
        }
        let copied = aggregate.values().gather(0..values.len());
        assert!(copied.iter().eq(&values), "{values:?}");
    }
}

/// The beginning of a pair of this key.
fn pair_of(key: i64) -> Vec<u8> {
    let mut body = Vec::new();
    encode::array(&mut body, 2);
    encode::int(&mut body, key);
    body
}

#[test]
fn every_value_comes_back() {
    let text = "a\u{fc}".as_bytes();
    let surrogate = [0xed, 0xa0, 0x80];
    for (aggregation, value) in [
        (Aggregation::Count, Accumulated::Integer(7)),
        (Aggregation::Sum, Accumulated::Integer(i128::MAX)),
        (Aggregation::Sum, Accumulated::Integer(i128::MIN)),
        (Aggregation::Sum, Accumulated::Integer(1 << 64)),
        (Aggregation::Sum, Accumulated::Float(-0.0)),
        (Aggregation::Min, Accumulated::Bool(true)),
        (Aggregation::Min, Accumulated::Text(text.into())),
        (Aggregation::Max, Accumulated::Text(surrogate.into())),
        (Aggregation::Max, Accumulated::Bytes(text.into())),
        (
            Aggregation::First,
            Accumulated::Encoded([0x92, 1, 0xc0].into()),
        ),
        (
            Aggregation::Mean,
            Accumulated::IntegerMean {
                count: u64::MAX,
                sum: -(1 << 100),
            },
        ),
        (
            Aggregation::Mean,
            Accumulated::FloatMean { count: 2, sum: 0.5 },
        ),
        (
            Aggregation::Last,
            Accumulated::Encoded([0x92, 1, 0xc0].into()),
        ),
        (
            Aggregation::Quantile,
            Accumulated::Numbers(vec![-0.0, f64::INFINITY, 1e300]),
        ),
        (Aggregation::Top, tally(&[&[0xc3], &[1], &[0xa1, b'a']])),
        (Aggregation::CountDistinct, tally(&[&[0xc0]])),
    ] {
        let mut encoded = Vec::new();
        value.encode(&mut encoded);
        let decoded = Accumulated::decode(aggregation, &encoded);
        assert_eq!(decoded.as_ref(), Ok(&value), "{aggregation:?}");
        for end in 0..encoded.len() {
            assert!(
                Accumulated::decode(aggregation, &encoded[..end]).is_err(),
                "{value:?} {end}"
            );
        }
    }
    assert_eq!(
        Accumulated::decode(Aggregation::Mean, &[0x93, 1, 1, 1]),
        Err(Problem::Parts(2))
    );
}

fn tally(values: &[&[u8]]) -> Accumulated {
    let mut tally = Accumulated::first(Aggregation::Top, values[0]).expect("a key");
    for value in &values[1..] {
        tally.add(Aggregation::Top, value).expect("a key");
    }
    tally
}

#[test]
fn what_came_most_often_is_shown_as_it_first_came() {
    let mut float = Vec::new();
    encode::float(&mut float, 1.0);
    let counted = tally(&[&[0xc0], &float, &[2], &[1], &[2], &[0xc3]]);
    let Accumulated::Tally(counted) = counted else {
        panic!("{counted:?}");
    };
    assert_eq!(counted.len(), 3);
    let expected = [(&float[..], 3), (&[2], 2), (&[0xc0], 1)];
    assert_eq!(counted.top(9), expected);
    assert_eq!(counted.top(1), expected[..1]);
    assert_eq!(counted.top(0), []);
    let list = Accumulated::first(Aggregation::CountDistinct, &[0x80]);
    assert!(matches!(list, Err(Problem::Untold(_))), "{list:?}");
    assert_eq!(
        Accumulated::decode(Aggregation::Top, &[0x93, 1, 1, 1]),
        Err(Problem::Parts(2))
    );
}

proptest! {
    #[test]
    fn quantiles_lie_between_the_numbers_around_them(
        mut numbers in prop::collection::vec(-1e9_f64..1e9, 1..50),
        share in 0.0_f64..=1.0,
    ) {
        let found = quantiles(&numbers, &[0.0, share, 1.0]);
        numbers.sort_by(f64::total_cmp);
        let below = ((numbers.len() - 1) as f64 * share).floor() as usize;
        let above = numbers[(below + 1).min(numbers.len() - 1)];
        prop_assert!((numbers[below]..=above).contains(&found[1]), "{found:?}");
        prop_assert_eq!((found[0], found[2]), (numbers[0], numbers[numbers.len() - 1]));
    }
}

#[test]
fn quantiles_of_what_has_no_order() {
    assert!(quantiles(&[], &[0.5])[0].is_nan());
    assert!(quantiles(&[1.0, f64::NAN], &[0.0])[0].is_nan());
    let ends = [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY];
    assert_eq!(
        quantiles(&ends, &[0.0, 1.0]),
        [f64::NEG_INFINITY, f64::INFINITY]
    );
    assert_eq!(quantiles(&ends[2..], &[0.3]), [f64::INFINITY]);
}
