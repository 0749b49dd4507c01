//! The function as an expression, over encoded records.

use super::State;
use super::keyed::Keyed;
use crate::network::batch::Batch;
use crate::network::gate::key_path;
use crate::operators::calls::detached;
use oka_codec::{Decoder, Key};
use oka_compute::table::KeyTable;
use oka_compute::{KeyPath, Path, Reader, RecordKeys, Step};
use oka_expression::Folding;
use oka_expression::tree::Expression;
use oka_transport::{Encoding, ReceivedFrames};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What a batch can be folded by without Python objects.
pub(super) struct Lifted {
    folding: Folding,
    /// Finds the keys of encoded records.
    keys: RecordKeys,
    /// Where a record lies in what comes.
    record: Path,
    /// Keys by their canonical bytes.
    table: KeyTable,
    /// Their numbers where all keys have one.
    numbers: Vec<u32>,
}

impl Lifted {
    pub(super) fn new(expression: &Expression, key: &Key, paired: bool) -> PyResult<Self> {
        let folding = Folding::new(expression);
        let (key, record): (KeyPath, Path) = if paired {
            (
                Path::from([Step::Item(0)]).into(),
                Path::from([Step::Item(1)]),
            )
        } else {
            (key_path(key), Path::default())
        };
        Ok(Self {
            folding: folding.map_err(|reason| PyValueError::new_err(reason.to_string()))?,
            keys: RecordKeys::by(key),
            record,
            table: KeyTable::new(),
            numbers: Vec::new(),
        })
    }

    /// The number of the key of each record, and the record itself. The value of each key is encoded then.
    fn find<'b>(
        &mut self,
        py: Python<'_>,
        keyed: &mut Keyed,
        received: &'b ReceivedFrames,
    ) -> Result<Vec<(u32, &'b [u8])>, String> {
        let mut found = Vec::with_capacity(received.records);
        for (records, body) in received.bodies() {
            let mut reader = Reader::new(body);
            for _ in 0..records {
                let rest = reader.rest();
                let key = self.keys.next(&mut reader);
                let (key, canonical) = key.map_err(|problem| problem.to_string())?;
                let at = self.table.number(canonical);
                let number = match self.numbers.get(at) {
                    Some(number) if *number != UNKNOWN => *number,
                    _ => {
                        let key = Decoder::new(py).first(key);
                        let number = key.and_then(|key| keyed.number(&key));
                        let number = number.map_err(|error| error.to_string())? as u32;
                        self.numbers.resize(self.table.len(), UNKNOWN);
                        self.numbers[at] = number;
                        number
                    }
                };
                if !keyed.encode(py, number as usize) {
                    return Err("a value that does not travel".to_owned());
                }
                let record = self.record.find(rest);
                found.push((number, record.map_err(|error| error.to_string())?));
            }
        }
        Ok(found)
    }
}

impl State {
    /// The results, or why there are none.
    pub(super) fn run(
        &mut self,
        py: Python<'_>,
        received: &ReceivedFrames,
    ) -> Result<Batch, String> {
        let Some(lifted) = &mut self.lifted else {
            return Err("a function that is not lifted".to_owned());
        };
        let keyed = &mut self.keyed;
        let found = lifted.find(py, keyed, received)?;
        let folding = &mut lifted.folding;
        let values = keyed.values();
        let before = |number: u32| values[number as usize].bytes();
        let folded = detached(py, received.size(), || {
            folding.run(&found, values.len(), before)
        });
        folded.map_err(|reason| reason.to_string())?;
        for (number, value) in folding.values() {
            keyed.set_bytes(number as usize, value);
        }
        let results = folding.results();
        Ok(ReceivedFrames::of_body(Encoding::Msgpack, found.len(), results).into())
    }
}

/// The number of a key that has none yet.
const UNKNOWN: u32 = u32::MAX;
