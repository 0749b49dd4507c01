//! Where the key and the value of a record lie.

use crate::accumulator::Aggregation;
use crate::encoded::encode;
use crate::encoded::path::{Path, Step};
use crate::encoded::time::TimePath;
use crate::encoded::value::{ReadError, Reader, Value};
use crate::groups::wanted::Term;
use crate::keys::key;
use crate::keys::short::hash;
use crate::problem::Problem;

/// The key of a record: a value inside it, or several, which make a tuple.
#[derive(Clone, Debug)]
pub enum KeyPath {
    One(Path),
    Tuple(Vec<Path>),
}

impl From<Path> for KeyPath {
    fn from(path: Path) -> Self {
        Self::One(path)
    }
}

/// Finds key and value in encoded records.
#[derive(Debug)]
pub(crate) struct Fields {
    key: KeyPath,
    value: Path,
    needs_value: bool,
    shape: Shape,
    /// A key that is a tuple, encoded.
    tuple: Vec<u8>,
}

/// The key of a record, and the bytes from its value on.
pub(crate) type Found<'a> = (&'a [u8], &'a [u8]);

impl Fields {
    /// With the value of this, where it is plain.
    pub(crate) fn of_term(term: &Term, key: KeyPath) -> Self {
        let needs_value = term.is_plain() && term.aggregation != Aggregation::Count;
        let value = term.value.clone();
        let shape = Shape::of(needs_value, &key, &value);
        Self {
            key,
            value,
            needs_value,
            shape,
            tuple: Vec::new(),
        }
    }

    /// Reads one record.
    #[expect(
        clippy::inline_always,
        reason = "a call costs a count a tenth of its instructions"
    )]
    #[inline(always)]
    pub(crate) fn of<'f, 'r: 'f>(
        &'f mut self,
        reader: &mut Reader<'r>,
    ) -> Result<Found<'f>, Problem> {
        let start = reader.position();
        match self.shape {
            Shape::Record => {
                reader.skip()?;
                let record = reader.since(start);
                return Ok((record, record));
            }
            Shape::Items { key, value } => {
                if let Some((found, _)) = items(reader, key, value, None)? {
                    return Ok(found);
                }
            }
            Shape::Paths => reader.skip()?,
        }
        self.by_paths(reader.since(start))
    }

    /// Reads one record, and where its time begins.
    #[expect(clippy::inline_always, reason = "as in `of`")]
    #[inline(always)]
    pub(crate) fn timed<'f, 'r: 'f>(
        &'f mut self,
        reader: &mut Reader<'r>,
        time: &TimePath,
    ) -> Result<(Found<'f>, &'r [u8]), Problem> {
        let start = reader.position();
        if let (Shape::Items { key, value }, Some(item)) = (self.shape, time.item) {
            if let Some((found, time)) = items(reader, key, value, Some(item))? {
                return Ok((found, time));
            }
        } else {
            reader.skip()?;
        }
        let record = reader.since(start);
        let time = time.path.find(record).map_err(Problem::NoTime)?;
        Ok((self.by_paths(record)?, time))
    }

    /// The hashes of the keys of the next records, as many as can be read.
    #[inline(never)]
    pub(crate) fn hashes(
        &mut self,
        mut reader: Reader,
        records: usize,
        scratch: &mut Vec<u8>,
    ) -> Vec<u64> {
        let mut hashes = Vec::with_capacity(records);
        for _ in 0..records {
            let Ok((key, _)) = self.of(&mut reader) else {
                break;
            };
            let Ok(canonical) = key::canonical(key, scratch) else {
                break;
            };
            hashes.push(hash(canonical));
        }
        hashes
    }

    fn by_paths<'f, 'r: 'f>(&'f mut self, record: &'r [u8]) -> Result<Found<'f>, Problem> {
        let key = match &self.key {
            KeyPath::One(path) => first(path.find(record).map_err(Problem::NoKey)?)?,
            KeyPath::Tuple(paths) => {
                self.tuple.clear();
                encode::array(&mut self.tuple, paths.len());
                for path in paths {
                    let item = first(path.find(record).map_err(Problem::NoKey)?)?;
                    self.tuple.extend_from_slice(item);
                }
                &self.tuple
            }
        };
        let value = if self.needs_value {
            self.value.find(record).map_err(Problem::NoValue)?
        } else {
            key
        };
        Ok((key, value))
    }
}

/// The first of the values that these bytes are.
pub(crate) fn first(bytes: &[u8]) -> Result<&[u8], ReadError> {
    Reader::new(bytes).encoded()
}

/// Where key and value lie, for the two layouts that one pass over the record can serve.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The record is both.
    Record,
    /// Both are items of the tuple; [`NO_ITEM`] is none.
    Items { key: usize, value: usize },
    /// Anything else.
    Paths,
}

impl Shape {
    fn of(needs_value: bool, key: &KeyPath, value: &Path) -> Self {
        let key = match key {
            KeyPath::One(key) => key,
            KeyPath::Tuple(paths) if paths.is_empty() => {
                let value = if needs_value {
                    only_item(value)
                } else {
                    Some(NO_ITEM)
                };
                let items = |value| Self::Items {
                    key: NO_ITEM,
                    value,
                };
                return value.map_or(Self::Paths, items);
            }
            KeyPath::Tuple(_) => return Self::Paths,
        };
        let value = if needs_value { value } else { key };
        match (only_item(key), only_item(value)) {
            (Some(key), Some(value)) => Self::Items { key, value },
            _ if key.steps().is_empty() && value.steps().is_empty() => Self::Record,
            _ => Self::Paths,
        }
    }
}

/// The key where there is none: an empty tuple. It stands for a value that nobody reads, too.
pub(crate) const NO_KEY: &[u8] = &[0x90];

/// In place of an item, where there is none to find.
const NO_ITEM: usize = usize::MAX;

/// The item of a tuple, counted from its start, that a path leads to.
pub(crate) fn only_item(path: &Path) -> Option<usize> {
    match path.steps() {
        [Step::Item(item)] => usize::try_from(*item).ok(),
        _ => None,
    }
}

/// Reads a tuple in one pass, with the item that is its time where one is asked for. `None` when the
/// record is no tuple or too short: it is passed over, and [`Path::find`] says what is wrong with it.
#[expect(
    clippy::inline_always,
    reason = "it has two callers, each the loop over records"
)]
#[inline(always)]
fn items<'a>(
    reader: &mut Reader<'a>,
    key: usize,
    value: usize,
    time: Option<usize>,
) -> Result<Option<(Found<'a>, &'a [u8])>, ReadError> {
    let count = match reader.read()? {
        Value::Array(count) => count,
        Value::Map(count) => {
            reader.skip_many(count.saturating_mul(2))?;
            return Ok(None);
        }
        _ => return Ok(None),
    };
    let none = |item| (item == NO_ITEM).then_some(NO_KEY);
    let mut found = (none(key), none(value));
    let mut found_time = time.is_none().then_some(&[][..]);
    for item in 0..count {
        let start = reader.position();
        if item == value {
            found.1 = Some(reader.rest());
        }
        if time == Some(item) {
            found_time = Some(reader.rest());
            reader.skip_number()?;
        } else {
            reader.skip()?;
        }
        if item == key {
            found.0 = Some(reader.since(start));
        }
    }
    Ok(found.0.zip(found.1).zip(found_time))
}

/// Of so many records it is worth reading keys ahead together.
pub(crate) const TOGETHER: usize = 64;
