//! The function as an expression, over encoded records.

use super::State;
use super::keyed::Keyed;
use crate::network::batch::Batch;
use crate::operators::calls::detached;
use crate::operators::encoded_keys::EncodedKeys;
use crate::operators::program::expression;
use oka_codec::Key;
use oka_compute::Reader;
use oka_expression::Unusual;
use oka_expression::fold::{Attempts, Folding, KeyPart, Numbers};
use oka_transport::{Encoding, ReceivedFrames};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What a batch can be folded by without Python objects.
pub(super) struct Lifted {
    folding: Folding,
    /// Whether there is one result for each key of a batch.
    only_last: bool,
    keys: EncodedKeys,
    /// Where a record has its key, and whether those of the last batches did.
    key_part: Option<KeyPart>,
    by_key: Attempts,
}

impl Lifted {
    pub(super) fn new(
        lifted: &Bound<'_, PyAny>,
        key: &Key,
        paired: bool,
        only_last: bool,
    ) -> PyResult<Self> {
        let mut folding = folding(lifted)?;
        let keys = EncodedKeys::new(key, paired);
        Ok(Self {
            only_last: only_last && folding.keeps_first(),
            key_part: keys.path().and_then(|path| folding.key_part(path)),
            folding,
            keys,
            by_key: Attempts::default(),
        })
    }

    /// Puts the values that are held here where all are.
    pub(super) fn give_back(&mut self, keyed: &mut Keyed) {
        self.folding
            .give_back(|number, value| keyed.set_bytes(number as usize, value));
    }

    /// The number of results of a batch; or why there are none.
    fn run(
        &mut self,
        py: Python<'_>,
        keyed: &mut Keyed,
        received: &ReceivedFrames,
    ) -> Result<usize, String> {
        let (size, only_last) = (received.size(), self.only_last);
        let mut done = Err(Unusual::NoKey);
        if let Some(part) = self.key_part.filter(|_| self.by_key.are_due()) {
            let (bodies, folding) = (received.bodies(), &mut self.folding);
            let keys = &mut self.keys;
            let mut numbers = KeyNumbers { keys, keyed };
            done = detached(py, size, || {
                folding.run_by_key(bodies, part, only_last, &mut numbers)
            });
            match done {
                Ok(count) => {
                    self.by_key.note(true);
                    return Ok(count);
                }
                Err(Unusual::NoKey) => self.by_key.note(false),
                Err(_) => {}
            }
        }
        let found = self.find(py, keyed, received)?;
        let folding = &mut self.folding;
        if done == Err(Unusual::NoKey) {
            let values = keyed.values();
            let before = |number: u32| values[number as usize].bytes();
            done = detached(py, size, || {
                folding.run_in_pieces(&found, values.len(), only_last, before)
            });
            if let Ok(count) = done {
                return Ok(count);
            }
        }
        folding.give_back(|number, value| keyed.set_bytes(number as usize, value));
        let values = keyed.values();
        let before = |number: u32| values[number as usize].bytes();
        let folded = detached(py, size, || folding.run(&found, values.len(), before));
        folded.map_err(|reason| reason.to_string())?;
        for (number, value) in folding.values() {
            keyed.set_bytes(number as usize, value);
        }
        Ok(found.len())
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
                let number = |key: &Bound<'_, PyAny>| Ok(keyed.number(key)? as u32);
                let (number, record) = self.keys.next(py, &mut reader, number)?;
                if !self.folding.holds(number) && !keyed.encode(py, number as usize) {
                    return Err("a value that does not travel".to_owned());
                }
                found.push((number, record));
            }
        }
        Ok(found)
    }
}

/// The numbers of the keys of records that are passed over.
struct KeyNumbers<'k> {
    keys: &'k mut EncodedKeys,
    keyed: &'k mut Keyed,
}

impl Numbers for KeyNumbers<'_> {
    #[inline]
    fn number(&mut self, key: &[u8]) -> Result<u32, Unusual> {
        let number = |key: &Bound<'_, PyAny>| Ok(self.keyed.number(key)? as u32);
        self.keys.number(key, number)
    }

    fn value(&mut self, number: u32) -> Result<Option<&[u8]>, Unusual> {
        let number = number as usize;
        if !Python::attach(|py| self.keyed.encode(py, number)) {
            return Err(Unusual::NotSent);
        }
        Ok(self.keyed.values()[number].bytes())
    }
}

/// The fold by a function, of which this is the data of its `Expression`.
pub(in crate::operators) fn folding(lifted: &Bound<'_, PyAny>) -> PyResult<Folding> {
    let folding = Folding::new(&expression(lifted)?);
    folding.map_err(|reason| PyValueError::new_err(reason.to_string()))
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
        let count = lifted.run(py, &mut self.keyed, received)?;
        let results = lifted.folding.results();
        Ok(ReceivedFrames::of_body(Encoding::Msgpack, count, results).into())
    }
}
