//! The keys of records, as a hash-partitioned gate takes them.

use oka_codec::Key;
use oka_protocol::partition::target;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The channel, out of `channels`, of each of `keys`: what a hash-partitioned gate chooses.
#[pyfunction]
#[pyo3(signature = (keys: "list[Any]", channels: "int") -> "list[int]")]
pub(crate) fn partition(keys: &Bound<'_, PyList>, channels: usize) -> PyResult<Vec<usize>> {
    if channels == 0 {
        return Err(PyValueError::new_err(
            "channels is 0, expected at least 1\n\nhint: a key goes to one of the channels",
        ));
    }
    keys.iter()
        .enumerate()
        .map(|(index, key)| {
            let hash = Key::Record.hash(index, &key)?;
            Ok(target(hash, channels))
        })
        .collect()
}

/// Finds the keys of records, as a gate does: an item of a tuple or list, the value of a dict or the
/// field of an object, or a tuple of several.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Finder {
    key: Key,
    given: Py<PyAny>,
}

#[pymethods]
impl Finder {
    #[new]
    #[pyo3(signature = (key: "int | str | tuple[int | str, ...]"))]
    fn new(key: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            key: Key::new(Some(key))?,
            given: key.clone().unbind(),
        })
    }

    /// The key of a record. Raises KeyError or IndexError where it has no such item, else TypeError.
    #[pyo3(signature = (record: "Any") -> "Any")]
    fn find<'py>(&self, record: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.key.of(record)
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (Py<PyAny>,) {
        (self.given.clone_ref(py),)
    }
}
