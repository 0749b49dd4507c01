//! Latency histograms and the clock of the stamps.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Latencies with 3 significant digits: nanoseconds in, microseconds out. Thread-safe.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct LatencyHistogram {
    histogram: Mutex<oka_protocol::LatencyHistogram>,
}

#[pymethods]
impl LatencyHistogram {
    #[new]
    fn new() -> Self {
        Self {
            histogram: Mutex::default(),
        }
    }

    /// Reads what `to_bytes` wrote. Raises ValueError.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Self {
            histogram: Mutex::new(parse(data)?),
        })
    }

    /// Records one latency in nanoseconds.
    fn record(&self, nanoseconds: u64) {
        self.lock().record(nanoseconds);
    }

    /// Records for each stamp (nanoseconds) the latency until now; a stamp in the future is 0.
    #[pyo3(signature = (stamps: "list[int]", now_ns: "int"))]
    fn record_many(&self, stamps: Vec<u64>, now_ns: u64) {
        let mut histogram = self.lock();
        for stamp in stamps {
            histogram.record(now_ns.saturating_sub(stamp));
        }
    }

    /// Adds the histogram in `data`, which `to_bytes` wrote. Raises ValueError.
    fn merge(&self, data: &[u8]) -> PyResult<()> {
        self.lock().merge(&parse(data)?);
        Ok(())
    }

    /// The histogram in the V2 format of HDR histograms, values in nanoseconds.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.lock().to_bytes())
    }

    /// How many latencies are at most each bound and above the one before it, then those above the
    /// last. Bounds are in nanoseconds and rise. One within 0.1 % of a bound may count on either side.
    #[pyo3(signature = (bounds_ns: "list[int]"))]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the list is converted anyway"
    )]
    fn counts_between(&self, bounds_ns: Vec<u64>) -> Vec<u64> {
        self.lock().counts_between(&bounds_ns)
    }

    /// Number of recorded latencies.
    #[getter]
    fn count(&self) -> u64 {
        self.lock().count()
    }

    /// Mean in microseconds; 0 when empty.
    #[getter]
    fn mean(&self) -> f64 {
        self.lock().mean()
    }

    /// Largest latency in microseconds; 0 when empty.
    #[getter]
    fn max(&self) -> f64 {
        self.lock().maximum()
    }

    /// The latency in microseconds that `percentile` (0-100) of all do not exceed; 0 when empty.
    fn percentile(&self, percentile: f64) -> f64 {
        self.lock().percentile(percentile)
    }
}

impl LatencyHistogram {
    /// Never waits: the lock is only held with the GIL, and no Python code runs under it.
    fn lock(&self) -> MutexGuard<'_, oka_protocol::LatencyHistogram> {
        self.histogram
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(data: &[u8]) -> PyResult<oka_protocol::LatencyHistogram> {
    oka_protocol::LatencyHistogram::from_bytes(data)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}
