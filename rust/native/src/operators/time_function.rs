//! A lifted function that says where the time of a record is.

use crate::error::alone;
use crate::network::batch::{Batch, Content};
use crate::operators::program::expression;
use crate::operators::times::unit;
use oka_codec::Decoder;
use oka_compute::{Reader, Unit, value};
use oka_expression::{Single, Unusual};
use oka_window::is_near;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard};

/// A function of records that gives their times, as an expression, for operators that read times in Rust.
///
/// `lifted` is the data of its `Expression`, `unit` what numbers count: "s", "ms", "us" or "ns". Raises ValueError for
/// an operation that is not known here. One thread at a time.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct TimeFunction {
    state: Mutex<LiftedTime>,
}

/// The function at work.
pub(crate) struct LiftedTime {
    function: Single,
    pub(crate) unit: Unit,
    /// Whether it may be called now.
    runs: bool,
    /// Calls with a result.
    calls: usize,
    /// Why the first of those without one gave up.
    gave_up: Option<Unusual>,
}

/// What it gave for a record.
pub(crate) enum FoundTime<'f> {
    Integer(i64),
    Float(f64),
    /// A value that Python reads, encoded: a datetime, or none that is a time.
    Other(&'f [u8]),
}

#[pymethods]
impl TimeFunction {
    #[new]
    #[pyo3(signature = (lifted: "Any", unit: "str"))]
    fn new(lifted: &Bound<'_, PyAny>, unit: &str) -> PyResult<Self> {
        let state = LiftedTime::new(lifted, unit)?;
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Says whether it may be called from now on; it may not before.
    #[pyo3(signature = (runs: "bool") -> "None")]
    fn run(&self, runs: bool) -> PyResult<()> {
        self.state()?.runs = runs;
        Ok(())
    }

    /// How often it has given a time since this was called, and why it gave up, if it did.
    #[pyo3(signature = () -> "tuple[int, str | None]")]
    fn figures(&self) -> PyResult<(usize, Option<String>)> {
        let mut state = self.state()?;
        let gave_up = state.gave_up.take().map(|reason| reason.to_string());
        Ok((std::mem::take(&mut state.calls), gave_up))
    }

    /// What it gives for the only record of a batch, in a tuple; None if it gives up.
    #[pyo3(signature = (record: "Batch") -> "tuple[Any] | None")]
    fn of<'py>(&self, py: Python<'py>, record: &Batch) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let Content::Records(received) = record.content()? else {
            return Ok(None);
        };
        let mut state = self.state()?;
        state.runs = true;
        let bodies = received.bodies().find(|(records, _)| *records > 0);
        let found = bodies.and_then(|(_, body)| state.find(body));
        Ok(match found {
            None => None,
            Some(FoundTime::Integer(number)) => Some((number.into_pyobject(py)?.into_any(),)),
            Some(FoundTime::Float(number)) => Some((number.into_pyobject(py)?.into_any(),)),
            Some(FoundTime::Other(encoded)) => Some((Decoder::new(py).first(encoded)?,)),
        })
    }
}

impl TimeFunction {
    pub(crate) fn state(&self) -> PyResult<MutexGuard<'_, LiftedTime>> {
        alone(
            &self.state,
            "the function is in use\n\nhint: it belongs to one thread",
        )
    }
}

impl LiftedTime {
    pub(crate) fn new(lifted: &Bound<'_, PyAny>, unit: &str) -> PyResult<Self> {
        let function = Single::new(&expression(lifted)?);
        Ok(Self {
            function: function.map_err(|reason| PyValueError::new_err(reason.to_string()))?,
            unit: self::unit(unit)?,
            runs: false,
            calls: 0,
            gave_up: None,
        })
    }

    /// What it gives for a record, which stands in front of whatever follows; `None` where the function itself is to be
    /// called.
    #[inline]
    pub(crate) fn find(&mut self, record: &[u8]) -> Option<FoundTime<'_>> {
        if !self.runs {
            return None;
        }
        match self.function.call(record).and_then(FoundTime::of) {
            Ok(found) => {
                self.calls += 1;
                Some(found)
            }
            Err(reason) => {
                self.gave_up.get_or_insert(reason);
                None
            }
        }
    }
}

impl<'f> FoundTime<'f> {
    /// What the bytes begin with.
    #[inline]
    pub(crate) fn of(encoded: &'f [u8]) -> Result<Self, Unusual> {
        Ok(match Reader::new(encoded).read()? {
            value::Value::Int(number) => Self::Integer(number),
            value::Value::Float(number) => Self::Float(number),
            _ => Self::Other(encoded),
        })
    }

    /// Of a number: so many microseconds before it, where Python takes it for a time, too.
    #[inline]
    pub(crate) fn microseconds(&self, unit: Unit, before: i64) -> Option<i64> {
        let us = match self {
            Self::Integer(number) => unit.of_integer(*number),
            Self::Float(number) => unit.of_float(*number),
            Self::Other(_) => None,
        };
        let us = us?.checked_sub(before)?;
        is_near(us).then_some(us)
    }
}
