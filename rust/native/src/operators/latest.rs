//! The last value of each key, of many batches.

use crate::columns;
use crate::error::{alone, value_error};
use crate::network::batch::{Batch, Content};
use crate::operators::calls::detached;
use oka_transport::{Encoding, ReceivedFrames};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard};

/// The last value of each key, of record batches with two columns: keys, and values of any type.
///
/// It makes no Python objects of the rows. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
#[derive(Default)]
pub(crate) struct Latest {
    state: Mutex<oka_columnar::Latest>,
}

#[pymethods]
impl Latest {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Takes in a pyarrow.RecordBatch. False, and it was not taken in, if its columns are no keys
    /// and values, or others than those since the last `take`.
    #[pyo3(signature = (batch: "Any") -> "bool")]
    fn add(&self, batch: &Bound<'_, PyAny>) -> PyResult<bool> {
        let batch = columns::import(batch)?;
        self.state()?.add(&batch).map_err(value_error)
    }

    /// The last value of each key as a pyarrow.RecordBatch of two columns; they are forgotten. None
    /// if there are none.
    #[pyo3(signature = () -> "Any")]
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let taken = self.state()?.take().map_err(value_error)?;
        taken.map(|batch| columns::export(py, batch)).transpose()
    }
}

/// The last value of each key, of encoded pairs of a key and a value.
///
/// It makes no Python objects of them. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
#[derive(Default)]
pub(crate) struct LatestPairs {
    state: Mutex<oka_compute::Latest>,
}

#[pymethods]
impl LatestPairs {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Takes in a batch of pairs. False if a record is no pair, or has a key that is not hashable: then the pairs before
    /// it were taken in.
    #[pyo3(signature = (batch: "Batch") -> "bool")]
    fn add(&self, py: Python<'_>, batch: &Batch) -> PyResult<bool> {
        let Content::Records(received) = batch.content()? else {
            return Ok(false);
        };
        let mut state = self.state()?;
        let state = &mut *state;
        Ok(detached(py, received.size(), || {
            (received.bodies()).all(|(pairs, body)| state.add(body, pairs).is_ok())
        }))
    }

    /// The last value of each key, in the order of the keys; they are forgotten. None if there are none.
    #[pyo3(signature = () -> "Batch | None")]
    fn take(&self) -> PyResult<Option<Batch>> {
        let (pairs, body) = self.state()?.take();
        let batch = || ReceivedFrames::of_body(Encoding::Msgpack, pairs, &body).into();
        Ok((pairs > 0).then(batch))
    }
}

impl LatestPairs {
    fn state(&self) -> PyResult<MutexGuard<'_, oka_compute::Latest>> {
        alone(&self.state, IN_USE)
    }
}

impl Latest {
    fn state(&self) -> PyResult<MutexGuard<'_, oka_columnar::Latest>> {
        alone(&self.state, IN_USE)
    }
}

const IN_USE: &str = "the values are in use\n\nhint: they belong to one thread";
