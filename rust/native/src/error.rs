//! The exceptions of `engine._native`, and which Rust error becomes which.

use oka_blob::{CreateError, FillError, MemoryError, WaitError};
use oka_codec::{EncodeError, exception};
use oka_transport::{BindError, ConnectError, EmitError, FinishError, NoInput, ReceiveError};
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, TryLockError};

exception! {
    /// A record does not suit the aggregate: its key or value is missing or of the wrong kind.
    AggregateError: PyException
}
exception! {
    /// The network of a task could not be set up, or could not deliver everything.
    NetworkError: PyException
}
exception! {
    /// A connection between two tasks broke, or a frame on it was missing.
    ChannelLost: PyException
}
exception! {
    /// There is no memory for a blob.
    ResourceError: PyException
}
exception! {
    /// The network was cancelled while, or before, the call waited.
    Cancelled: PyException
}

/// A request to S3 failed: what it was about, and S3's code for it, such as NoSuchKey.
#[pyclass(extends = PyException, subclass, module = "engine._native")]
pub(crate) struct StorageFailed;

#[pymethods]
impl StorageFailed {
    #[new]
    #[pyo3(signature = (message: "str", code: "str"))]
    fn new(message: &Bound<'_, PyAny>, code: &Bound<'_, PyAny>) -> Self {
        let _ = (message, code); // the base class keeps them
        Self
    }
}

impl StorageFailed {
    pub(crate) fn new_err(message: String, code: String) -> PyErr {
        PyErr::new::<Self, _>((message, code))
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
            Self::Refused { .. } | Self::Thread(_) | Self::Memory(_) => {
                NetworkError::new_err(self.to_string())
            }
        }
    }
}

impl Raise for ConnectError {
    fn raise(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Invalid(_) | Self::Duplicate(_) => PyValueError::new_err(message),
            Self::AlreadyConnected => PyRuntimeError::new_err(message),
            Self::TimedOut { .. } | Self::Refused { .. } => NetworkError::new_err(message),
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

impl Raise for NoInput {
    fn raise(self) -> PyErr {
        PyValueError::new_err(self.to_string())
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

impl Raise for oka_blob::BindError {
    fn raise(self) -> PyErr {
        match self {
            Self::Invalid(_) | Self::Setting(_) => PyValueError::new_err(self.to_string()),
            Self::Refused { .. } => NetworkError::new_err(self.to_string()),
        }
    }
}

impl Raise for oka_blob::ConnectError {
    fn raise(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Invalid(_) => PyValueError::new_err(message),
            Self::AlreadyConnected => PyRuntimeError::new_err(message),
            Self::TimedOut { .. } => NetworkError::new_err(message),
            Self::Cancelled => Cancelled::new_err(message),
        }
    }
}

impl Raise for MemoryError {
    fn raise(self) -> PyErr {
        ResourceError::new_err(self.to_string())
    }
}

impl Raise for CreateError {
    fn raise(self) -> PyErr {
        match self {
            Self::Duplicate { .. } => PyValueError::new_err(self.to_string()),
            Self::Memory(error) => error.raise(),
            Self::Cancelled => Cancelled::new_err(self.to_string()),
        }
    }
}

impl Raise for FillError {
    fn raise(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::TooLong { .. } | Self::TooShort { .. } => PyValueError::new_err(message),
            Self::Ended | Self::Viewed | Self::NotViewed => PyRuntimeError::new_err(message),
            Self::Cancelled => Cancelled::new_err(message),
            Self::Memory(error) => error.raise(),
            Self::File { .. } => PyOSError::new_err(message),
        }
    }
}

impl Raise for WaitError {
    fn raise(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Cancelled => Cancelled::new_err(message),
            Self::Lost(_) => ChannelLost::new_err(message),
            Self::TimedOut { .. } => PyTimeoutError::new_err(message),
        }
    }
}

/// A ValueError with the words of an error.
pub(crate) fn value_error(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What the lock guards, for the one thread that it belongs to; RuntimeError where another has it.
pub(crate) fn alone<'a, T>(
    state: &'a Mutex<T>,
    in_use: &'static str,
) -> PyResult<MutexGuard<'a, T>> {
    state.try_lock().or_else(|error| match error {
        TryLockError::Poisoned(poisoned) => Ok(poisoned.into_inner()),
        TryLockError::WouldBlock => Err(PyRuntimeError::new_err(in_use)),
    })
}
