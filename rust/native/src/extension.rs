//! The Python functions that know what Rust does not: `engine/record/__init__.py` has them.

use crate::objects::PythonObjects;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};
use std::cell::Cell;

/// Registers the functions for values that Rust does not encode itself; once per process.
///
/// `travel(class)` gives an `engine.record.Shape`, or raises TypeError; `find_class(reference)` gives
/// the class that a shape's reference stands for; `decode(code, payload)` gives a value whose
/// payload a shape gave; `plain_key(value)` gives None, a bool, int, float, str, bytes or a tuple
/// of them that is equal for equal values, or raises TypeError; `canonical_key(value)` gives one that
/// is equal for no others of its kind; `number(value)` gives what stands for it in a sum, or None if it
/// is no number; `pickle(value)` gives the payload of a value of any class, or raises TypeError.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "all are functions of one module, and it is called once"
)]
pub(crate) fn register_extensions(
    py: Python<'_>,
    travel: Py<PyAny>,
    find_class: Py<PyAny>,
    decode: Py<PyAny>,
    plain_key: Py<PyAny>,
    canonical_key: Py<PyAny>,
    number: Py<PyAny>,
    pickle: Py<PyAny>,
) -> PyResult<()> {
    oka_compute::classes::resolve_by(crate::shape::names_of);
    oka_compute::objects::register(Box::new(PythonObjects));
    let functions = Extensions {
        travel,
        find_class,
        decode,
        plain_key,
        canonical_key,
        number,
        pickle,
    };
    REGISTERED
        .set(py, functions)
        .map_err(|_| PyRuntimeError::new_err("the extensions of this process are registered"))
}

/// The registered functions.
pub(crate) struct Extensions {
    travel: Py<PyAny>,
    find_class: Py<PyAny>,
    decode: Py<PyAny>,
    plain_key: Py<PyAny>,
    canonical_key: Py<PyAny>,
    number: Py<PyAny>,
    pickle: Py<PyAny>,
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
pub(crate) struct Pickling {
    before: bool,
}

impl Pickling {
    pub(crate) fn allow(allowed: bool) -> Self {
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
