//! Aggregates per key over encoded records: count, sum, min, max, mean, first, or several at once.
//!
//! Results are what the same loop in Python gives: integers are exact, an integer and a float give
//! a float, minimum and maximum keep the first of equal values. Updates are taken per batch: each
//! key that the batch touched, once, with its value after the whole batch.

use crate::accumulator::{Accumulated, Aggregation, parts};
use crate::encode;
use crate::fields::{Fields, KeyPath};
use crate::key;
use crate::path::Path;
use crate::problem::{AggregateError, Problem};
use crate::table::KeyTable;
use crate::value::Reader;
use std::iter;
use std::ops::Range;

/// A key with its values now.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Dense number of the key, the same in every update.
    pub number: usize,
    /// The key as it was first encoded.
    pub key: &'a [u8],
    /// The value of the first aggregation.
    pub value: &'a Accumulated,
    further: &'a [Further],
}

impl<'a> Update<'a> {
    /// One value for each aggregation.
    pub fn values(&self) -> impl Iterator<Item = &'a Accumulated> {
        let number = self.number;
        let further = self.further.iter().map(move |each| &each.values[number]);
        iter::once(self.value).chain(further)
    }
}

/// The values of all keys so far.
#[derive(Debug)]
pub struct Aggregate {
    aggregation: Aggregation,
    fields: Fields,
    /// Aggregations beside the first, over the same records and keys.
    further: Vec<Further>,
    table: KeyTable,
    entries: Vec<Entry>,
    touched: Vec<usize>,
    /// Counts the calls of `take_updates`; an entry with this number is in `touched`.
    round: u64,
    scratch: Vec<u8>,
}

impl Aggregate {
    /// `key` and `value` lead from the record to its key and its value; a count needs no value.
    pub fn new(aggregation: Aggregation, key: impl Into<KeyPath>, value: Path) -> Self {
        Self {
            aggregation,
            fields: Fields::new(aggregation, key.into(), value),
            further: Vec::new(),
            table: KeyTable::new(),
            entries: Vec::new(),
            touched: Vec::new(),
            round: 1,
            scratch: Vec::new(),
        }
    }

    /// Computes this, too, of the same records by the same keys; called before the first record.
    #[must_use]
    pub fn and(mut self, aggregation: Aggregation, value: Path) -> Self {
        self.further.push(Further {
            aggregation,
            value,
            values: Vec::new(),
        });
        self
    }

    /// Number of different keys so far.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes in the `records` encoded records of `body`.
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
        self.touched.len()
    }

    /// Some of the keys touched since the last call of `take_updates`, in the order in which they
    /// were touched first; all keys where it was never called.
    pub fn updates(&self, some: Range<usize>) -> impl Iterator<Item = Update<'_>> {
        let (entries, table, further) = (&self.entries, &self.table, &self.further);
        let numbers = self.touched[some].iter();
        numbers.map(|number| update(*number, entries, table, further))
    }

    /// All of them, for the last time.
    pub fn take_updates(&mut self) -> impl Iterator<Item = Update<'_>> {
        self.round += 1;
        let (entries, table, further) = (&self.entries, &self.table, &self.further);
        let numbers = self.touched.drain(..);
        numbers.map(|number| update(number, entries, table, further))
    }

    /// Each key, as it was first encoded, and its values: one, or an array of several.
    pub fn export(&self) -> impl Iterator<Item = (&[u8], Vec<u8>)> {
        (0..self.entries.len()).map(|number| {
            let found = update(number, &self.entries, &self.table, &self.further);
            let mut encoded = Vec::new();
            if !self.further.is_empty() {
                encode::array(&mut encoded, self.further.len() + 1);
            }
            found.values().for_each(|value| value.encode(&mut encoded));
            (found.key, encoded)
        })
    }

    /// Goes on with a key that another has exported, as if its records had come here.
    pub fn import(&mut self, key: &[u8], values: &[u8]) -> Result<(), Problem> {
        let values = parts(values, self.further.len() + 1)?;
        let canonical = key::canonical(key, &mut self.scratch)?;
        let value = Accumulated::decode(self.aggregation, values[0])?;
        let further = self.further.iter().zip(&values[1..]);
        let further = further.map(|(each, value)| Accumulated::decode(each.aggregation, value));
        let further = further.collect::<Result<Vec<_>, _>>()?;
        let number = self.table.number_by_call(canonical);
        if number < self.entries.len() {
            return Err(Problem::Twice);
        }
        let differs = canonical != key;
        self.entries.push(Entry {
            round: self.round,
            key: differs.then(|| key.into()),
            value,
        });
        self.touched.push(number);
        let values = self.further.iter_mut().zip(further);
        values.for_each(|(each, value)| each.values.push(value));
        Ok(())
    }

    /// Reads one record and takes it in.
    #[inline]
    fn add(&mut self, reader: &mut Reader) -> Result<(), Problem> {
        let start = reader.position();
        let (key, value) = self.fields.of(reader)?;
        let canonical = key::canonical(key, &mut self.scratch)?;
        let number = self.table.number(canonical);
        if number == self.entries.len() {
            let first = Accumulated::first(self.aggregation, value)?;
            let differs = canonical != key;
            self.entries.push(Entry {
                round: 0,
                key: differs.then(|| key.into()),
                value: first,
            });
        } else {
            let changed = self.entries[number].value.add(self.aggregation, value)?;
            if !changed && self.further.is_empty() {
                return Ok(());
            }
        }
        let entry = &mut self.entries[number];
        if entry.round != self.round {
            entry.round = self.round;
            self.touched.push(number);
        }
        let mut further = self.further.iter_mut();
        further.try_for_each(|each| each.add(number, reader.since(start)))
    }
}

#[derive(Debug)]
struct Entry {
    round: u64,
    /// The key as it was first encoded, where that differs from the canonical bytes in the table.
    key: Option<Box<[u8]>>,
    value: Accumulated,
}

/// An aggregation beside the first one.
#[derive(Debug)]
struct Further {
    aggregation: Aggregation,
    value: Path,
    /// By the number of the key.
    values: Vec<Accumulated>,
}

impl Further {
    fn add(&mut self, number: usize, record: &[u8]) -> Result<(), Problem> {
        let value = match self.aggregation {
            Aggregation::Count => record,
            _ => self.value.find(record).map_err(Problem::NoValue)?,
        };
        match self.values.get_mut(number) {
            Some(so_far) => so_far.add(self.aggregation, value).map(drop),
            None => {
                Accumulated::first(self.aggregation, value).map(|first| self.values.push(first))
            }
        }
    }
}

fn update<'a>(
    number: usize,
    entries: &'a [Entry],
    table: &'a KeyTable,
    further: &'a [Further],
) -> Update<'a> {
    let entry = &entries[number];
    Update {
        number,
        key: entry.key.as_deref().unwrap_or_else(|| table.key(number)),
        value: &entry.value,
        further,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;

    fn pair(out: &mut Vec<u8>, key: &str, value: impl Fn(&mut Vec<u8>)) {
        encode::array(out, 2);
        encode::text(out, key.as_bytes());
        value(out);
    }

    fn over_pairs(aggregation: Aggregation) -> Aggregate {
        let item = |item| Path::from([Step::Item(item)]);
        Aggregate::new(aggregation, item(0), item(1))
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
        let mut aggregate = Aggregate::new(Aggregation::First, item(0), item(1))
            .and(Aggregation::Count, Path::default())
            .and(Aggregation::Sum, item(1))
            .and(Aggregation::Mean, item(-1));
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
        let mut aggregate = Aggregate::new(Aggregation::Count, key, Path::default());
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
