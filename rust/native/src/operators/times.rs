//! Event time as Python tells it, and what aggregates of records and of columns give alike.

use crate::columns;
use crate::operators::calls::{PathStep, path, selector};
use crate::operators::refused::{no_column, raise_columns};
use crate::operators::time_function::{FoundTime, TimeFunction};
use crate::state::KeyedEntries;
use arrow_array::RecordBatch;
use oka_codec::Decoder;
use oka_columnar::{AggregateError, Selector};
use oka_compute::{Copied, Problem, TimePath, Unit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The path to the time, what numbers there count ("s", "ms", "us" or "ns"), the name or index of the column
/// where columns have it elsewhere, and how many microseconds before what is found there the time is.
pub(crate) type TimeTuple = (Vec<PathStep>, Option<String>, Option<PathStep>, i64);

/// Where times are, and who reads those that are no numbers.
pub(crate) struct Times {
    /// With a method `microseconds`, which gives the time of what is at the path.
    pub(crate) calls: Py<PyAny>,
    /// Its `function`: what it calls, lifted. `microseconds_of_value` gives the time of a result.
    function: Option<Py<TimeFunction>>,
    pub(crate) unit: Option<Unit>,
    pub(crate) before: i64,
    column: Vec<PathStep>,
}

impl Times {
    /// The way to the time in a record comes beside it.
    pub(crate) fn new(time: TimeTuple, calls: Py<PyAny>) -> PyResult<(Self, TimePath)> {
        let (steps, name, column, before) = time;
        let unit = name.as_deref().map(unit).transpose()?;
        let in_record = TimePath::new(path(&steps), unit).before(before);
        let column = column.map_or(steps, |column| vec![column]);
        let function = Python::attach(|py| {
            let calls = calls.bind(py);
            let function = (!calls.is_none()).then(|| calls.getattr("function"));
            PyResult::Ok(match function.transpose()? {
                Some(function) => function.extract::<Option<Py<TimeFunction>>>()?,
                None => None,
            })
        })?;
        Ok((
            Self {
                calls,
                function,
                unit,
                before,
                column,
            },
            in_record,
        ))
    }

    /// The column of times, and what it counts. Raises where there is none, of these words.
    pub(crate) fn column(&self, of: &str) -> PyResult<(Selector, Unit)> {
        let column = selector(&self.column)?.zip(self.unit);
        column.ok_or_else(|| no_column(of))
    }

    /// Whether a function gives the time: it looks at records alone.
    pub(crate) fn looks_at_records(&self) -> bool {
        self.unit.is_none()
    }

    /// The time of what Rust cannot read: as the lifted function says, or Python.
    pub(crate) fn microseconds(&self, encoded: &[u8]) -> Result<i64, Problem> {
        let told = |error: PyErr| Problem::Told(Python::attach(|py| error.value(py).to_string()));
        let Some(function) = &self.function else {
            return self.ask("microseconds", encoded).map_err(told);
        };
        let mut function = function.get().state().map_err(told)?;
        let unit = function.unit;
        let found = match function.find(encoded) {
            Some(FoundTime::Other(value)) => self.ask("microseconds_of_value", value),
            found => match found.and_then(|found| found.microseconds(unit, self.before)) {
                Some(us) => Ok(us),
                None => self.ask("microseconds", encoded),
            },
        };
        found.map_err(told)
    }

    /// What a method says of what is encoded.
    #[cold]
    fn ask(&self, method: &str, encoded: &[u8]) -> PyResult<i64> {
        Python::attach(|py| {
            let found = Decoder::new(py).first(encoded)?;
            self.calls
                .bind(py)
                .call_method1(method, (found,))?
                .extract()
        })
    }
}

/// The unit of this name.
pub(crate) fn unit(name: &str) -> PyResult<Unit> {
    let unknown = || PyValueError::new_err(format!("unit {name:?}, expected s, ms, us, ns"));
    Unit::named(name).ok_or_else(unknown)
}

/// Batches of what came too late: of columns where there are some, else of encoded records, which are so many.
pub(crate) fn late(
    py: Python<'_>,
    of_columns: Option<Vec<RecordBatch>>,
    of_records: impl FnOnce() -> (usize, Vec<u8>),
) -> PyResult<Vec<Bound<'_, PyAny>>> {
    if let Some(batches) = of_columns {
        let batches = batches.into_iter();
        return batches.map(|batch| columns::export(py, batch)).collect();
    }
    let (records, body) = of_records();
    let late = Decoder::new(py).list([(records, &body[..])].into_iter())?;
    Ok(vec![late.into_any()])
}

/// The layout of columns, where there are some, and what is kept of keys.
pub(crate) fn snapshot(
    of_columns: Option<OfColumns>,
    of_records: impl FnOnce() -> Copied,
) -> PyResult<(Vec<u8>, KeyedEntries)> {
    let Some(exported) = of_columns else {
        return Ok((Vec::new(), KeyedEntries::of_copied(of_records())));
    };
    let (layout, kept) = exported.map_err(|error| raise_columns(&error))?;
    Ok((layout, KeyedEntries::of_copied(kept)))
}

type OfColumns = Result<(Vec<u8>, Copied<AggregateError>), AggregateError>;
