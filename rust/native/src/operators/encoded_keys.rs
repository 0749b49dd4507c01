//! Keys in encoded records, and the numbers that these keys have as Python objects.

use crate::network::gate::key_path;
use oka_codec::{Decoder, Key};
use oka_compute::table::KeyTable;
use oka_compute::{KeyPath, Path, Reader, RecordKeys, Step, key};
use oka_expression::Unusual;
use pyo3::prelude::*;

/// Finds the keys of encoded records. Each key becomes an object once.
pub(crate) struct EncodedKeys {
    keys: RecordKeys,
    /// Where a record that comes alone has its key, if that is one value.
    path: Option<Path>,
    /// Where a record lies in what comes.
    record: Path,
    numbers: Numbers,
    /// A key in its canonical form.
    scratch: Vec<u8>,
}

/// The numbers of keys that came encoded.
struct Numbers {
    /// Keys by their canonical bytes.
    table: KeyTable,
    /// Their numbers where all keys have one.
    numbers: Vec<u32>,
}

impl EncodedKeys {
    /// `paired`: a record comes behind its key, as a pair.
    pub(crate) fn new(key: &Key, paired: bool) -> Self {
        let (key, record): (KeyPath, Path) = if paired {
            (
                Path::from([Step::Item(0)]).into(),
                Path::from([Step::Item(1)]),
            )
        } else {
            (key_path(key), Path::default())
        };
        Self {
            path: match &key {
                KeyPath::One(path) if !paired => Some(path.clone()),
                _ => None,
            },
            keys: RecordKeys::by(key),
            record,
            numbers: Numbers::new(),
            scratch: Vec::new(),
        }
    }

    /// Where a record has its key; None where it comes behind that, or has several.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_ref()
    }

    /// Passes over what comes next: the number of its key, and its record, in front of whatever follows; or why they
    /// cannot be found. `number` gives the number of a key that has not come before.
    #[inline]
    pub(crate) fn next<'b>(
        &mut self,
        py: Python<'_>,
        reader: &mut Reader<'b>,
        number: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<u32>,
    ) -> Result<(u32, &'b [u8]), String> {
        let rest = reader.rest();
        let key = self.keys.next(reader);
        let (key, canonical) = key.map_err(|problem| problem.to_string())?;
        let number = self.numbers.of(canonical, || {
            let key = Decoder::new(py).first(key);
            key.and_then(|key| number(&key))
        });
        let number = number.map_err(|error| error.to_string())?;
        let record = self.record.find(rest);
        Ok((number, record.map_err(|error| error.to_string())?))
    }

    /// The number of an encoded key, or why there is none. `number` gives that of a key that has not come before.
    #[inline]
    pub(crate) fn number(
        &mut self,
        key: &[u8],
        number: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<u32>,
    ) -> Result<u32, Unusual> {
        let canonical = key::canonical(key, &mut self.scratch).map_err(|_| Unusual::NoKey)?;
        let number = self.numbers.of(canonical, || {
            Python::attach(|py| {
                let key = Decoder::new(py).first(key)?;
                number(&key)
            })
        });
        number.map_err(|_| Unusual::NoKey)
    }

    /// Forgets all numbers: keys have others from now on.
    pub(crate) fn forget(&mut self) {
        self.numbers = Numbers::new();
    }
}

impl Numbers {
    fn new() -> Self {
        Self {
            table: KeyTable::new(),
            numbers: Vec::new(),
        }
    }

    /// The number of the key with these canonical bytes; `new` gives that of one that has not come before.
    #[inline]
    fn of(&mut self, canonical: &[u8], new: impl FnOnce() -> PyResult<u32>) -> PyResult<u32> {
        let at = self.table.number(canonical);
        match self.numbers.get(at) {
            Some(number) if *number != UNKNOWN => Ok(*number),
            _ => {
                let number = new()?;
                self.numbers.resize(self.table.len(), UNKNOWN);
                self.numbers[at] = number;
                Ok(number)
            }
        }
    }
}

/// The number of a key that has none yet.
const UNKNOWN: u32 = u32::MAX;
