//! The calls of aggregate functions, and the paths to keys and values in records.

use crate::operators::refused::{no_column, raise};
use crate::operators::results::Shown;
use oka_codec::Decoder;
use oka_columnar::Selector;
use oka_compute::{AggregateError, Aggregation, KeyPath, Path, Reader, Span, Step, Unit};
use oka_transport::ReceivedFrames;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// One step of a path: an int or a str.
#[derive(FromPyObject)]
pub(crate) enum PathStep {
    Item(i64),
    Field(String),
}

/// A call of an aggregate function.
pub(crate) struct AggregateCall {
    pub(crate) aggregation: Aggregation,
    /// The way from the record to the value.
    pub(crate) path: Vec<PathStep>,
    /// The shares of quantiles, or how many values are wanted.
    pub(crate) parameters: Vec<f64>,
}

/// A call as Python gives it.
#[derive(FromPyObject)]
pub(crate) enum CallTuple {
    Plain(String, Vec<PathStep>),
    With(String, Vec<PathStep>, Vec<f64>),
}

/// What is computed of records or columns by their keys, as Python says it.
pub(crate) struct Computation {
    key: Vec<Vec<PathStep>>,
    wanted: Vec<AggregateCall>,
    /// One for each call, where there are several.
    names: Option<Vec<Py<PyString>>>,
    /// What takes records that fail.
    rescue: Option<Py<PyAny>>,
}

impl Computation {
    pub(crate) fn new(
        key: Vec<Vec<PathStep>>,
        wanted: Vec<CallTuple>,
        names: Option<Vec<Py<PyString>>>,
        rescue: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            key,
            wanted: aggregate_calls(wanted, names.as_deref())?,
            names,
            rescue,
        })
    }

    /// The way to the key.
    pub(crate) fn key(&self) -> PyResult<KeyPath> {
        match &self.key[..] {
            [] => Err(PyValueError::new_err(
                "no path to the key, expected at least one",
            )),
            [only] => Ok(KeyPath::One(path(only))),
            several => Ok(KeyPath::Tuple(
                several.iter().map(|each| path(each)).collect(),
            )),
        }
    }

    /// The first of what is computed, with the way to its value, and those beside it.
    pub(crate) fn paths(&self) -> (Computed, impl Iterator<Item = Computed>) {
        let mut paths = (self.wanted.iter()).map(|each| (each.aggregation, path(&each.path)));
        let first = paths.next();
        (
            first.unwrap_or((Aggregation::Count, Path::default())),
            paths,
        )
    }

    /// Whether a record that fails leaves everything as it was.
    pub(crate) fn is_careful(&self) -> bool {
        self.rescue.is_some()
    }

    pub(crate) fn shown(&self) -> Shown<'_> {
        Shown {
            wanted: &self.wanted,
            names: self.names.as_deref(),
        }
    }

    /// Has encoded records taken in by `update`, which stops at one that fails: that is rescued, and the next
    /// ones follow.
    pub(crate) fn take_in(
        &self,
        py: Python<'_>,
        received: &ReceivedFrames,
        mut update: impl FnMut(&[u8], usize) -> Result<(), AggregateError> + Send,
    ) -> PyResult<()> {
        let mut first = 0;
        for (mut records, mut body) in received.bodies() {
            while let Err(error) = detached(py, body.len(), || update(body, records)) {
                let failed = raise(py, (first, body), &error, &self.wanted);
                body = behind(py, self.rescue.as_ref(), (body, &error), failed)?;
                first += error.record + 1;
                records -= error.record + 1;
            }
            first += records;
        }
        Ok(())
    }

    /// The same over columns.
    pub(crate) fn over_columns(&self) -> PyResult<oka_columnar::Aggregate> {
        let mut aggregate = oka_columnar::Aggregate::by(self.key_columns()?);
        for (at, each) in self.wanted.iter().enumerate() {
            let name = match &self.names {
                Some(names) => names[at].to_string(),
                None => each.aggregation.name().to_owned(),
            };
            let computed = (each.aggregation, &each.parameters[..]);
            aggregate = aggregate.compute_by(name, computed, each.column()?);
        }
        Ok(aggregate)
    }

    /// The same within spans that end at each row. The names of results are those of each span.
    pub(crate) fn over_spans(
        &self,
        time: (Selector, Unit),
        (spans, names): (&[Span], &[String]),
        keeps_late: bool,
    ) -> PyResult<oka_columnar::RollingAggregate> {
        let by = oka_columnar::RollingAggregate::by;
        let mut aggregate = by(self.key_columns()?, time, spans, keeps_late);
        for (at, each) in self.wanted.iter().enumerate() {
            let own = names.iter().skip(at).step_by(self.wanted.len());
            aggregate = aggregate.compute(own.cloned().collect(), each.aggregation, each.column()?);
        }
        Ok(aggregate)
    }

    /// The columns of the key.
    fn key_columns(&self) -> PyResult<Vec<Selector>> {
        let column = |path: &Vec<PathStep>| selector(path)?.ok_or_else(|| no_column("key_by()"));
        self.key.iter().map(column).collect()
    }
}

impl AggregateCall {
    /// The column of the values; a count needs none.
    fn column(&self) -> PyResult<Option<Selector>> {
        match (self.aggregation, selector(&self.path)?) {
            (Aggregation::Count, _) => Ok(None),
            (_, None) => Err(no_column("the aggregation")),
            (_, value) => Ok(value),
        }
    }
}

/// An aggregation, and the way from the record to the value.
type Computed = (Aggregation, Path);

/// The calls that Python gives: one, or one for each name.
fn aggregate_calls(
    tuples: Vec<CallTuple>,
    names: Option<&[Py<PyString>]>,
) -> PyResult<Vec<AggregateCall>> {
    let expected = names.map_or(1, <[_]>::len);
    if tuples.is_empty() || tuples.len() != expected {
        return Err(PyValueError::new_err(format!(
            "{} aggregations, expected one for each name, or one without a name",
            tuples.len()
        )));
    }
    let calls = tuples.into_iter().map(|tuple| {
        let (kind, path, parameters) = match tuple {
            CallTuple::Plain(kind, path) => (kind, path, Vec::new()),
            CallTuple::With(kind, path, parameters) => (kind, path, parameters),
        };
        let aggregation = Aggregation::named(&kind).ok_or_else(|| {
            let all = Aggregation::ALL.map(Aggregation::name).join(", ");
            PyValueError::new_err(format!("aggregation {kind:?}, expected one of {all}"))
        })?;
        Ok(AggregateCall {
            aggregation,
            path,
            parameters,
        })
    });
    calls.collect()
}

pub(crate) fn path(steps: &[PathStep]) -> Path {
    let step = |step: &PathStep| match step {
        PathStep::Item(item) => Step::Item(*item),
        PathStep::Field(field) => Step::Field(field.clone()),
    };
    Path::from(steps.iter().map(step).collect::<Vec<_>>())
}

/// The column that a path leads to; `None` if the path is empty.
pub(crate) fn selector(path: &[PathStep]) -> PyResult<Option<Selector>> {
    match path {
        [] => Ok(None),
        [PathStep::Item(index)] => Ok(Some(Selector::Index(*index as isize))),
        [PathStep::Field(name)] => Ok(Some(Selector::Name(name.clone()))),
        _ => Err(no_column("key_by() with a function")),
    }
}

/// Has a record that failed rescued; returns what follows it in the body. Raises the error where
/// nobody rescues, or where it is not the record's.
#[cold]
fn behind<'b>(
    py: Python<'_>,
    rescue: Option<&Py<PyAny>>,
    (body, error): (&'b [u8], &AggregateError),
    failed: PyErr,
) -> PyResult<&'b [u8]> {
    let mut reader = Reader::new(&body[error.offset..]);
    match rescue {
        Some(rescue) if reader.skip().is_ok() => {
            let record = Decoder::new(py).first(reader.since(0))?;
            rescue.bind(py).call1((record, failed.into_value(py)))?;
            Ok(reader.rest())
        }
        _ => Err(failed),
    }
}

/// Does the work, without the GIL if there are bytes enough.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    bytes: usize,
    work: impl FnOnce() -> T + Send,
) -> T {
    if bytes >= DETACH_BYTES {
        py.detach(work)
    } else {
        work()
    }
}

/// Bodies from this size on are worth giving the GIL up for: doing so takes 40 ns and lets other
/// threads delay the return.
const DETACH_BYTES: usize = 32 * 1024;
