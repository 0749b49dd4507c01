//! The windows of a time, for whoever keeps their values.

use crate::operators::window_fold::far;
use crate::operators::windows::assigner;
use oka_window::{Assigner, Window, Windows, is_near};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Says which windows have a time; `windows` are slices or a calendar of `WindowAggregate`.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct WindowSpans {
    windows: Windows,
}

#[pymethods]
impl WindowSpans {
    #[new]
    #[pyo3(signature = (windows: "tuple[str, list[int]]"))]
    fn new(windows: (String, Vec<i64>)) -> PyResult<Self> {
        match assigner(windows)? {
            Assigner::Sliced(windows) => Ok(Self { windows }),
            other => Err(PyValueError::new_err(format!(
                "{other:?}, expected windows that no record changes"
            ))),
        }
    }

    /// The starts and ends of the windows that have this time, in order, all in microseconds. There is none in a gap
    /// between two.
    #[pyo3(signature = (time_us: "int") -> "list[tuple[int, int]]")]
    fn of(&self, time_us: i128) -> PyResult<Vec<(i128, i128)>> {
        // Windows of one size are the same wherever they are, and times may be beyond 64 bits.
        let slide = self.windows.slide().map(i128::from);
        let base = slide.map_or(0, |slide| time_us - time_us.rem_euclid(slide));
        let near = i64::try_from(time_us - base).ok();
        let Some(time) = near.filter(|time| is_near(*time)) else {
            return Err(far());
        };
        if !self.windows.has(time) {
            return Ok(Vec::new());
        }
        let found = self.windows.of_slice(self.windows.slice(time).start);
        let bounds =
            |window: Window| [window.start, window.end].map(|each| base + i128::from(each));
        Ok(found.map(bounds).map(|[start, end]| (start, end)).collect())
    }
}
