//! The last value of each key, of many record batches.

use crate::columns;
use crate::error::alone;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::fmt::Display;
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
        self.state()?.add(&batch).map_err(raise)
    }

    /// The last value of each key as a pyarrow.RecordBatch of two columns; they are forgotten. None
    /// if there are none.
    #[pyo3(signature = () -> "Any")]
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let taken = self.state()?.take().map_err(raise)?;
        taken.map(|batch| columns::export(py, batch)).transpose()
    }
}

impl Latest {
    fn state(&self) -> PyResult<MutexGuard<'_, oka_columnar::Latest>> {
        alone(
            &self.state,
            "the values are in use\n\nhint: they belong to one thread",
        )
    }
}

fn raise(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
