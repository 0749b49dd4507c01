//! So many keys that records are looked at ahead: nothing else changes.

use oka_compute::{
    Accumulated, Aggregate, Aggregation, Emit, Path, Problem, Step, TimePath, Unit,
    WindowAggregate, encode,
};
use oka_window::{Assigner, Windows};
use std::collections::BTreeMap;

const KEYS: i64 = 20_000;

fn item(item: i64) -> Path {
    Path::from([Step::Item(item)])
}

/// Records of a key and a time; each key comes five times.
fn records() -> Vec<(i64, i64)> {
    (0..5 * KEYS).map(|at| (at * 7_919 % KEYS, at)).collect()
}

fn body(records: &[(i64, i64)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, time) in records {
        encode::array(&mut body, 2);
        encode::int(&mut body, *key);
        encode::int(&mut body, *time);
    }
    body
}

#[test]
fn each_key_has_its_count() {
    let mut counts = Aggregate::new(Aggregation::Count, item(0), Path::default());
    for records in records().chunks(1000) {
        counts
            .update(&body(records), records.len())
            .expect("records");
    }
    assert_eq!(counts.len(), KEYS as usize);
    let five = Accumulated::Integer(5);
    assert!(counts.take_updates().all(|update| *update.value == five));
}

#[test]
fn a_record_without_a_key_is_named_wherever_it_is() {
    let mut counts = Aggregate::new(Aggregation::Count, item(0), Path::default());
    counts
        .update(&body(&records()), 5 * KEYS as usize)
        .expect("records");
    for at in [0, 1, 63, 64, 99] {
        let mut encoded = body(&records()[..at]);
        let offset = encoded.len();
        encode::int(&mut encoded, 7);
        encoded.extend(body(&records()[..100 - at]));
        let error = counts
            .update(&encoded, 101)
            .expect_err("a number has no items");
        assert_eq!((error.record, error.offset), (at, offset));
    }
    let before = body(&records()[..10]);
    let error = counts.update(&before, 11).expect_err("there are ten");
    assert_eq!(error.record, 10);
}

#[test]
fn each_window_has_its_count() {
    let sliced = Windows::new(KEYS, KEYS, 0).expect("sizes");
    let session = Assigner::sessions(2 * KEYS).expect("a gap");
    let counted = Assigner::counted(2, 2).expect("sizes");
    for (assigner, expected) in [
        (sliced.into(), BTreeMap::from([(1, 5 * KEYS)])),
        (session, BTreeMap::from([(5, KEYS)])),
        (counted, BTreeMap::from([(1, KEYS), (2, 2 * KEYS)])),
    ] {
        let mut windows = WindowAggregate::new(
            (Aggregation::Count, Path::default()),
            item(0),
            TimePath::new(item(1), Some(Unit::Microseconds)),
            (assigner, 0),
            Emit::Final,
            false,
        );
        for records in records().chunks(777) {
            let mut foreign = |_: &[u8]| Err(Problem::NotATime);
            let updated = windows.update(&body(records), records.len(), &mut foreign);
            updated.expect("records with times");
        }
        windows.advance(i64::MAX);
        let mut found: BTreeMap<i128, i64> = BTreeMap::new();
        let visit = |_, update: oka_compute::Update| {
            if let Accumulated::Integer(count) = update.value {
                *found.entry(*count).or_default() += 1;
            }
            Ok::<_, Problem>(())
        };
        windows.give(usize::MAX, visit).expect("counts");
        let found: BTreeMap<_, _> = found.into_iter().map(|(k, n)| (k as i64, n)).collect();
        assert_eq!(found, expected, "{assigner:?}");
    }
}
