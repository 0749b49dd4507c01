//! The exceptions of `engine._native`, and which Rust error becomes which.

use oka_transport::{BindError, ConnectError, EmitError, FinishError, ReceiveError};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    engine._native,
    EncodeError,
    PyTypeError,
    "A record holds something that cannot travel between tasks."
);
create_exception!(
    engine._native,
    DecodeError,
    PyValueError,
    "Received bytes are no records: the sender runs another version, or something else sent them."
);
create_exception!(
    engine._native,
    KeyExtractError,
    PyException,
    "A record has no such key, or its key is nothing that a record can be keyed by."
);
create_exception!(
    engine._native,
    AggregateError,
    PyException,
    "A record does not suit the aggregate: its key or its value is missing or of the wrong kind."
);
create_exception!(
    engine._native,
    NetworkError,
    PyException,
    "The network of a task could not be set up or could not deliver everything."
);
create_exception!(
    engine._native,
    ChannelLost,
    PyException,
    "A connection between two tasks broke, or a frame on it was missing."
);
create_exception!(
    engine._native,
    Cancelled,
    PyException,
    "The network was cancelled while, or before, the call waited."
);

/// An exception, boxed so that a result that is mostly a success stays small.
pub(crate) struct Raised(Box<PyErr>);

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

/// The exception for an error of the transport.
pub(crate) trait Raise {
    fn raise(self) -> PyErr;
}

impl Raise for BindError {
    fn raise(self) -> PyErr {
        match self {
            Self::Invalid(_) | Self::NoEndpoint => PyValueError::new_err(self.to_string()),
            Self::Refused { .. } | Self::Thread(_) => NetworkError::new_err(self.to_string()),
        }
    }
}

impl Raise for ConnectError {
    fn raise(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Invalid(_) | Self::Duplicate(_) => PyValueError::new_err(message),
            Self::AlreadyConnected => PyRuntimeError::new_err(message),
            Self::TimedOut { .. } => NetworkError::new_err(message),
            Self::Cancelled => Cancelled::new_err(message),
        }
    }
}

impl Raise for EmitError {
    fn raise(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Cancelled => Cancelled::new_err(message),
            Self::Lost(_) => ChannelLost::new_err(message),
            Self::Oversized { .. } => EncodeError::new_err(message),
            Self::Finished(_) => PyRuntimeError::new_err(message),
        }
    }
}

impl Raise for ReceiveError {
    fn raise(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Cancelled => Cancelled::new_err(message),
            Self::Lost(_) => ChannelLost::new_err(message),
        }
    }
}

impl Raise for FinishError {
    fn raise(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Cancelled => Cancelled::new_err(message),
            Self::Lost(_) => ChannelLost::new_err(message),
            Self::Emit(error) => error.raise(),
            Self::TimedOut { .. } => NetworkError::new_err(message),
        }
    }
}

/// The repr of a value, cut in the middle: fit for a message whatever the value's size.
pub(crate) fn shortened(value: &Bound<'_, PyAny>) -> String {
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
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().qualname();
    name.map_or_else(|_| "?".to_owned(), |name| name.to_string())
}
