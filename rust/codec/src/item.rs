//! Items of records of all kinds.

use crate::key::Key;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

impl Key {
    /// The item of a record, of whatever kind that is: as Python looks for it where a gate would not.
    #[inline]
    pub fn item<'py>(&self, record: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Self::Item(index @ 0..) = self
            && let Ok(tuple) = record.cast_exact::<PyTuple>()
            && (*index as usize) < tuple.len()
        {
            // SAFETY: the tuple has so many items.
            return Ok(unsafe { tuple.get_borrowed_item_unchecked(*index as usize) }.to_owned());
        }
        self.item_of_any(record)
    }

    #[inline(never)]
    fn item_of_any<'py>(&self, record: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Self::Tuple(keys) = self {
            let items = keys.iter().map(|key| key.item(record));
            let items = PyTuple::new(record.py(), items.collect::<PyResult<Vec<_>>>()?)?;
            return Ok(items.into_any());
        }
        // SAFETY: there is a `Bound`, so the GIL is held and the record is valid.
        match unsafe { self.find(record) } {
            // SAFETY: the record has what was found.
            Ok(found) => Ok(unsafe { Bound::from_borrowed_ptr(record.py(), found) }),
            Err(_) => self.item_by_call(record),
        }
    }

    #[cold]
    fn item_by_call<'py>(&self, record: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Item(item) => record.get_item(item),
            Self::Field(field) => {
                let found = self.of(record);
                found.or_else(|error| record.get_item(field).map_err(|_| error))
            }
            _ => self.of(record),
        }
    }
}
