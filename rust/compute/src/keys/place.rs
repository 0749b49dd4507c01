//! The hash by which records are divided among tasks, of keys that are encoded.

use crate::encoded::fields::{KeyPath, only_item};
use crate::encoded::path::Path;
use crate::encoded::value::{ReadError, Reader, Value, extension};
use crate::keys::key::MAX_DEPTH;
use oka_protocol::partition::{
    combine, hash_big_int, hash_bytes, hash_float, hash_int, hash_none, hash_unsigned, hash_utf8,
};

/// The hash that a gate has of the key; `None` where that takes a look at the object in Python.
///
/// ```
/// use oka_compute::place;
/// use oka_protocol::partition::hash_int;
///
/// assert_eq!(place::hash(&[0x07]), Some(hash_int(7)));
/// ```
pub fn hash(encoded: &[u8]) -> Option<u64> {
    next(&mut Reader::new(encoded), 0)
}

/// Where records go by their keys.
///
/// ```
/// use oka_compute::place::Place;
/// use oka_compute::{Path, Reader, Step};
/// use oka_protocol::partition::hash_int;
///
/// let place = Place::of(Path::from([Step::Item(-1)]).into());
/// let mut records = Reader::new(&[0x92, 0xc0, 0x07, 0x90]);
/// assert_eq!(place.pass(&mut records), Ok(Some(hash_int(7))));
/// assert_eq!(place.pass(&mut records), Ok(None));
/// assert!(records.is_at_end());
/// ```
#[derive(Debug)]
pub struct Place {
    key: KeyPath,
    /// The only item of a tuple, counted from its start, that is the key.
    item: Option<usize>,
}

impl Place {
    pub fn of(key: KeyPath) -> Self {
        let item = match &key {
            KeyPath::One(path) => only_item(path),
            KeyPath::Tuple(_) => None,
        };
        Self { key, item }
    }

    /// Passes over a record; the hash that a gate has of its key. `None` where that takes a look at the object in
    /// Python, and where there is no key.
    #[inline]
    pub fn pass(&self, reader: &mut Reader) -> Result<Option<u64>, ReadError> {
        if let Some(item) = self.item {
            let mut behind = reader.clone();
            if let Value::Array(count) = behind.read()?
                && item < count
            {
                for _ in 0..item {
                    behind.skip()?;
                }
                if let Some(hash) = next(&mut behind, 0) {
                    for _ in item + 1..count {
                        behind.skip()?;
                    }
                    *reader = behind;
                    return Ok(Some(hash));
                }
            }
        }
        let start = reader.position();
        reader.skip()?;
        Ok(self.find(reader.since(start)))
    }

    #[inline(never)]
    fn find(&self, record: &[u8]) -> Option<u64> {
        let found = |path: &Path| hash(path.find(record).ok()?);
        match &self.key {
            KeyPath::One(path) => found(path),
            KeyPath::Tuple(paths) => combined(paths.iter().map(found)),
        }
    }
}

#[inline]
fn next(reader: &mut Reader, depth: usize) -> Option<u64> {
    match reader.read().ok()? {
        Value::Str(utf8) => Some(hash_utf8(utf8)),
        Value::Int(number) => Some(hash_int(number)),
        value => of_value(value, reader, depth),
    }
}

#[inline(never)]
fn of_value(value: Value, reader: &mut Reader, depth: usize) -> Option<u64> {
    Some(match value {
        Value::Nil => hash_none(),
        Value::Bool(truth) => hash_int(i64::from(truth)),
        Value::Int(number) => hash_int(number),
        Value::Unsigned(number) => hash_unsigned(number),
        Value::Float(number) => hash_float(number),
        Value::Str(utf8) => hash_utf8(utf8),
        Value::Bytes(data) => hash_bytes(data),
        Value::Array(count) if depth < MAX_DEPTH => {
            return combined((0..count).map(|_| next(reader, depth + 1)));
        }
        Value::Extension(extension::BIG_INT, [sign, magnitude @ ..]) => {
            hash_big_int(*sign != 0, magnitude)
        }
        _ => return None,
    })
}

/// The hash of a tuple, if those of all items are known.
fn combined(items: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let mut are_known = true;
    let hash = combine(items.map_while(|hash| {
        are_known &= hash.is_some();
        hash
    }));
    are_known.then_some(hash)
}
