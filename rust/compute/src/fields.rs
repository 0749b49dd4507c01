//! Where the key and the value of a record lie.

use crate::accumulator::Aggregation;
use crate::encode;
use crate::path::{Path, Step};
use crate::problem::Problem;
use crate::value::{ReadError, Reader, Value};

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
    pub(crate) fn new(aggregation: Aggregation, key: KeyPath, value: Path) -> Self {
        let needs_value = aggregation != Aggregation::Count;
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
    #[inline]
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
                if let Some(found) = items(reader, key, value)? {
                    return Ok(found);
                }
            }
            Shape::Paths => reader.skip()?,
        }
        let record = reader.since(start);
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
fn first(bytes: &[u8]) -> Result<&[u8], ReadError> {
    let mut end = Reader::new(bytes);
    end.skip()?;
    Ok(end.since(0))
}

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
    fn of(needs_value: bool, key: &KeyPath, value: &Path) -> Self {
        let item = |path: &Path| match path.steps() {
            [Step::Item(item)] => usize::try_from(*item).ok(),
            _ => None,
        };
        let KeyPath::One(key) = key else {
            return Self::Paths;
        };
        let value = if needs_value { value } else { key };
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
) -> Result<Option<Found<'a>>, ReadError> {
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
