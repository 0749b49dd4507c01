//! The Python functions that encode what Rust does not know: `engine/record.py` has them.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

/// Registers the functions for values that Rust does not encode itself; once per process.
///
/// `encode(value)` gives a type code from 16 to 127 and a payload, or raises TypeError; `decode`
/// takes those and gives the value back; `plain_key(value)` gives None, a bool, int, float, str,
/// bytes or a tuple of them that is equal for equal values, or raises TypeError.
#[pyfunction]
pub(crate) fn register_extensions(
    py: Python<'_>,
    encode: Py<PyAny>,
    decode: Py<PyAny>,
    plain_key: Py<PyAny>,
) -> PyResult<()> {
    let functions = Extensions {
        encode,
        decode,
        plain_key,
    };
    REGISTERED
        .set(py, functions)
        .map_err(|_| PyRuntimeError::new_err("the extensions of this process are registered"))
}

/// The registered functions.
pub(crate) struct Extensions {
    encode: Py<PyAny>,
    decode: Py<PyAny>,
    plain_key: Py<PyAny>,
}

impl Extensions {
    pub(crate) fn of(py: Python<'_>) -> PyResult<&Self> {
        REGISTERED.get(py).ok_or_else(|| {
            PyRuntimeError::new_err("no extensions are registered\n\nhint: import engine.network")
        })
    }

    pub(crate) fn encode<'py>(
        &self,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<(i8, Bound<'py, PyBytes>)> {
        self.encode.bind(value.py()).call1((value,))?.extract()
    }

    pub(crate) fn decode<'py>(
        &self,
        py: Python<'py>,
        code: i8,
        payload: &[u8],
    ) -> PyResult<Bound<'py, PyAny>> {
        self.decode
            .bind(py)
            .call1((code, PyBytes::new(py, payload)))
    }

    pub(crate) fn plain_key<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.plain_key.bind(value.py()).call1((value,))
    }
}

static REGISTERED: PyOnceLock<Extensions> = PyOnceLock::new();
