//! Why bytes are no records, as exceptions.

use crate::encode::MAX_DEPTH;
use crate::error::{DecodeError, Raised};
use oka_compute::value::{ReadError, Reader};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

#[inline]
pub(super) fn check_count(count: usize, reader: &Reader) -> Result<(), Raised> {
    if count > reader.rest().len() {
        return Err(malformed(&format!(
            "{count} values in {} bytes",
            reader.rest().len()
        )));
    }
    Ok(())
}

#[inline]
pub(super) fn check_depth(depth: usize) -> Result<(), Raised> {
    if depth > MAX_DEPTH {
        return Err(malformed("a value nested too deeply"));
    }
    Ok(())
}

#[cold]
pub(super) fn malformed(reason: &str) -> Raised {
    DecodeError::new_err(format!(
        "these are no encoded records: {reason}\n\nhint: do all tasks run the same version of oka?"
    ))
    .into()
}

#[cold]
pub fn unreadable(error: ReadError) -> Raised {
    malformed(&error.to_string())
}

/// Keys and elements that Python cannot hash.
#[cold]
pub(super) fn unsuitable(error: &PyErr) -> Raised {
    malformed(&error.to_string())
}

/// An error of the Python function that was to make a value of the bytes.
#[cold]
pub(super) fn because(py: Python<'_>, error: PyErr, what: &str) -> Raised {
    if error.is_instance_of::<DecodeError>(py) || !error.is_instance_of::<PyException>(py) {
        return error.into();
    }
    let raised = PyErr::from(malformed(&format!("{what}: {error}")));
    raised.set_cause(py, Some(error));
    raised.into()
}

/// An error of the function that was to find a class, which has a hint of its own.
#[cold]
pub(super) fn unknown_class(py: Python<'_>, error: PyErr) -> Raised {
    if !error.is_instance_of::<PyException>(py) {
        return error.into();
    }
    let raised = DecodeError::new_err(error.value(py).to_string());
    raised.set_cause(py, Some(error));
    raised.into()
}

/// The exception that is set; text that is no UTF-8 is the sender's fault.
#[cold]
pub(super) fn raised(py: Python<'_>) -> Raised {
    let error = PyErr::fetch(py);
    if error.is_instance_of::<pyo3::exceptions::PyUnicodeDecodeError>(py) {
        return unsuitable(&error);
    }
    error.into()
}
