//! The precision of timers.

use pyo3::prelude::*;
use std::num::NonZeroU64;

/// Makes the timers of the calling thread end within a few microseconds of their time, not 50. Linux
/// puts timers off to end several with one wake-up (timer slack); a task that sleeps for tens of
/// microseconds gains nothing from that. Raises OSError.
#[pyfunction]
pub(crate) fn use_precise_timers() -> PyResult<()> {
    rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN))
        .map_err(|error| std::io::Error::from(error).into())
}
