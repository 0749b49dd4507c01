//! `Top`, by tables and by what sorting gives.

use super::*;
use crate::encoded::path::Step;
use proptest::prelude::*;

/// The first of numbers, or of texts, of one key; records are pairs of it and a value.
fn top(most: usize, descending: bool) -> Top {
    let path = Path::from([Step::Item(1)]);
    let by = vec![RankedBy { path, descending }];
    Top::new(
        Path::from([Step::Item(0)]).into(),
        Path::default(),
        by,
        most,
    )
}

fn record(key: u8, value: &[u8]) -> Vec<u8> {
    [&[0x92, key], value].concat()
}

fn add(top: &mut Top, records: &[Vec<u8>]) -> Result<Vec<usize>, Problem> {
    top.add([(records.len(), &records.concat()[..])])
}

fn list(records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    let start = encode::open_extension(&mut out, extension::LIST);
    encode::array(&mut out, records.len());
    out.extend_from_slice(&records.concat());
    assert!(encode::close_extension(&mut out, start));
    out
}

fn found(top: &Top, number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(top.encode(number, &mut out));
    out.split_off(2)
}

fn number(value: f64) -> Vec<u8> {
    let mut out = Vec::new();
    encode::float(&mut out, value);
    out
}

fn integer(value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    encode::int(&mut out, value);
    out
}

#[test]
fn values_are_in_the_order_of_python() {
    let big = 1_i64 << 53;
    let text = |text: &str| [&[0xa0 | text.len() as u8], text.as_bytes()].concat();
    for (ascending, descending) in [
        (
            vec![
                integer(i64::MIN),
                integer(-1),
                integer(0),
                integer(i64::MAX),
                number(f64::NAN),
            ],
            vec![
                integer(i64::MAX),
                integer(0),
                integer(-1),
                integer(i64::MIN),
                number(f64::NAN),
            ],
        ),
        (
            vec![
                number(f64::NEG_INFINITY),
                integer(big),
                integer(big + 1),
                number((big + 2) as f64),
            ],
            vec![
                number((big + 2) as f64),
                integer(big + 1),
                integer(big),
                number(f64::NEG_INFINITY),
            ],
        ),
        (
            vec![vec![0xc2], number(0.5), vec![0xc3], number(1.5)],
            vec![number(1.5), vec![0xc3], number(0.5), vec![0xc2]],
        ),
        (
            vec![
                text(""),
                text("a"),
                text("aa"),
                text("\u{7f}"),
                text("\u{80}"),
                text("\u{10ffff}"),
            ],
            vec![
                text("\u{10ffff}"),
                text("\u{80}"),
                text("\u{7f}"),
                text("aa"),
                text("a"),
                text(""),
            ],
        ),
    ] {
        for (wanted, descends) in [(&ascending, false), (&descending, true)] {
            let wanted: Vec<_> = wanted.iter().map(|value| record(7, value)).collect();
            for turned in 0..wanted.len() {
                let mut records = wanted.clone();
                records.rotate_left(turned);
                let mut top = top(9, descends);
                assert_eq!(add(&mut top, &records), Ok(vec![0]));
                assert_eq!(found(&top, 0), list(&wanted));
            }
        }
    }
}

#[test]
fn a_batch_with_a_record_without_rank_changes_nothing() {
    for (bad, problem) in [
        (record(1, &[0xc0]), Problem::NotRanked),
        (
            record(1, &[0xcf, 255, 0, 0, 0, 0, 0, 0, 0]),
            Problem::NotRanked,
        ),
        (record(1, &[0xa1, b'x']), Problem::Mixed),
        (
            vec![0x91, 1],
            Problem::NoValue(crate::PathError::NoItem { item: 1, count: 1 }),
        ),
        (
            record(0xc1, &[1]),
            Problem::Read(crate::ReadError::InvalidMarker(4)),
        ),
    ] {
        let mut top = top(2, true);
        assert_eq!(add(&mut top, &[record(1, &[5])]), Ok(vec![0]));
        assert_eq!(add(&mut top, &[record(1, &[6]), bad]), Err(problem));
        assert_eq!(found(&top, 0), list(&[record(1, &[5])]));
        assert_eq!(add(&mut top, &[record(1, &[7])]), Ok(vec![0]));
        assert_eq!(found(&top, 0), list(&[record(1, &[7]), record(1, &[5])]));
    }
    // The kind of a batch that was refused does not bind the next one.
    let mut top = top(2, true);
    assert_eq!(
        add(&mut top, &[record(1, &[0xa1, b'x']), record(1, &[0xc0])]),
        Err(Problem::NotRanked)
    );
    assert_eq!(add(&mut top, &[record(1, &[7])]), Ok(vec![0]));
}

proptest! {
    /// Whatever the batches, and if it goes on in another one, these are what sorting all records of a key gives.
    #[test]
    fn it_has_what_sorting_gives(
        batches in prop::collection::vec(prop::collection::vec((0..3_u8, -3..4_i64), 0..6), 0..8),
        most in 1..5_usize,
        descending: bool,
        moves in prop::collection::vec(any::<bool>(), 8),
    ) {
        let mut at_work = top(most, descending);
        let mut so_far: Vec<(u8, i64)> = Vec::new();
        for (batch, moves) in batches.iter().zip(moves) {
            if moves {
                let (keys, values) = at_work.copied()()?;
                at_work = top(most, descending);
                for (key, value) in keys.iter().zip(values.iter()) {
                    prop_assert!(at_work.restore(key, value)?);
                }
            }
            let records: Vec<_> = batch.iter().map(|(key, value)| record(*key, &integer(*value))).collect();
            let before = so_far.clone();
            so_far.extend(batch);
            let changed = add(&mut at_work, &records)?;
            for key in 0..3_u8 {
                let first = |of: &[(u8, i64)]| {
                    let mut own: Vec<_> = of.iter().enumerate().filter(|(_, (other, _))| *other == key).collect();
                    own.sort_by_key(|(_, (_, value))| if descending { -value } else { *value });
                    own.truncate(most);
                    own.into_iter().map(|(at, (_, value))| (at, record(key, &integer(*value)))).collect::<Vec<_>>()
                };
                let (before, after) = (first(&before), first(&so_far));
                let number = (0..at_work.len()).find(|number| at_work.numbers.get(*number) == [key]);
                let Some(number) = number else {
                    prop_assert!(after.is_empty());
                    continue;
                };
                // A record may have come in between and be behind the first again.
                prop_assert!(before == after || changed.contains(&number));
                let after: Vec<_> = after.into_iter().map(|(_, record)| record).collect();
                prop_assert_eq!(found(&at_work, number), list(&after));
            }
        }
    }
}
