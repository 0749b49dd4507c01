//! Keys in encoded records, and the numbers that these keys have as Python objects.

use crate::network::gate::key_path;
use oka_codec::{Decoder, Key};
use oka_compute::table::KeyTable;
use oka_compute::{KeyPath, Path, Reader, RecordKeys, Step};
use pyo3::prelude::*;

/// Finds the keys of encoded records. Each key becomes an object once.
pub(crate) struct EncodedKeys {
    keys: RecordKeys,
    /// Where a record lies in what comes.
    record: Path,
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
            keys: RecordKeys::by(key),
            record,
            table: KeyTable::new(),
            numbers: Vec::new(),
        }
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
        let at = self.table.number(canonical);
        let number = match self.numbers.get(at) {
            Some(number) if *number != UNKNOWN => *number,
            _ => {
                let key = Decoder::new(py).first(key);
                let number = key.and_then(|key| number(&key));
                let number = number.map_err(|error| error.to_string())?;
                self.numbers.resize(self.table.len(), UNKNOWN);
                self.numbers[at] = number;
                number
            }
        };
        let record = self.record.find(rest);
        Ok((number, record.map_err(|error| error.to_string())?))
    }

    /// Forgets all numbers: keys have others from now on.
    pub(crate) fn forget(&mut self) {
        self.table = KeyTable::new();
        self.numbers.clear();
    }
}

/// The number of a key that has none yet.
const UNKNOWN: u32 = u32::MAX;
