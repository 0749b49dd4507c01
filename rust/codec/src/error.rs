//! The exceptions of records that cannot be encoded, decoded or keyed, and how values are named in them.

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Declares an exception class. Not `create_exception!`: its classes are missing from the stubs.
#[macro_export]
macro_rules! exception {
    ($(#[doc = $doc:literal])+ $name:ident: $base:ty) => {
        $(#[doc = $doc])+
        #[pyclass(extends = $base, subclass, module = "engine._native")]
        pub struct $name;

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (message: "str"))]
            fn new(message: &Bound<'_, PyAny>) -> Self {
                let _ = message; // the base class keeps it
                Self
            }
        }

        impl $name {
            pub fn new_err(message: impl Into<String>) -> PyErr {
                PyErr::new::<Self, _>((message.into(),))
            }
        }
    };
}

exception! {
    /// A record holds something that cannot travel between tasks.
    EncodeError: PyTypeError
}
exception! {
    /// Received bytes are no records: the sender runs another version, or they are not from a task.
    DecodeError: PyValueError
}
exception! {
    /// A record has no such key, or its key is nothing that a record can be keyed by.
    KeyExtractError: PyException
}

/// An exception, boxed so that a result that is mostly a success stays small.
pub struct Raised(Box<PyErr>);

impl From<PyErr> for Raised {
    fn from(error: PyErr) -> Self {
        Self(Box::new(error))
    }
}

impl From<Raised> for PyErr {
    fn from(raised: Raised) -> Self {
        *raised.0
    }
}

/// The repr of a value, cut in the middle: fit for a message whatever the value's size.
pub fn shortened(value: &Bound<'_, PyAny>) -> String {
    let cut = || -> PyResult<String> {
        let repr = value.py().import("reprlib")?.getattr("Repr")?.call0()?;
        for limit in ["maxstring", "maxother", "maxlong"] {
            repr.setattr(limit, 80)?;
        }
        repr.call_method1("repr", (value,))?.extract()
    };
    cut().unwrap_or_else(|_| format!("a {} without a repr", type_name(value)))
}

/// The name of a value's type.
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().qualname();
    name.map_or_else(|_| "?".to_owned(), |name| name.to_string())
}
