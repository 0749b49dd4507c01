//! The function as an expression, over encoded records.

use super::State;
use super::keyed::Keyed;
use crate::network::batch::Batch;
use crate::operators::calls::detached;
use crate::operators::encoded_keys::EncodedKeys;
use crate::operators::program::expression;
use oka_codec::Key;
use oka_compute::Reader;
use oka_expression::{Accumulating, Folding};
use oka_transport::{Encoding, ReceivedFrames};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What a batch can be folded by without Python objects.
pub(super) struct Lifted {
    folding: Folding,
    /// Whether there is one result for each key of a batch.
    only_last: bool,
    keys: EncodedKeys,
}

impl Lifted {
    pub(super) fn new(
        lifted: &Bound<'_, PyAny>,
        key: &Key,
        paired: bool,
        only_last: bool,
    ) -> PyResult<Self> {
        let folding = folding(lifted)?;
        let accumulating = folding.accumulating.as_ref();
        Ok(Self {
            only_last: only_last && accumulating.is_some_and(Accumulating::keeps_first),
            folding,
            keys: EncodedKeys::new(key, paired),
        })
    }

    /// Puts the values that are held here where all are.
    pub(super) fn give_back(&mut self, keyed: &mut Keyed) {
        if let Some(accumulating) = &mut self.folding.accumulating {
            accumulating.give_back(|number, value| keyed.set_bytes(number as usize, value));
        }
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
                let holding = self.folding.accumulating.as_ref();
                let is_held = holding.is_some_and(|holding| holding.holds(number));
                if !is_held && !keyed.encode(py, number as usize) {
                    return Err("a value that does not travel".to_owned());
                }
                found.push((number, record));
            }
        }
        Ok(found)
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
        let keyed = &mut self.keyed;
        let found = lifted.find(py, keyed, received)?;
        if let Some(accumulating) = &mut lifted.folding.accumulating {
            let values = keyed.values();
            let before = |number: u32| values[number as usize].bytes();
            let only_last = lifted.only_last;
            let folded = detached(py, received.size(), || {
                accumulating.run(&found, values.len(), only_last, before)
            });
            if let Ok(count) = folded {
                let results = accumulating.results();
                return Ok(ReceivedFrames::of_body(Encoding::Msgpack, count, results).into());
            }
            lifted.give_back(keyed);
        }
        let folding = &mut lifted.folding;
        let values = keyed.values();
        let before = |number: u32| values[number as usize].bytes();
        let folded = detached(py, received.size(), || {
            folding.run(&found, values.len(), before)
        });
        folded.map_err(|reason| reason.to_string())?;
        folding.accumulating = None; // these records, or some value, are of another form
        for (number, value) in folding.values() {
            keyed.set_bytes(number as usize, value);
        }
        let results = folding.results();
        Ok(ReceivedFrames::of_body(Encoding::Msgpack, found.len(), results).into())
    }
}
