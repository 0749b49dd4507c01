//! What functions of Python make of records, one value for each window.

use pyo3::prelude::*;
use pyo3::types::PyList;

/// How records become a value, and values that of a window.
pub(super) struct Fold {
    /// Makes the value of the first record; `None` where that is the record itself.
    create: Option<Py<PyAny>>,
    /// Adds one more record; `None` where a value is the list of its records.
    add: Option<Py<PyAny>>,
    /// Makes one of a list of several, which it leaves as they are.
    merge: Py<PyAny>,
    /// Makes the result, of the key, the value, the start and the end; `None` where that is the value.
    finish: Option<Py<PyAny>>,
}

pub(super) type Functions = (
    Option<Py<PyAny>>,
    Option<Py<PyAny>>,
    Py<PyAny>,
    Option<Py<PyAny>>,
);

impl Fold {
    pub(super) fn new((create, add, merge, finish): Functions) -> Self {
        Self {
            create,
            add,
            merge,
            finish,
        }
    }

    /// The value of a first record, which is kept.
    #[inline]
    pub(super) fn create<'py>(&self, record: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = record.py();
        match (&self.add, &self.create) {
            (None, _) => Ok(PyList::new(py, [record])?.into_any()),
            (_, Some(create)) => create.bind(py).call1((record,)),
            (_, None) => Ok(record),
        }
    }

    /// The value with one more record, which may be the one before, changed.
    #[inline]
    pub(super) fn add<'py>(
        &self,
        before: &Bound<'py, PyAny>,
        record: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(add) = &self.add {
            return add.bind(record.py()).call1((before, record));
        }
        before.cast::<PyList>()?.append(record)?;
        Ok(before.clone())
    }

    pub(super) fn merge<'py>(&self, parts: Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
        self.merge.bind(parts.py()).call1((parts,))
    }

    /// The result of a window.
    #[inline]
    pub(super) fn finish<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
        start: &Bound<'py, PyAny>,
        end: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.finish {
            Some(finish) => finish.bind(key.py()).call1((key, value, start, end)),
            None => Ok(value),
        }
    }
}
