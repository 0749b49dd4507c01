//! The first few records of each key, in the order of values in them.

use crate::accumulator::numeric::compare_integer;
use crate::encoded::encode;
use crate::encoded::fields::KeyPath;
use crate::encoded::path::Path;
use crate::encoded::record_keys::RecordKeys;
use crate::encoded::strings::ByteStrings;
use crate::encoded::value::{Reader, Value, extension};
use crate::groups::copied::Copied;
use crate::keys::interner::Interner;
use crate::keys::key::canonical;
use crate::problem::Problem;
use std::cmp::Ordering;

/// A value to rank by: where it is in a record, and whether the greatest is first.
#[derive(Clone, Debug)]
pub struct RankedBy {
    pub path: Path,
    pub descending: bool,
}

/// Keeps the first records of each key. NaN is behind all numbers; of equal records, those that came first are in front.
///
/// ```
/// use oka_compute::{KeyPath, Path, RankedBy, Step, Top};
///
/// let item = |at| Path::from([Step::Item(at)]);
/// let by = RankedBy { path: item(1), descending: true };
/// let mut top = Top::new(item(0).into(), Path::default(), vec![by], 1);
/// let sales = b"\x92\xa1a\x01\x92\xa1b\x02\x92\xa1a\x03"; // ("a", 1), ("b", 2), ("a", 3)
/// assert_eq!(top.add([(3, &sales[..])])?, [0, 1]);
/// let mut found = Vec::new();
/// assert!(top.encode(0, &mut found));
/// assert!(found.ends_with(b"\x92\xa1a\x03"));
/// # Ok::<(), oka_compute::Problem>(())
/// ```
#[derive(Debug)]
pub struct Top {
    keys: RecordKeys,
    numbers: Interner,
    /// Where a record lies in what comes.
    record: Path,
    by: Vec<RankedBy>,
    most: usize,
    /// Of each value to rank by, whether it is a text, once there is one: only those of a kind have an order.
    are_texts: Vec<Option<bool>>,
    /// By the numbers of the keys.
    kept: Vec<First>,
    batches: u64,
}

/// The first records of a key, and of each of them its ranks, behind each other.
#[derive(Debug, Default)]
struct First {
    records: Vec<Box<[u8]>>,
    ranks: Vec<Rank<Text>>,
    /// The last batch that has changed them.
    changed: u64,
}

/// A value to rank by. All texts are in the order of code points, which UTF-8 has, too.
#[derive(Clone, Copy, Debug)]
enum Rank<T> {
    Integer(i64),
    Float(f64),
    Text(T),
}

/// A text that is kept, behind a thin pointer: most ranks are numbers, and take 16 bytes so.
#[derive(Debug)]
struct Text(Box<Box<[u8]>>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Top {
    /// Of `most` records by these values, the first of which decides first; with where a key and a record are in what
    /// comes.
    pub fn new(key: KeyPath, record: Path, by: Vec<RankedBy>, most: usize) -> Self {
        Self {
            keys: RecordKeys::by(key),
            numbers: Interner::default(),
            record,
            are_texts: vec![None; by.len()],
            by,
            most,
            kept: Vec::new(),
            batches: 0,
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Takes in the records of bodies, of each so many; the numbers of the keys whose first records are others now. Or
    /// what is wrong with one of the records: then none was taken in.
    pub fn add<'b>(
        &mut self,
        bodies: impl IntoIterator<Item = (usize, &'b [u8])>,
    ) -> Result<Vec<usize>, Problem> {
        let are_texts = self.are_texts.clone();
        let read = self.read(bodies);
        let (found, ranks) = read.inspect_err(|_| self.are_texts = are_texts)?;
        self.batches += 1;
        let mut changed = Vec::new();
        for ((number, record), ranks) in found.into_iter().zip(ranks.chunks(self.by.len())) {
            let of_key = &mut self.kept[number];
            if !of_key.insert(&self.by, self.most, ranks, record) {
                continue;
            }
            if of_key.changed != self.batches {
                of_key.changed = self.batches;
                changed.push(number);
            }
        }
        Ok(changed)
    }

    /// Goes on with the first records of a key: an encoded list. False, and nothing has happened, if these are none.
    pub fn restore(&mut self, key: &[u8], records: &[u8]) -> Result<bool, Problem> {
        let mut scratch = Vec::new();
        let mut reader = Reader::new(records);
        let Value::Extension(extension::LIST, payload) = reader.read()? else {
            return Ok(false);
        };
        let mut reader = Reader::new(payload);
        let Value::Array(count) = reader.read()? else {
            return Ok(false);
        };
        let mut of_key = First::default();
        for _ in 0..count {
            let record = reader.encoded()?;
            let mut ranks = Vec::with_capacity(self.by.len());
            self.rank(record, &mut ranks)?;
            of_key.insert(&self.by, self.most, &ranks, record);
        }
        let number = self.numbers.number((key, canonical(key, &mut scratch)?));
        self.make_room();
        self.kept[number] = of_key;
        Ok(true)
    }

    /// Appends a key with the list of its first records, as a pair. False if that list has 4 GiB or more.
    #[must_use]
    pub fn encode(&self, number: usize, out: &mut Vec<u8>) -> bool {
        encode::array(out, 2);
        out.extend_from_slice(self.numbers.get(number));
        self.kept[number].encode(out)
    }

    /// A copy of all keys with the lists of their first records.
    pub fn copied(&self) -> Copied {
        let (mut keys, mut values) = (ByteStrings::default(), ByteStrings::default());
        let mut are_small = true;
        for (number, of_key) in self.kept.iter().enumerate() {
            if !of_key.records.is_empty() {
                keys.push(self.numbers.get(number));
                values.push_with(|out| are_small &= of_key.encode(out));
            }
        }
        let copied = if are_small {
            Ok((keys, values))
        } else {
            Err(Problem::TooLarge)
        };
        Box::new(move || copied)
    }

    /// The numbers and the bytes of records, and the ranks of all.
    #[expect(
        clippy::type_complexity,
        reason = "two arrays, which one function takes"
    )]
    fn read<'b>(
        &mut self,
        bodies: impl IntoIterator<Item = (usize, &'b [u8])>,
    ) -> Result<(Vec<(usize, &'b [u8])>, Vec<Rank<&'b [u8]>>), Problem> {
        let (mut found, mut ranks) = (Vec::new(), Vec::new());
        for (records, body) in bodies {
            found.reserve(records);
            ranks.reserve(records * self.by.len());
            let mut reader = Reader::new(body);
            for _ in 0..records {
                let start = reader.position();
                let number = self.numbers.number(self.keys.next(&mut reader)?);
                let whole = reader.since(start);
                let record = self.record.find(whole).map_err(Problem::NoValue)?;
                self.rank(record, &mut ranks)?;
                found.push((number, record));
            }
        }
        self.make_room();
        Ok((found, ranks))
    }

    /// Appends the values that a record is ranked by.
    fn rank<'b>(
        &mut self,
        record: &'b [u8],
        ranks: &mut Vec<Rank<&'b [u8]>>,
    ) -> Result<(), Problem> {
        for (by, are_texts) in self.by.iter().zip(&mut self.are_texts) {
            let value = by.path.find(record).map_err(Problem::NoValue)?;
            let rank = Rank::of(Reader::new(value).read()?)?;
            let is_text = matches!(rank, Rank::Text(_));
            if *are_texts.get_or_insert(is_text) != is_text {
                return Err(Problem::Mixed);
            }
            ranks.push(rank);
        }
        Ok(())
    }

    /// Has a place for each key that has a number.
    fn make_room(&mut self) {
        self.kept.resize_with(self.numbers.len(), First::default);
    }
}

impl First {
    /// Whether the record is one of the first now.
    fn insert(
        &mut self,
        by: &[RankedBy],
        most: usize,
        ranks: &[Rank<&[u8]>],
        record: &[u8],
    ) -> bool {
        let is_behind = |at: usize| {
            let own = &self.ranks[at * by.len()..];
            let orders = by.iter().zip(own).zip(ranks);
            let mut orders = orders.map(|((by, own), other)| own.compare(other, by.descending));
            orders.find(|order| order.is_ne()) == Some(Ordering::Greater)
        };
        let count = self.records.len();
        if count == most && !is_behind(count - 1) {
            return false;
        }
        let (mut from, mut to) = (0, count);
        while from < to {
            let middle = from.midpoint(to);
            if is_behind(middle) {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        if count == most {
            self.records.pop();
            self.ranks.truncate((count - 1) * by.len());
        }
        self.records.insert(from, record.into());
        self.ranks.extend(ranks.iter().map(Rank::kept));
        self.ranks[from * by.len()..].rotate_right(by.len());
        true
    }

    /// Appends the list of the records. False if that has 4 GiB or more.
    fn encode(&self, out: &mut Vec<u8>) -> bool {
        let start = encode::open_extension(out, extension::LIST);
        encode::array(out, self.records.len());
        for record in &self.records {
            out.extend_from_slice(record);
        }
        encode::close_extension(out, start)
    }
}

impl<'b> Rank<&'b [u8]> {
    fn of(value: Value<'b>) -> Result<Self, Problem> {
        Ok(match value {
            Value::Bool(truth) => Self::Integer(i64::from(truth)),
            Value::Int(number) => Self::Integer(number),
            Value::Float(number) => Self::Float(number),
            Value::Str(text) => Self::Text(text),
            _ => return Err(Problem::NotRanked),
        })
    }

    fn kept(&self) -> Rank<Text> {
        match *self {
            Self::Integer(number) => Rank::Integer(number),
            Self::Float(number) => Rank::Float(number),
            Self::Text(text) => Rank::Text(Text(Box::new(text.into()))),
        }
    }
}

impl<T: AsRef<[u8]>> Rank<T> {
    /// Which is in front of the other, of the same kind; NaN is behind all.
    #[inline]
    fn compare<U: AsRef<[u8]>>(&self, other: &Rank<U>, descending: bool) -> Ordering {
        let order = match (self, other) {
            (Self::Integer(own), Rank::Integer(other)) => own.cmp(other),
            _ if self.is_nan() || other.is_nan() => return self.is_nan().cmp(&other.is_nan()),
            (Self::Text(own), Rank::Text(other)) => own.as_ref().cmp(other.as_ref()),
            (Self::Float(own), Rank::Float(other)) => {
                own.partial_cmp(other).unwrap_or(Ordering::Equal)
            }
            (Self::Integer(own), Rank::Float(other)) => compared(*own, *other),
            (Self::Float(own), Rank::Integer(other)) => compared(*other, *own).reverse(),
            (Self::Text(_), _) | (_, Rank::Text(_)) => Ordering::Equal, // are of one kind
        };
        if descending { order.reverse() } else { order }
    }

    fn is_nan(&self) -> bool {
        matches!(self, Self::Float(number) if number.is_nan())
    }
}

fn compared(integer: i64, float: f64) -> Ordering {
    compare_integer(i128::from(integer), float).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests;
