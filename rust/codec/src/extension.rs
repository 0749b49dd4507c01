//! The Python functions that know what Rust does not: `engine/record/__init__.py` has them.

use crate::objects::PythonObjects;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};
use std::cell::Cell;

/// Registers the functions; once per process.
pub fn register(py: Python<'_>, functions: Extensions) -> PyResult<()> {
    oka_compute::classes::resolve_by(crate::shape::names_of);
    oka_compute::objects::register(Box::new(PythonObjects));
    REGISTERED
        .set(py, functions)
        .map_err(|_| PyRuntimeError::new_err("the extensions of this process are registered"))
}

/// The functions, of which `register_extensions` says what each does.
pub struct Extensions {
    pub travel: Py<PyAny>,
    pub find_class: Py<PyAny>,
    pub decode: Py<PyAny>,
    pub plain_key: Py<PyAny>,
    pub canonical_key: Py<PyAny>,
    pub number: Py<PyAny>,
    pub pickle: Py<PyAny>,
}

impl Extensions {
    pub(crate) fn of(py: Python<'_>) -> PyResult<&Self> {
        REGISTERED.get(py).ok_or_else(|| {
            PyRuntimeError::new_err("no extensions are registered\n\nhint: import engine.network")
        })
    }

    pub(crate) fn travel<'py>(&self, class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
        self.travel.bind(class.py()).call1((class,))
    }

    pub(crate) fn find_class<'py>(
        &self,
        py: Python<'py>,
        reference: impl IntoPyObject<'py>,
    ) -> PyResult<Bound<'py, PyType>> {
        let found = self.find_class.bind(py).call1((reference,))?;
        Ok(found.cast_into()?)
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

    pub(crate) fn canonical_key<'py>(
        &self,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.canonical_key.bind(value.py()).call1((value,))
    }

    pub(crate) fn number<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.number.bind(value.py()).call1((value,))
    }

    pub(crate) fn pickle<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let pickled = self.pickle.bind(value.py()).call1((value,))?;
        Ok(pickled.cast_into()?)
    }
}

/// While it lives, what this thread encodes may be pickled where it cannot travel otherwise.
pub struct Pickling {
    before: bool,
}

impl Pickling {
    pub fn allow(allowed: bool) -> Self {
        Self {
            before: PICKLING.replace(allowed),
        }
    }

    pub(crate) fn is_allowed() -> bool {
        PICKLING.get()
    }
}

impl Drop for Pickling {
    fn drop(&mut self) {
        PICKLING.set(self.before);
    }
}

static REGISTERED: PyOnceLock<Extensions> = PyOnceLock::new();
thread_local! {
    static PICKLING: Cell<bool> = const { Cell::new(false) };
}
