//! Records that travel as pairs with one value.

use oka_codec::encode;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// Records of which each stands for the tuple of it and `beside`, which is the same for all.
///
/// A gate encodes the tuples without making them.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Paired {
    pub(crate) records: Py<PyList>,
    pub(crate) beside: Py<PyAny>,
}

#[pymethods]
impl Paired {
    #[new]
    #[pyo3(signature = (records: "list[Any]", beside: "Any"))]
    fn new(records: Py<PyList>, beside: Py<PyAny>) -> Self {
        Self { records, beside }
    }

    /// The tuples.
    #[pyo3(signature = () -> "list[tuple[Any, Any]]")]
    pub(crate) fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pairs = PyList::empty(py);
        for record in self.records.bind(py) {
            pairs.append(PyTuple::new(py, [record.as_any(), self.beside.bind(py)])?)?;
        }
        Ok(pairs)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.records.bind(py).len()
    }
}

impl Paired {
    /// What is appended behind each record. Raises EncodeError.
    pub(crate) fn encoded(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let mut out = Vec::new();
        // SAFETY: the GIL is held and `beside` is valid; it has an owner.
        unsafe { encode::append(py, &mut out, self.beside.as_ptr(), 1) }
            .map_err(|refused| encode::refusal(0, self.beside.bind(py), *refused))?;
        Ok(out)
    }
}
