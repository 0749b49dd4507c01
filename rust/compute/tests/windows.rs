//! Windows over records: each has what an aggregate of its records alone has.

use oka_compute::{
    Accumulated, Aggregate, Aggregation, Copied, Emit, Path, Problem, Step, TimePath, Unit,
    WindowAggregate, encode,
};
use oka_window::{Assigner, Windows};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A key, a value and a time.
type Record = (u8, i64, i64);

/// By the start and the end of a window, the encoded keys and their values.
type Found = BTreeMap<(i64, i64), BTreeMap<Vec<u8>, Vec<Accumulated>>>;

const FURTHER: [Aggregation; 9] = [
    Aggregation::Sum,
    Aggregation::Min,
    Aggregation::Max,
    Aggregation::Mean,
    Aggregation::First,
    Aggregation::Last,
    Aggregation::CountDistinct,
    Aggregation::Quantile,
    Aggregation::Top,
];

fn item(item: i64) -> Path {
    Path::from([Step::Item(item)])
}

fn encoded(records: &[Record]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value, time) in records {
        encode::array(&mut body, 3);
        encode::int(&mut body, i64::from(*key));
        encode::int(&mut body, *value);
        encode::int(&mut body, *time);
    }
    body
}

fn sliced((size, slide): (i64, i64), further: &[Aggregation]) -> WindowAggregate {
    let windows = Windows::new(size, slide, 0).expect("sizes");
    self::windows(windows.into(), further)
}

fn windows(assigner: Assigner, further: &[Aggregation]) -> WindowAggregate {
    let windows = WindowAggregate::new(
        (Aggregation::Count, Path::default()),
        item(0),
        TimePath::new(item(2), Some(Unit::Microseconds)),
        (assigner, 0),
        Emit::Final,
        true,
    );
    let further = further.iter();
    further.fold(windows, |windows, each| windows.and((*each, item(1))))
}

fn add(windows: &mut WindowAggregate, records: &[Record]) {
    let mut foreign = |_: &[u8]| Err(Problem::NotATime);
    let updated = windows.update(&encoded(records), records.len(), &mut foreign);
    updated.expect("records with times");
}

fn complete(windows: &mut WindowAggregate, watermark: i64, found: &mut Found) {
    windows.advance(watermark);
    loop {
        let given = windows.give(3, |window, update| {
            let keys = found.entry((window.start, window.end)).or_default();
            let values = update.values().cloned().collect();
            assert_eq!(keys.insert(update.key.to_vec(), values), None);
            Ok::<_, Problem>(())
        });
        if given.expect("integers") == 0 {
            return;
        }
    }
}

fn expected(records: &[Record], (size, slide): (i64, i64), further: &[Aggregation]) -> Found {
    let mut inside: BTreeMap<(i64, i64), Vec<Record>> = BTreeMap::new();
    for record in records {
        let last = record.2 - record.2.rem_euclid(slide);
        for start in (0..).map(|at| last - at * slide) {
            if start + size <= record.2 {
                break;
            }
            inside
                .entry((start, start + size))
                .or_default()
                .push(*record);
        }
    }
    let alone = |records: Vec<Record>| {
        let count = Aggregate::new((Aggregation::Count, Path::default()), item(0));
        let each = further.iter();
        let mut aggregate = each.fold(count, |aggregate, each| aggregate.and((*each, item(1))));
        let updated = aggregate.update(&encoded(&records), records.len());
        updated.expect("records");
        let keys = aggregate.take_updates();
        keys.map(|update| (update.key.to_vec(), update.values().cloned().collect()))
            .collect()
    };
    inside
        .into_iter()
        .map(|(window, records)| (window, alone(records)))
        .collect()
}

proptest! {
    #[test]
    fn a_window_has_what_an_aggregate_of_its_records_has(
        sizes in prop_oneof![Just((10, 10)), Just((10, 4)), Just((12, 1)), Just((7, 5))],
        sums in any::<bool>(),
        mut records in prop::collection::vec((0_u8..4, -9_i64..9, -30_i64..30), 1..60),
        cut in 0_usize..60,
    ) {
        // In order of time, as slices are: the first of a window is then its first in any case.
        records.sort_by_key(|record| record.2);
        let further = if sums { &FURTHER[..1] } else { &FURTHER[..] };
        let (mut before, mut found) = (sliced(sizes, further), Found::new());
        let (first, rest) = records.split_at(cut.min(records.len()));
        add(&mut before, first);
        if let Some(last) = first.last() {
            complete(&mut before, last.2 - 1, &mut found);
        }
        // Another goes on with it.
        let mut after = sliced(sizes, further);
        let exported = exported(&mut before);
        after.import(&lent(&exported), false).expect("what was exported");
        add(&mut after, rest);
        complete(&mut after, i64::MAX, &mut found);
        prop_assert_eq!(found, expected(&records, sizes, further));
        prop_assert_eq!((after.len(), after.late()), (0, 0));
    }
}

fn lent(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    pairs
        .iter()
        .map(|(key, kept)| (&key[..], &kept[..]))
        .collect()
}

fn exported(windows: &mut WindowAggregate) -> Kept {
    encoded_now(windows.export())
}

fn encoded_now(copied: Copied) -> Kept {
    let (keys, kept) = copied().expect("keys");
    let pairs = keys.iter().zip(kept.iter());
    pairs
        .map(|(key, kept)| (key.to_vec(), kept.to_vec()))
        .collect()
}

type Kept = Vec<(Vec<u8>, Vec<u8>)>;

fn sorted(mut pairs: Kept) -> Kept {
    pairs.sort_unstable();
    pairs
}

proptest! {
    #[test]
    fn what_was_exported_stays_as_it_was(
        kind in 0..4_usize,
        sums in any::<bool>(),
        steps in prop::collection::vec(
            (prop::collection::vec((0_u8..9, -9_i64..9, 0_i64..9), 0..20), 0_i64..9),
            1..12,
        ),
    ) {
        let assigner = [
            Windows::new(10, 10, 0).expect("sizes").into(),
            Windows::new(7, 5, 0).expect("sizes").into(),
            Assigner::sessions(4).expect("a gap"),
            Assigner::counted(3, 2).expect("sizes"),
        ][kind];
        let further = if sums { &FURTHER[..1] } else { &FURTHER[..] };
        let (mut windows, mut time, mut taken) = (windows(assigner, further), 0, Vec::new());
        for (mut records, passes) in steps {
            for record in &mut records {
                record.2 += time;
            }
            add(&mut windows, &records);
            let at_once = sorted(exported(&mut windows));
            taken.push((at_once, windows.export()));
            time += passes;
            complete(&mut windows, time, &mut Found::new());
        }
        for (at_once, later) in taken {
            prop_assert_eq!(sorted(encoded_now(later)), at_once);
        }
    }
}

#[test]
fn late_records_come_back_as_they_were() {
    let mut windows = sliced((10, 10), &[]);
    add(&mut windows, &[(1, 1, 25), (1, 1, 3)]);
    complete(&mut windows, 9, &mut Found::new());
    let late = [(1, 2, 9), (2, 3, -4)];
    add(&mut windows, &[late[0], (1, 1, 10), late[1]]);
    assert_eq!(windows.late(), 2);
    assert_eq!(windows.take_late(), (2, encoded(&late)));
    assert_eq!(windows.take_late(), (0, Vec::new()));
}

#[test]
fn a_state_of_something_else_is_refused() {
    let sliced = Windows::new(10, 10, 0).expect("sizes").into();
    let session = Assigner::sessions(10).expect("a gap");
    let counted = Assigner::counted(3, 3).expect("sizes");
    for assigner in [sliced, session, counted] {
        let mut windows = windows(assigner, &[]);
        for kept in [
            &[0xc0][..],
            &[0x90],
            &[0x92, 0xc0, 0x91, 0x92, 1, 0xa0],
            &[0x92, 0xc0, 0x91, 0x94, 9, 9, 0xc0, 1],
            &[0x92, 3, 0x91, 0x92, 4, 1],
            &[0x92, 0xc0, 0xdd],
        ] {
            let imported = windows.import(&[(&[1], kept)], false);
            assert!(imported.is_err(), "{assigner:?} {kept:?}");
        }
    }
}

#[test]
fn count_windows_of_another_size_are_refused() {
    let counted = |size, slide| windows(Assigner::counted(size, slide).expect("sizes"), &[]);
    let mut before = counted(3, 2);
    add(&mut before, &[(1, 0, 0); 5]);
    let exported = exported(&mut before);
    for (size, slide) in [(4, 2), (3, 3), (3, 1), (9, 2)] {
        let imported = counted(size, slide).import(&lent(&exported[..1]), false);
        assert_eq!(imported, Err(Problem::NoWindows), "{size} {slide}");
    }
    let mut after = counted(3, 2);
    let imported = after.import(&lent(&exported[..1]), false);
    assert_eq!((imported, self::exported(&mut after)), (Ok(()), exported));
}
