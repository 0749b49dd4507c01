//! What comes between the records of a stream.

use oka_transport::Control as Element;
use pyo3::prelude::*;

/// A watermark, idleness or a barrier, in its place between the records of a stream.
#[pyclass(frozen, eq, hash, module = "engine._native")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Control(pub(crate) Element);

#[pymethods]
impl Control {
    /// All records that follow are later than this, in microseconds of event time.
    #[staticmethod]
    fn watermark(time_us: i64) -> Self {
        Self(Element::Watermark(time_us))
    }

    /// Nothing is told about time until the next watermark or record.
    #[staticmethod]
    fn idle() -> Self {
        Self(Element::Idle)
    }

    /// What is before it belongs to the checkpoint of this epoch, from 1; what follows does not.
    #[staticmethod]
    fn barrier(epoch: u64) -> Self {
        Self(Element::Barrier(epoch))
    }

    /// The time of a watermark; None of anything else.
    #[getter]
    fn time_us(&self) -> Option<i64> {
        match self.0 {
            Element::Watermark(time) => Some(time),
            Element::Idle | Element::Barrier(_) => None,
        }
    }

    /// The epoch of a barrier; None of anything else.
    #[getter]
    fn epoch(&self) -> Option<u64> {
        match self.0 {
            Element::Barrier(epoch) => Some(epoch),
            Element::Idle | Element::Watermark(_) => None,
        }
    }

    fn __repr__(&self) -> String {
        match self.0 {
            Element::Watermark(time) => format!("Control.watermark({time})"),
            Element::Idle => "Control.idle()".to_owned(),
            Element::Barrier(epoch) => format!("Control.barrier({epoch})"),
        }
    }
}
