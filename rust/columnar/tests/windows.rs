//! Windows over columns: rows wherever their slices are, against counts in plain Rust.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Int64Array, RecordBatch, StringArray};
use oka_columnar::{
    Aggregate, AggregateError, Columns, Decoder, Encoder, Selector, WindowAggregate,
};
use oka_compute::{
    Accumulated, Aggregation, Copied, Emit, Path, Problem, Step, TimePath, Unit, Update, encode,
};
use oka_window::{Assigner, Window, Windows};
use proptest::prelude::*;

fn name(name: &str) -> Selector {
    Selector::Name(name.to_owned())
}

fn windows((size, slide): (i64, i64), lateness: u64) -> WindowAggregate {
    let aggregate = Aggregate::by(vec![name("key")])
        .compute("count", Aggregation::Count, None)
        .compute("sum", Aggregation::Sum, Some(name("value")));
    let windows = Windows::new(size, slide, 0).unwrap();
    let time = Some((name("time"), Unit::Microseconds));
    WindowAggregate::new(aggregate, time, (windows, lateness), Emit::Final, true)
}

/// What a channel would deliver of rows of a key, a value and a time.
fn columns(rows: &[(u8, i64, i64)]) -> Columns {
    let keys: StringArray = rows.iter().map(|row| Some(row.0.to_string())).collect();
    let values: Int64Array = rows.iter().map(|row| Some(row.1)).collect();
    let times: Int64Array = rows.iter().map(|row| Some(row.2)).collect();
    let batch = RecordBatch::try_from_iter([
        ("key", Arc::new(keys) as _),
        ("value", Arc::new(values) as _),
        ("time", Arc::new(times) as _),
    ]);
    let (mut body, mut runs) = (Vec::new(), Vec::new());
    Encoder::default()
        .append(&batch.unwrap(), &mut body)
        .unwrap();
    let accepted = Decoder::default().accept(body.into(), rows.len(), &mut runs);
    accepted.unwrap();
    runs.remove(0)
}

type Row = (i64, i64, String, i64, i64);

/// Start and end, key, count and sum.
fn shown(batch: &RecordBatch) -> Vec<Row> {
    let number = |at: usize| {
        batch
            .column(at)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    };
    let keys = batch.column(0).as_dictionary::<Int32Type>();
    let keys = keys.downcast_dict::<StringArray>().unwrap();
    let keys: Vec<_> = keys
        .into_iter()
        .map(|key| key.unwrap().to_owned())
        .collect();
    let (counts, sums, starts, ends) = (number(1), number(2), number(3), number(4));
    let row = |at: usize| (starts[at], ends[at], keys[at].clone(), counts[at], sums[at]);
    (0..batch.num_rows()).map(row).collect()
}

/// All that is complete, in pieces of at most two rows.
fn complete(windows: &mut WindowAggregate, watermark: i64) -> Vec<Row> {
    windows.advance(watermark);
    let mut rows = Vec::new();
    while let Some(batch) = windows.give(2).unwrap() {
        assert!((1..=2).contains(&batch.num_rows()));
        rows.extend(shown(&batch));
    }
    rows
}

/// Keys with what is kept of them.
fn encoded(copied: Copied<AggregateError>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (keys, kept) = copied().unwrap();
    let pairs = keys.iter().zip(kept.iter());
    pairs
        .map(|(key, kept)| (key.to_vec(), kept.to_vec()))
        .collect()
}

proptest! {
    #[test]
    fn rows_come_into_their_windows(
        sizes in prop_oneof![Just((10, 10)), Just((10, 4)), Just((10, 1))],
        batches in prop::collection::vec(
            prop::collection::vec((0_u8..4, -9_i64..9, -30_i64..30), 1..20),
            1..6,
        ),
        cut in 0_usize..6,
    ) {
        let (mut before, mut expected) = (windows(sizes, 0), BTreeMap::new());
        let cut = cut.min(batches.len());
        for rows in &batches[..cut] {
            before.add(&columns(rows)).unwrap();
        }
        // Others go on with it.
        let (layout, copied) = before.export().unwrap();
        for rows in &batches[cut..] {
            before.add(&columns(rows)).unwrap(); // it is of its time, whoever encodes it when
        }
        let entries = encoded(copied);
        let mut after = windows(sizes, 0);
        if !layout.is_empty() {
            let entries: Vec<_> = entries.iter().map(|(key, it)| (&key[..], &it[..])).collect();
            after.import(&layout, &entries, false).unwrap();
        }
        for rows in &batches[cut..] {
            after.add(&columns(rows)).unwrap();
        }
        for (key, value, time) in batches.iter().flatten() {
            let (size, slide) = sizes;
            let last = time - time.rem_euclid(slide);
            for start in (0..).map(|at| last - at * slide).take_while(|start| start + size > *time) {
                let found = expected.entry((start, start + size, key.to_string())).or_insert((0, 0));
                found.0 += 1;
                found.1 += value;
            }
        }
        let mut found = complete(&mut after, 5);
        prop_assert!(found.iter().all(|row| row.1 <= 6));
        found.extend(complete(&mut after, i64::MAX));
        prop_assert!(found.is_sorted_by_key(|row| row.1));
        found.sort();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|((start, end, key), (count, sum))| (start, end, key, count, sum))
            .collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!((after.len(), after.late()), (0, 0));
    }
}

#[test]
fn late_rows_are_given_back_or_change_what_was_given() {
    let mut windows = windows((10, 10), 5);
    windows.add(&columns(&[(1, 1, 3), (1, 2, 14)])).unwrap();
    assert_eq!(complete(&mut windows, 9), [(0, 10, "1".to_owned(), 1, 1)]);
    windows
        .add(&columns(&[(1, 5, 4), (2, 6, 5), (1, 8, 15)]))
        .unwrap();
    assert_eq!(windows.late(), 0);
    let again = windows.changes().unwrap().unwrap();
    assert_eq!(
        shown(&again),
        [(0, 10, "1".to_owned(), 2, 6), (0, 10, "2".to_owned(), 1, 6)]
    );
    assert!(windows.changes().unwrap().is_none());
    assert_eq!(complete(&mut windows, 14), []);
    windows
        .add(&columns(&[(1, 5, 4), (2, 6, 12), (3, 7, 9)]))
        .unwrap();
    assert_eq!(windows.late(), 2);
    let late = windows.take_late();
    let times = late[0].column(2).as_primitive::<Int64Type>();
    assert_eq!((late.len(), &times.values()[..]), (1, &[4, 9][..]));
    assert!(windows.take_late().is_empty());
}

/// What windows of the same rows as records give: start, end, key, count and sum.
fn of_records(windows: &mut oka_compute::WindowAggregate, rows: &[(u8, i64, i64)]) {
    let mut body = Vec::new();
    for (key, value, time) in rows {
        encode::array(&mut body, 3);
        encode::text(&mut body, key.to_string().as_bytes());
        encode::int(&mut body, *value);
        encode::int(&mut body, *time);
    }
    let mut foreign = |_: &[u8]| Err(Problem::NotATime);
    windows.update(&body, rows.len(), &mut foreign).unwrap();
}

fn number(value: &Accumulated) -> i128 {
    match value {
        Accumulated::Integer(number) => *number,
        other => panic!("{other:?}"),
    }
}

fn row(window: Window, update: &Update) -> Row {
    let key = String::from_utf8_lossy(&update.key[1..]).into_owned();
    let numbers: Vec<_> = update.values().map(number).collect();
    let (count, sum) = (numbers[0] as i64, numbers[1] as i64);
    (window.start, window.end, key, count, sum)
}

fn given(windows: &mut oka_compute::WindowAggregate, watermark: i64) -> Vec<Row> {
    windows.advance(watermark);
    let mut rows = Vec::new();
    let push = |window: Window, update: Update| {
        rows.push(row(window, &update));
        Ok::<_, Problem>(())
    };
    windows.give(usize::MAX, push).unwrap();
    rows
}

proptest! {
    #[test]
    fn columns_give_what_records_give(
        assigner in prop_oneof![
            (1_i64..20).prop_map(|gap| Assigner::sessions(gap).unwrap()),
            (1_i64..6, 1_i64..6).prop_map(|(one, other)| {
                Assigner::counted(one.max(other), one.min(other)).unwrap()
            }),
        ],
        lateness in prop_oneof![Just(0_u64), 1_u64..30],
        updates in any::<bool>(),
        batches in prop::collection::vec(
            (prop::collection::vec((0_u8..4, -9_i64..9, -50_i64..50), 1..12), -60_i64..60), 1..8,
        ),
        cut in 0_usize..8,
    ) {
        let emit = if updates { Emit::Updates } else { Emit::Final };
        let columnar = || {
            let aggregate = Aggregate::by(vec![name("key")])
                .compute("count", Aggregation::Count, None)
                .compute("sum", Aggregation::Sum, Some(name("value")));
            let is_timed = !matches!(assigner, Assigner::Counted { .. });
            let time = is_timed.then(|| (name("time"), Unit::Microseconds));
            WindowAggregate::new(aggregate, time, (assigner, lateness), emit, true)
        };
        let item = |item| Path::from([Step::Item(item)]);
        let mut records = oka_compute::WindowAggregate::new(
            (Aggregation::Count, Path::default()),
            item(0),
            TimePath::new(item(2), Some(Unit::Microseconds)),
            (assigner, lateness),
            emit,
            true,
        ).and((Aggregation::Sum, item(1)));
        let (mut windows, mut last, mut late) = (columnar(), i64::MIN, 0);
        for (at, (rows, watermark)) in batches.iter().enumerate() {
            if at == cut {
                // Others go on with it.
                let (layout, copied) = windows.export().unwrap();
                late = windows.late();
                // It is of its time, whoever encodes it when.
                for (rows, watermark) in &batches[at..] {
                    windows.add(&columns(rows)).unwrap();
                    windows.advance(last.max(*watermark));
                    while windows.give(3).unwrap().is_some() {}
                }
                let entries = encoded(copied);
                windows = columnar();
                if !layout.is_empty() {
                    let pairs = entries.iter().map(|(key, it)| (&key[..], &it[..]));
                    windows.import(&layout, &pairs.collect::<Vec<_>>(), false).unwrap();
                }
                windows.go_on_from(last);
                let mut again = encoded(windows.export().unwrap().1);
                let mut entries = entries;
                again.sort();
                entries.sort();
                prop_assert_eq!(again, entries);
            }
            windows.add(&columns(rows)).unwrap();
            of_records(&mut records, rows);
            let changes = windows.changes().unwrap();
            let found = changes.as_ref().map(shown).unwrap_or_default();
            let mut expected = Vec::new();
            records.changes(|window, update| {
                expected.push(row(window, &update));
                Ok::<_, Problem>(())
            }).unwrap();
            let (mut found, mut expected) = (found, expected);
            if at >= cut {
                found.sort(); // imported keys are in another order
                expected.sort();
            }
            prop_assert_eq!(found, expected);
            last = last.max(*watermark);
            let (mut found, mut expected) = (complete(&mut windows, last), given(&mut records, last));
            if at >= cut {
                found.sort();
                expected.sort();
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(late + windows.late(), records.late());
        }
        let (mut found, mut expected) = (complete(&mut windows, i64::MAX), given(&mut records, i64::MAX));
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!((windows.len(), records.len()), (0, 0));
    }
}
