//! What the operating system gives.

use pyo3::prelude::*;

/// Makes the timers of the calling thread end within a few microseconds of their time, not 50. Linux
/// puts timers off to end several with one wake-up (timer slack); a task that sleeps for tens of
/// microseconds gains nothing from that. Nothing changes elsewhere. Raises OSError.
#[pyfunction]
pub(crate) fn use_precise_timers() -> PyResult<()> {
    oka_ipc::use_precise_timers().map_err(|error| std::io::Error::from(error).into())
}

/// Whether this is built without what only Linux has, as it is on macOS: channels in shared memory,
/// sealed memory, precise timers.
#[pyfunction]
pub(crate) fn is_portable() -> bool {
    oka_ipc::IS_PORTABLE
}
