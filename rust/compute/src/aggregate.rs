//! Aggregates per key over encoded records: count, sum, min, max, mean, first, or several at once.
//!
//! Results are what the same loop in Python gives: integers are exact, an integer and a float give
//! a float, minimum and maximum keep the first of equal values. Updates are taken per batch: each
//! key that the batch touched, once, with its value after the whole batch.

use crate::encoded::encode;
use crate::encoded::fields::{Fields, KeyPath, NO_KEY};
use crate::encoded::value::Reader;
use crate::groups::Groups;
use crate::groups::copied::Values;
use crate::groups::results::Update;
use crate::groups::wanted::{Term, Wanted};
use crate::keys::key;
use crate::keys::short::hash;
use crate::problem::{AggregateError, Problem};
use crate::windows::SliceTable;
use std::ops::Range;

/// The values of all keys so far.
#[derive(Debug)]
pub struct Aggregate {
    fields: Fields,
    wanted: Wanted,
    groups: Groups,
    scratch: Vec<u8>,
}

impl Aggregate {
    /// `key` leads from the record to its key.
    pub fn new(first: impl Into<Term>, key: impl Into<KeyPath>) -> Self {
        let first = first.into();
        let wanted = Wanted::new(&first);
        Self {
            fields: Fields::of_term(&first, key.into()),
            groups: Groups::new(&wanted),
            wanted,
            scratch: Vec::new(),
        }
    }

    /// Computes this, too, of the same records by the same keys; called before the first record.
    #[must_use]
    pub fn and(mut self, further: impl Into<Term>) -> Self {
        self.wanted.further.push(further.into());
        self.groups = Groups::new(&self.wanted);
        self
    }

    /// Has a record that fails leave everything as it was; called before the first record.
    #[must_use]
    pub fn careful(mut self, careful: bool) -> Self {
        self.wanted.careful = careful;
        self
    }

    /// Number of different keys so far.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes in the `records` encoded records of `body`, up to one that fails.
    pub fn update(&mut self, body: &[u8], records: usize) -> Result<(), AggregateError> {
        let mut reader = Reader::new(body);
        for record in 0..records {
            let offset = reader.position();
            self.add(&mut reader).map_err(|problem| AggregateError {
                record,
                offset,
                problem,
            })?;
        }
        Ok(())
    }

    /// Number of keys touched since the last call of `take_updates`.
    pub fn touched(&self) -> usize {
        self.groups.touched()
    }

    /// Some of the keys touched since the last call of `take_updates`, in the order in which they
    /// were touched first; all keys where it was never called.
    #[inline]
    pub fn updates(&self, some: Range<usize>) -> impl Iterator<Item = Update<'_>> {
        self.groups.updates(some)
    }

    /// All of them, for the last time.
    #[inline]
    pub fn take_updates(&mut self) -> impl Iterator<Item = Update<'_>> {
        self.groups.take_updates()
    }

    /// The keys from this number on, as they were first encoded, in the order in which they appeared.
    pub fn keys(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        self.groups.keys(first)
    }

    /// What all keys have come to, in that order: one value each, or an array of several.
    pub fn values(&self) -> Values {
        self.groups.values()
    }

    /// Goes on with keys that others have exported, as if their records had come here; called before
    /// the first record. Unless they are to be `touched`, all have been told before.
    pub fn import(&mut self, entries: &[(&[u8], &[u8])], touched: bool) -> Result<(), Problem> {
        let Self {
            wanted,
            groups,
            scratch,
            ..
        } = self;
        *groups = Groups::with_room(wanted, entries.len());
        let mut hashes = Vec::with_capacity(AHEAD);
        for some in entries.chunks(AHEAD) {
            hashes.clear();
            for (key, _) in some {
                hashes.push(hash(key::canonical(key, scratch)?));
            }
            groups.read_ahead(&hashes);
            for (key, values) in some {
                let canonical = key::canonical(key, scratch)?;
                groups.import_key(wanted, (key, canonical), values, touched)?;
            }
        }
        Ok(())
    }

    /// Without a key, takes in so many records, where each aggregation is a count of all.
    pub fn count(&mut self, records: usize) -> Result<(), Problem> {
        if records == 0 {
            return Ok(());
        }
        let kinds = self.wanted.all().count();
        let mut values = Vec::new();
        if kinds > 1 {
            encode::array(&mut values, kinds);
        }
        (0..kinds).for_each(|_| encode::unsigned(&mut values, records as u64));
        self.merge_part(&values)
    }

    /// Without a key, what all records so far have come to, encoded; `None` if there were none.
    pub fn part(&self) -> Option<Vec<u8>> {
        let values = (!self.is_empty()).then(|| self.values().gather(0..1));
        values.map(|values| values.get(0).to_vec())
    }

    /// Forgets all records so far.
    pub fn clear(&mut self) {
        self.groups = Groups::small(&self.wanted);
    }

    /// Without a key, takes in the [`Self::part`] of another, behind what is here.
    pub fn merge_part(&mut self, values: &[u8]) -> Result<(), Problem> {
        let Self { wanted, groups, .. } = self;
        groups.merge_key(wanted, (NO_KEY, NO_KEY), values)
    }

    /// Reads one record and takes it in.
    #[inline]
    fn add(&mut self, reader: &mut Reader) -> Result<(), Problem> {
        let start = reader.position();
        let (key, value) = self.fields.of(reader)?;
        let canonical = key::canonical(key, &mut self.scratch)?;
        let record = reader.since(start);
        let Self { wanted, groups, .. } = self;
        if wanted.careful {
            groups.check(wanted, canonical, value, record)?;
        }
        groups.add(wanted, (key, canonical), value, record)
    }
}

/// So many keys look for their places together: else each would wait for memory by itself.
const AHEAD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accumulated, Aggregation, Path, Step};

    fn pair(out: &mut Vec<u8>, key: &str, value: impl Fn(&mut Vec<u8>)) {
        encode::array(out, 2);
        encode::text(out, key.as_bytes());
        value(out);
    }

    fn over_pairs(aggregation: Aggregation) -> Aggregate {
        let item = |item| Path::from([Step::Item(item)]);
        Aggregate::new((aggregation, item(1)), item(0))
    }

    fn updates(aggregate: &mut Aggregate) -> Vec<(String, Accumulated)> {
        let text = |key| String::from_utf8_lossy(key).into_owned();
        aggregate
            .take_updates()
            .map(|update| (text(&update.key[1..]), update.value.clone()))
            .collect()
    }

    #[test]
    fn a_batch_gives_each_key_once_with_its_last_value() {
        let mut aggregate = over_pairs(Aggregation::Sum);
        let mut body = Vec::new();
        for (key, value) in [("a", 1), ("b", 2), ("a", 3)] {
            pair(&mut body, key, |out| encode::int(out, value));
        }
        aggregate.update(&body, 3).expect("three pairs");
        let integer = Accumulated::Integer;
        assert_eq!(
            updates(&mut aggregate),
            [("a".to_owned(), integer(4)), ("b".to_owned(), integer(2))]
        );
        body.clear();
        pair(&mut body, "b", |out| encode::float(out, 0.5));
        aggregate.update(&body, 1).expect("a pair");
        assert_eq!(
            updates(&mut aggregate),
            [("b".to_owned(), Accumulated::Float(2.5))]
        );
        assert_eq!(updates(&mut aggregate), []);
    }

    #[test]
    fn the_other_aggregations() {
        let mut body = Vec::new();
        for value in [3.5, 7.0, -2.0] {
            pair(&mut body, "a", |out| encode::float(out, value));
        }
        pair(&mut body, "a", |out| encode::int(out, 7));
        for (aggregation, expected) in [
            (Aggregation::Count, Accumulated::Integer(4)),
            (Aggregation::Min, Accumulated::Float(-2.0)),
            (Aggregation::Max, Accumulated::Float(7.0)),
        ] {
            let mut aggregate = over_pairs(aggregation);
            aggregate.update(&body, 4).expect("four pairs");
            assert_eq!(updates(&mut aggregate), [("a".to_owned(), expected)]);
        }
        let mut first = over_pairs(Aggregation::First);
        first.update(&body, 4).expect("four pairs");
        let mut encoded = Vec::new();
        encode::float(&mut encoded, 3.5);
        let expected = Accumulated::Encoded(encoded.into());
        assert_eq!(updates(&mut first), [("a".to_owned(), expected)]);
    }

    #[test]
    fn several_aggregations_see_the_same_records() {
        let item = |item| Path::from([Step::Item(item)]);
        let mut aggregate = Aggregate::new((Aggregation::First, item(1)), item(0))
            .and((Aggregation::Count, Path::default()))
            .and((Aggregation::Sum, item(1)))
            .and((Aggregation::Mean, item(-1)));
        let mut body = Vec::new();
        for (key, value) in [("a", 1), ("b", 2), ("a", 4)] {
            pair(&mut body, key, |out| encode::int(out, value));
        }
        aggregate.update(&body, 3).expect("three pairs");
        let (integer, first) = (Accumulated::Integer, |number| {
            Accumulated::Encoded([number].into())
        });
        let mean = |count, sum| Accumulated::IntegerMean { count, sum };
        let expected = [
            vec![first(1), integer(2), integer(5), mean(2, 5)],
            vec![first(2), integer(1), integer(2), mean(1, 2)],
        ];
        let values = |update: Update<'_>| update.values().cloned().collect::<Vec<_>>();
        assert_eq!((aggregate.len(), aggregate.touched()), (2, 2));
        assert!(
            aggregate
                .updates(1..2)
                .map(values)
                .eq(expected[1..].iter().cloned())
        );
        assert!(aggregate.take_updates().map(values).eq(expected));
        body.clear();
        pair(&mut body, "a", |out| encode::int(out, 7));
        aggregate.update(&body, 1).expect("a pair");
        // The first value stays, and the key was touched all the same.
        assert!(aggregate.take_updates().map(values).eq([vec![
            first(1),
            integer(3),
            integer(12),
            mean(3, 12)
        ]]));
    }

    #[test]
    fn parts_without_a_key_are_merged() {
        let item = Path::from([Step::Item(1)]);
        let new = || {
            Aggregate::new(
                (Aggregation::Variance, item.clone()),
                KeyPath::Tuple(vec![]),
            )
        };
        let (mut part, mut whole) = (new(), new());
        let variance = |whole: &mut Aggregate| match whole.take_updates().next()?.value {
            Accumulated::Moments(moments) => moments.variance(0.0),
            _ => None,
        };
        for (values, expected) in [([1, 2], 0.25), ([3, 6], 3.5)] {
            let mut body = Vec::new();
            for value in values {
                pair(&mut body, "a", |out| encode::int(out, value));
            }
            part.update(&body, 2).expect("two pairs");
            let values = part.part().expect("two records");
            whole.merge_part(&values).expect("of the same kind");
            part.clear();
            assert_eq!(part.part(), None);
            assert_eq!((whole.len(), variance(&mut whole)), (1, Some(expected)));
        }
        let mut body = Vec::new();
        pair(&mut body, "a", |out| encode::int(out, 4));
        whole.update(&body, 1).expect("a pair");
        assert_eq!(whole.len(), 1);
    }

    #[test]
    fn records_are_counted_without_being_read() {
        let counts = || {
            Aggregate::new(
                (Aggregation::Count, Path::default()),
                KeyPath::Tuple(vec![]),
            )
        };
        for mut aggregate in [
            counts(),
            counts().and((Aggregation::Count, Path::default())),
        ] {
            aggregate.count(300).expect("counts");
            aggregate.update(&[1, 2], 2).expect("two records");
            let update = aggregate.take_updates().next().expect("a value");
            let are_all = update
                .values()
                .all(|each| *each == Accumulated::Integer(302));
            assert!(are_all, "{update:?}");
        }
    }

    #[test]
    fn a_mean_becomes_a_float_with_a_float() {
        let mut aggregate = over_pairs(Aggregation::Mean);
        let mut body = Vec::new();
        pair(&mut body, "a", |out| encode::int(out, 1));
        pair(&mut body, "a", |out| encode::float(out, 0.5));
        aggregate.update(&body, 2).expect("two pairs");
        let mean = Accumulated::FloatMean { count: 2, sum: 1.5 };
        assert_eq!(updates(&mut aggregate), [("a".to_owned(), mean)]);
    }

    #[test]
    fn several_values_make_a_key() {
        let item = |item| Path::from([Step::Item(item)]);
        let key = KeyPath::Tuple(vec![item(1), item(0)]);
        let mut aggregate = Aggregate::new((Aggregation::Count, Path::default()), key);
        let mut body = Vec::new();
        pair(&mut body, "a", |out| encode::int(out, 1));
        pair(&mut body, "a", |out| encode::float(out, 1.0));
        pair(&mut body, "b", |out| encode::int(out, 1));
        aggregate.update(&body, 3).expect("three pairs");
        let mut found = aggregate.take_updates();
        let first = found.next().expect("a key");
        assert_eq!(first.key, [0x92, 1, 0xa1, b'a']);
        assert_eq!(*first.value, Accumulated::Integer(2));
        assert_eq!(found.next().expect("a key").key, [0x92, 1, 0xa1, b'b']);
        drop(found);
        let error = aggregate
            .update(&[0x91, 1], 1)
            .expect_err("item 1 is missing");
        assert_eq!(
            error.to_string(),
            "record 0: its key is item 1 of a sequence of 1"
        );
    }

    #[test]
    fn without_a_key_values_are_found_as_with_one() {
        let item = |item| Path::from([Step::Item(item)]);
        let over = |key: KeyPath| Aggregate::new((Aggregation::Sum, item(1)), key);
        let mut body = Vec::new();
        pair(&mut body, "a", |out| encode::int(out, 1));
        pair(&mut body, "b", |out| encode::float(out, 0.5));
        let mut aggregate = over(KeyPath::Tuple(Vec::new()));
        aggregate.update(&body, 2).expect("two pairs");
        let found = aggregate
            .take_updates()
            .map(|all| (all.key.to_vec(), all.value.clone()));
        let sum = Accumulated::Float(1.5);
        assert_eq!(found.collect::<Vec<_>>(), [(NO_KEY.to_vec(), sum)]);

        encode::array(&mut body, 1);
        encode::int(&mut body, 7);
        let mut no_tuple = Vec::new();
        encode::int(&mut no_tuple, 7);
        for (body, records, of) in [
            (body, 3, "a sequence of 1"),
            (no_tuple, 1, "something that"),
        ] {
            let error = over(KeyPath::Tuple(Vec::new())).update(&body, records);
            let told = error.expect_err("it has no item 1").to_string();
            assert!(
                told.contains("its value is item 1 of") && told.contains(of),
                "{told}"
            );
        }
    }

    #[test]
    fn a_record_that_does_not_fit_is_named() {
        let mut body = Vec::new();
        pair(&mut body, "a", |out| encode::int(out, 1));
        let offset = body.len();
        encode::text(&mut body, b"no pair");
        let error = over_pairs(Aggregation::Count)
            .update(&body, 2)
            .expect_err("the second record is no tuple");
        assert_eq!((error.record, error.offset), (1, offset));
        let message = "record 1: its key is item 0 of something that is no tuple and no list";
        assert_eq!(error.to_string(), message);

        let mut body = Vec::new();
        pair(&mut body, "a", |out| encode::int(out, 1));
        pair(&mut body, "a", |out| encode::text(out, b"x"));
        for (aggregation, problem) in [
            (Aggregation::Sum, Problem::NotANumber),
            (Aggregation::Max, Problem::Mixed),
        ] {
            let error = over_pairs(aggregation).update(&body, 2);
            assert_eq!(error.expect_err("a text is no number").problem, problem);
        }
    }
}
