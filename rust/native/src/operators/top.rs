//! The first few records of each key.

use crate::error::{alone, value_error};
use crate::network::batch::{Batch, Content};
use crate::network::gate::{key_and_record, key_path};
use crate::operators::calls::detached;
use crate::state::KeyedEntries;
use oka_codec::Key;
use oka_compute::{KeyPath, Problem, RankedBy};
use oka_protocol::HEADER_BYTES;
use oka_transport::{Encoding, ReceivedFrames};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard};

/// The first `most` records of each key, encoded, in the order of values in them.
///
/// `key` is the place of the key in a record, None for the record itself; with `paired`, pairs of a key and a record
/// come. `by` has the places of the values to rank by, the first of which decides first; `descending` tells of each whether
/// the greatest is in front. Values are texts, or numbers of 64 bits; NaN is behind all. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Top {
    state: Mutex<oka_compute::Top>,
}

type Place<'py> = Option<Bound<'py, PyAny>>;

#[pymethods]
impl Top {
    #[new]
    #[pyo3(signature = (
        key: "int | str | tuple[int | str, ...] | None",
        by: "int | str | tuple[int | str, ...] | None",
        descending: "list[bool] | tuple[bool, ...]",
        *,
        paired: "bool",
        most: "int",
    ))]
    #[expect(clippy::needless_pass_by_value, reason = "converted anyway")]
    fn new(
        key: Place<'_>,
        by: Place<'_>,
        descending: Vec<bool>,
        paired: bool,
        most: usize,
    ) -> PyResult<Self> {
        let (key, record) = key_and_record(key.as_ref(), paired)?;
        let by = match key_path(&Key::new(by.as_ref())?) {
            KeyPath::One(one) => vec![one],
            KeyPath::Tuple(several) => several,
        };
        let by = by.into_iter().zip(descending);
        let by = by.map(|(path, descending)| RankedBy { path, descending });
        let top = oka_compute::Top::new(key, record, by.collect(), most);
        Ok(Self { state: top.into() })
    }

    /// Takes a batch in. Gives each key whose first records are others now with the list of these, or None if they are
    /// not `wanted`. Or why it cannot be done here: nothing has happened then.
    #[pyo3(signature = (batch: "Batch", wanted: "bool") -> "Batch | str | None")]
    fn add<'py>(
        &self,
        py: Python<'py>,
        batch: &Batch,
        wanted: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Content::Records(received) = batch.content()? else {
            return Ok("columns".into_pyobject(py)?.into_any());
        };
        let mut top = self.top()?;
        let top = &mut *top;
        let added = detached(py, received.size(), || {
            let changed = top.add(received.bodies())?;
            Ok(wanted.then(|| encoded(top, changed)))
        });
        match added {
            Ok(pairs) => Ok(pairs.transpose()?.into_pyobject(py)?.into_any()),
            Err::<_, Problem>(problem) => Ok(problem.to_string().into_pyobject(py)?.into_any()),
        }
    }

    /// The keys from this one on in the order in which they came, `most` at most, each with the list of its first
    /// records.
    #[pyo3(signature = (first: "int", most: "int") -> "Batch")]
    fn found(&self, first: usize, most: usize) -> PyResult<Batch> {
        let top = self.top()?;
        let numbers = first..top.len().min(first.saturating_add(most));
        encoded(&top, numbers)
    }

    /// The first records of all keys as they are now.
    #[pyo3(signature = () -> "KeyedEntries")]
    fn entries(&self) -> PyResult<KeyedEntries> {
        Ok(KeyedEntries::of_copied(self.top()?.copied()))
    }

    /// Goes on with what others kept, before the first batch. False if that cannot be done here.
    #[pyo3(signature = (entries: "KeyedEntries") -> "bool")]
    fn restore(&self, py: Python<'_>, entries: &KeyedEntries) -> PyResult<bool> {
        let mut top = self.top()?;
        let mut entries = entries.entries(py)?.iter();
        Ok(entries.all(|(_, key, records)| top.restore(key, records).is_ok_and(|done| done)))
    }
}

impl Top {
    fn top(&self) -> PyResult<MutexGuard<'_, oka_compute::Top>> {
        alone(
            &self.state,
            "the records are in use\n\nhint: they belong to one thread",
        )
    }
}

/// These keys with the lists of their first records.
fn encoded(top: &oka_compute::Top, keys: impl IntoIterator<Item = usize>) -> PyResult<Batch> {
    let (mut frame, mut pairs) = (vec![0; HEADER_BYTES], 0);
    for number in keys {
        pairs += 1;
        if !top.encode(number, &mut frame) {
            return Err(value_error(Problem::TooLarge));
        }
    }
    Ok(ReceivedFrames::of_frame(Encoding::Msgpack, pairs, frame).into())
}
