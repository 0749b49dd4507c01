//! Aggregates per key over encoded records: count, sum, min, max, first.
//!
//! Results are what the same loop in Python gives: integers are exact, an integer and a float give
//! a float, minimum and maximum keep the first of equal values. Updates are taken per batch: each
//! key that the batch touched, once, with its value after the whole batch.

use crate::key::{self, KeyError};
use crate::path::{Path, PathError, Step};
use crate::table::KeyTable;
use crate::value::{ReadError, Reader, Value, extension};
use std::cmp::Ordering;
use thiserror::Error;

/// What is computed per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    Count,
    /// Integers and floats; bools count as 0 and 1.
    Sum,
    /// Numbers, or texts, or byte strings.
    Min,
    Max,
    /// The first value of any kind.
    First,
}

/// The value of a key so far.
#[derive(Clone, Debug, PartialEq)]
pub enum Accumulated {
    Bool(bool),
    Integer(i128),
    Float(f64),
    /// UTF-8, maybe with lone surrogates.
    Text(Box<[u8]>),
    Bytes(Box<[u8]>),
    /// A value of any kind, encoded.
    Encoded(Box<[u8]>),
}

/// A key that was touched, with its value now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update<'a> {
    /// Dense number of the key, the same in every update.
    pub number: usize,
    /// The key as it was first encoded.
    pub key: &'a [u8],
    pub value: &'a Accumulated,
}

/// A record could not be aggregated; the ones before it were.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("record {record}: {problem}")]
pub struct AggregateError {
    /// Index in the batch.
    pub record: usize,
    /// Where the record starts in the body.
    pub offset: usize,
    pub problem: Problem,
}

/// What is wrong with a record.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    #[error("its key is {0}")]
    NoKey(PathError),
    #[error("its value is {0}")]
    NoValue(PathError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("its value is no number")]
    NotANumber,
    #[error("its value is no number, text or byte string")]
    NotOrdered,
    #[error("its value is not of the same kind as the values before it")]
    Mixed,
    #[error("an integer outside the range of 128 bits")]
    Overflow,
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The values of all keys so far.
#[derive(Debug)]
pub struct Aggregate {
    aggregation: Aggregation,
    key: Path,
    value: Path,
    shape: Shape,
    table: KeyTable,
    entries: Vec<Entry>,
    touched: Vec<usize>,
    /// Counts the calls of `take_updates`; an entry with this number is in `touched`.
    round: u64,
    scratch: Vec<u8>,
}

impl Aggregate {
    /// `key` and `value` lead from the record to its key and its value; a count needs no value.
    pub fn new(aggregation: Aggregation, key: Path, value: Path) -> Self {
        let shape = Shape::of(aggregation, &key, &value);
        Self {
            aggregation,
            key,
            value,
            shape,
            table: KeyTable::new(),
            entries: Vec::new(),
            touched: Vec::new(),
            round: 1,
            scratch: Vec::new(),
        }
    }

    /// Number of different keys so far.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The values of all keys, in the order of their numbers.
    pub fn values(&self) -> impl Iterator<Item = &Accumulated> {
        self.entries.iter().map(|entry| &entry.value)
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

    /// The keys touched since the last call, in the order in which they were touched first.
    pub fn take_updates(&mut self) -> impl Iterator<Item = Update<'_>> {
        self.round += 1;
        let (entries, table) = (&self.entries, &self.table);
        self.touched.drain(..).map(|number| Update {
            number,
            key: entries[number]
                .key
                .as_deref()
                .unwrap_or_else(|| table.key(number)),
            value: &entries[number].value,
        })
    }

    /// Reads one record and takes it in.
    #[inline]
    fn add(&mut self, reader: &mut Reader) -> Result<(), Problem> {
        let (key, value) = self.fields(reader)?;
        let canonical = key::canonical(key, &mut self.scratch)?;
        let number = self.table.number(canonical);
        if number == self.entries.len() {
            let first = first_value(self.aggregation, value)?;
            let differs = canonical != key;
            self.entries.push(Entry {
                round: 0,
                key: differs.then(|| key.into()),
                value: first,
            });
        } else {
            let entry = &mut self.entries[number].value;
            match self.aggregation {
                Aggregation::Count => count(entry),
                Aggregation::Sum => sum(entry, value)?,
                Aggregation::Min => replace_if(entry, value, Ordering::Less)?,
                Aggregation::Max => replace_if(entry, value, Ordering::Greater)?,
                Aggregation::First => return Ok(()),
            }
        }
        let entry = &mut self.entries[number];
        if entry.round != self.round {
            entry.round = self.round;
            self.touched.push(number);
        }
        Ok(())
    }

    #[inline]
    fn fields<'a>(&self, reader: &mut Reader<'a>) -> Result<Fields<'a>, Problem> {
        let start = reader.position();
        match self.shape {
            Shape::Record => {
                reader.skip()?;
                let record = reader.since(start);
                return Ok((record, record));
            }
            Shape::Items { key, value } => {
                if let Some(fields) = items(reader, key, value)? {
                    return Ok(fields);
                }
            }
            Shape::Paths => reader.skip()?,
        }
        let record = reader.since(start);
        let rest = self.key.find(record).map_err(Problem::NoKey)?;
        let mut end = Reader::new(rest);
        end.skip()?;
        let value = match self.aggregation {
            Aggregation::Count => rest,
            _ => self.value.find(record).map_err(Problem::NoValue)?,
        };
        Ok((end.since(0), value))
    }
}

#[derive(Debug)]
struct Entry {
    round: u64,
    /// The key as it was first encoded, where that differs from the canonical bytes in the table.
    key: Option<Box<[u8]>>,
    value: Accumulated,
}

/// The key of a record, and the bytes from its value on.
type Fields<'a> = (&'a [u8], &'a [u8]);

/// Where key and value lie, for the two layouts that one pass over the record can serve.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The record is both.
    Record,
    /// Both are items of the tuple.
    Items { key: usize, value: usize },
    /// Anything else.
    Paths,
}

impl Shape {
    fn of(aggregation: Aggregation, key: &Path, value: &Path) -> Self {
        let item = |path: &Path| match path.steps() {
            [Step::Item(item)] => usize::try_from(*item).ok(),
            _ => None,
        };
        let value = match aggregation {
            Aggregation::Count => key,
            _ => value,
        };
        match (item(key), item(value)) {
            (Some(key), Some(value)) => Self::Items { key, value },
            _ if key.steps().is_empty() && value.steps().is_empty() => Self::Record,
            _ => Self::Paths,
        }
    }
}

/// Reads a tuple in one pass. `None` when the record is no tuple or too short: it is passed over,
/// and [`Path::find`] says what is wrong with it.
#[inline]
fn items<'a>(
    reader: &mut Reader<'a>,
    key: usize,
    value: usize,
) -> Result<Option<Fields<'a>>, ReadError> {
    let count = match reader.read()? {
        Value::Array(count) => count,
        Value::Map(count) => {
            reader.skip_many(count.saturating_mul(2))?;
            return Ok(None);
        }
        _ => return Ok(None),
    };
    let mut found = (None, None);
    for item in 0..count {
        let start = reader.position();
        if item == value {
            found.1 = Some(reader.rest());
        }
        reader.skip()?;
        if item == key {
            found.0 = Some(reader.since(start));
        }
    }
    Ok(found.0.zip(found.1))
}

fn first_value(aggregation: Aggregation, encoded: &[u8]) -> Result<Accumulated, Problem> {
    match aggregation {
        Aggregation::Count => Ok(Accumulated::Integer(1)),
        Aggregation::Sum => number(encoded),
        Aggregation::Min | Aggregation::Max => ordered(encoded),
        Aggregation::First => {
            let mut reader = Reader::new(encoded);
            reader.skip()?;
            Ok(Accumulated::Encoded(reader.since(0).into()))
        }
    }
}

#[inline]
fn count(entry: &mut Accumulated) {
    if let Accumulated::Integer(count) = entry {
        *count += 1;
    }
}

fn sum(entry: &mut Accumulated, encoded: &[u8]) -> Result<(), Problem> {
    use Accumulated::{Float, Integer};
    *entry = match (&*entry, number(encoded)?) {
        (Integer(left), Integer(right)) => {
            Integer(left.checked_add(right).ok_or(Problem::Overflow)?)
        }
        (Integer(left), Float(right)) => Float(*left as f64 + right),
        (Float(left), Integer(right)) => Float(left + right as f64),
        (Float(left), Float(right)) => Float(left + right),
        _ => return Err(Problem::NotANumber),
    };
    Ok(())
}

fn replace_if(entry: &mut Accumulated, encoded: &[u8], when: Ordering) -> Result<(), Problem> {
    let new = ordered(encoded)?;
    if compare(&new, entry)? == Some(when) {
        *entry = new;
    }
    Ok(())
}

/// A value as a term of a sum.
fn number(encoded: &[u8]) -> Result<Accumulated, Problem> {
    Ok(match Reader::new(encoded).read()? {
        Value::Bool(truth) => Accumulated::Integer(i128::from(truth)),
        Value::Int(number) => Accumulated::Integer(i128::from(number)),
        Value::Unsigned(number) => Accumulated::Integer(i128::from(number)),
        Value::Float(number) => Accumulated::Float(number),
        Value::Extension(extension::BIG_INT, [sign, magnitude @ ..]) => {
            Accumulated::Integer(integer(*sign, magnitude).ok_or(Problem::Overflow)?)
        }
        _ => return Err(Problem::NotANumber),
    })
}

/// A value that has an order.
fn ordered(encoded: &[u8]) -> Result<Accumulated, Problem> {
    Ok(match Reader::new(encoded).read()? {
        Value::Bool(truth) => Accumulated::Bool(truth),
        Value::Str(utf8) | Value::Extension(extension::TEXT, utf8) => {
            Accumulated::Text(utf8.into()) // whose bytes are in the order of code points
        }
        Value::Bytes(data) => Accumulated::Bytes(data.into()),
        _ => match number(encoded) {
            Err(Problem::NotANumber) => return Err(Problem::NotOrdered),
            number => number?,
        },
    })
}

/// Order as in Python: numbers by value whatever their type, texts by code points, byte strings.
/// `None` when one side is NaN.
fn compare(left: &Accumulated, right: &Accumulated) -> Result<Option<Ordering>, Problem> {
    use Accumulated::{Bytes, Float, Text};
    match (left, right) {
        (Text(left), Text(right)) | (Bytes(left), Bytes(right)) => Ok(Some(left.cmp(right))),
        (Float(left), Float(right)) => Ok(left.partial_cmp(right)),
        (Float(left), right) => Ok(integral(right)
            .ok_or(Problem::Mixed)
            .map(|right| compare_integer(right, *left))?
            .map(Ordering::reverse)),
        (left, Float(right)) => integral(left)
            .ok_or(Problem::Mixed)
            .map(|left| compare_integer(left, *right)),
        (left, right) => match (integral(left), integral(right)) {
            (Some(left), Some(right)) => Ok(Some(left.cmp(&right))),
            _ => Err(Problem::Mixed),
        },
    }
}

fn integral(value: &Accumulated) -> Option<i128> {
    match value {
        Accumulated::Bool(truth) => Some(i128::from(*truth)),
        Accumulated::Integer(number) => Some(*number),
        _ => None,
    }
}

/// Compares without rounding the integer to a float.
fn compare_integer(left: i128, right: f64) -> Option<Ordering> {
    if right.is_nan() {
        None
    } else if right >= TWO_TO_127 {
        Some(Ordering::Less)
    } else if right < -TWO_TO_127 {
        Some(Ordering::Greater)
    } else {
        let fraction = 0.0.partial_cmp(&right.fract().abs())?;
        Some(left.cmp(&(right.floor() as i128)).then(fraction))
    }
}

fn integer(sign: u8, magnitude: &[u8]) -> Option<i128> {
    let (low, high) = magnitude.split_at(magnitude.len().min(16));
    if high.iter().any(|byte| *byte != 0) {
        return None;
    }
    let mut bytes = [0; 16];
    bytes[..low.len()].copy_from_slice(low);
    let number = i128::try_from(u128::from_le_bytes(bytes)).ok()?;
    Some(if sign == 0 { number } else { -number })
}

const TWO_TO_127: f64 = 1.701_411_834_604_692_3e38;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;

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
    fn integers_and_floats_compare_exactly() {
        let big = (1_i128 << 60) + 1;
        assert_eq!(
            compare_integer(big, (1_i64 << 60) as f64),
            Some(Ordering::Greater)
        );
        assert_eq!(compare_integer(-2, -1.5), Some(Ordering::Less));
        assert_eq!(compare_integer(-1, -1.5), Some(Ordering::Greater));
        assert_eq!(compare_integer(3, 3.0), Some(Ordering::Equal));
        assert_eq!(
            compare_integer(i128::MAX, f64::INFINITY),
            Some(Ordering::Less)
        );
        assert_eq!(
            compare_integer(i128::MIN, -TWO_TO_127),
            Some(Ordering::Equal)
        );
        assert_eq!(compare_integer(0, f64::NAN), None);
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
