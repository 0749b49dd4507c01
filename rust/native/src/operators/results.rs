//! What was computed, as Python objects.

use crate::columns;
use crate::operators::calls::AggregateCall;
use crate::operators::refused::raise_columns;
use arrow_array::RecordBatch;
use oka_codec::Decoder;
use oka_columnar::AggregateError;
use oka_compute::{
    Accumulated, Aggregation, Found, Problem, Regression, Unit, Update, integer_mean,
};
use oka_window::Window;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use std::iter;

/// Results of windows as Python objects.
pub(crate) struct Rows<'a, 'py> {
    py: Python<'py>,
    decoder: Decoder<'py>,
    shown: Shown<'a>,
    like: Option<&'a Like>,
    /// A window, and its start and end in the form of the records' times.
    bounds: Option<(Window, Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    made: Vec<Bound<'py, PyTuple>>,
}

impl<'a, 'py> Rows<'a, 'py> {
    pub(crate) fn new(py: Python<'py>, shown: Shown<'a>, like: Option<&'a Like>) -> Self {
        Self {
            py,
            decoder: Decoder::new(py),
            shown,
            like,
            bounds: None,
            made: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, window: Window, update: &Update) -> Result<(), ResultError> {
        let py = self.py;
        if !matches!(&self.bounds, Some((known, ..)) if *known == window) {
            let like = |us: i64| match self.like {
                Some(like) => like.time(py, us),
                None => Ok(us.into_pyobject(py)?.into_any()),
            };
            self.bounds = Some((window, like(window.start)?, like(window.end)?));
        }
        let Some((_, start, end)) = &self.bounds else {
            return Ok(());
        };
        let value = value(py, &mut self.decoder, update, self.shown)?;
        self.made.push(if self.shown.is_keyed {
            let key = self.decoder.first(update.key)?;
            (key, value, start, end).into_pyobject(py)?
        } else {
            (value, start, end).into_pyobject(py)?
        });
        Ok(())
    }

    pub(crate) fn list(self) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(self.py, self.made)?.into_any())
    }
}

/// Why there is no result, of no record of its own; boxed so that a success stays small.
pub(crate) struct ResultError(Box<PyErr>);

impl From<PyErr> for ResultError {
    fn from(error: PyErr) -> Self {
        Self(Box::new(error))
    }
}

impl From<Problem> for ResultError {
    fn from(problem: Problem) -> Self {
        raise_columns(&problem.into()).into()
    }
}

impl From<ResultError> for PyErr {
    fn from(error: ResultError) -> Self {
        *error.0
    }
}

/// Gives microseconds in the form of records' times.
pub(crate) struct Like {
    pub(crate) call: Py<PyAny>,
    /// What times count that are integers: those that come to one need no call.
    pub(crate) unit: Option<Unit>,
}

impl Like {
    pub(crate) fn time<'py>(&self, py: Python<'py>, us: i64) -> PyResult<Bound<'py, PyAny>> {
        let of_unit = |unit: Unit| {
            let is_whole = us % unit.microseconds() == 0;
            is_whole.then(|| unit.to_integer(us)).flatten()
        };
        match self.unit.and_then(of_unit) {
            Some(number) => Ok(number.into_pyobject(py)?.into_any()),
            None => self.call.bind(py).call1((us,)),
        }
    }
}

/// What was computed, and the names of the values, where they are several.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) wanted: &'a [AggregateCall],
    pub(crate) names: Option<&'a [Py<PyString>]>,
    /// Whether a result has its key in front.
    pub(crate) is_keyed: bool,
}

/// The value of a key, or a dict of several.
pub(crate) fn value<'py>(
    py: Python<'py>,
    decoder: &mut Decoder<'py>,
    update: &Update,
    shown: Shown,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(names) = shown.names else {
        return object(py, decoder, update.value, &shown.wanted[0]);
    };
    let values = PyDict::new(py);
    let each = names.iter().zip(shown.wanted).zip(update.values());
    for ((name, wanted), value) in each {
        values.set_item(name, object(py, decoder, value, wanted)?)?;
    }
    Ok(values.into_any())
}

pub(crate) fn exported(
    py: Python<'_>,
    batch: Result<Option<RecordBatch>, AggregateError>,
) -> PyResult<Bound<'_, PyAny>> {
    match batch.map_err(|error| raise_columns(&error))? {
        Some(batch) => columns::export(py, batch),
        None => Ok(PyList::empty(py).into_any()),
    }
}

/// A value of one aggregation.
pub(crate) fn object<'py>(
    py: Python<'py>,
    decoder: &mut Decoder<'py>,
    value: &Accumulated,
    wanted: &AggregateCall,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Accumulated::Integer(number) => match i64::try_from(*number) {
            Ok(number) => number.into_pyobject(py).map(Bound::into_any),
            Err(_) => number.into_pyobject(py).map(Bound::into_any),
        }
        .map_err(PyErr::from),
        Accumulated::Bool(truth) => Ok(truth.into_pyobject(py)?.to_owned().into_any()),
        Accumulated::Float(number) => Ok(number.into_pyobject(py)?.into_any()),
        Accumulated::Text(utf8) => {
            let text = PyString::from_bytes(py, utf8).or_else(|_| {
                let utf8 = PyBytes::new(py, utf8);
                PyString::from_encoded_object(&utf8, Some(c"utf-8"), Some(c"surrogatepass"))
            });
            Ok(text?.into_any())
        }
        Accumulated::Bytes(data) => Ok(PyBytes::new(py, data).into_any()),
        Accumulated::Encoded(encoded) => decoder.first(encoded),
        Accumulated::IntegerMean { count, sum } => {
            Ok(integer_mean(*sum, *count).into_pyobject(py)?.into_any())
        }
        Accumulated::FloatMean { count, sum } => {
            Ok((sum / *count as f64).into_pyobject(py)?.into_any())
        }
        Accumulated::EncodedMean { count, sum } => decoder.first(sum)?.div(*count),
        Accumulated::Nothing => Ok(py.None().into_bound(py)),
        Accumulated::Gathered(values) => Ok(decoder.list(iter::once(values.values()))?.into_any()),
        Accumulated::Tally(tally) if wanted.aggregation == Aggregation::Top => {
            let most = wanted.parameters.first().map_or(0, |most| *most as usize);
            let top = tally.top(most).into_iter();
            let top = top.map(|(value, count)| Ok((decoder.first(value)?, count)));
            Ok(PyList::new(py, top.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        Accumulated::Tally(tally) => Ok(tally.len().into_pyobject(py)?.into_any()),
        value => match value.found(wanted.aggregation, &wanted.parameters) {
            None => Ok(py.None().into_bound(py)),
            Some(Found::Float(number)) => Ok(number.into_pyobject(py)?.into_any()),
            Some(Found::Floats(numbers)) => Ok(PyList::new(py, numbers)?.into_any()),
            Some(Found::Count(count)) => Ok(count.into_pyobject(py)?.into_any()),
            Some(Found::Regression(line)) => figures(py, &line),
        },
    }
}

/// A dict, as a row of columns has it.
fn figures<'py>(py: Python<'py>, line: &Regression) -> PyResult<Bound<'py, PyAny>> {
    let found = PyDict::new(py);
    for (place, (name, figure)) in line.figures().into_iter().enumerate() {
        if place == COUNT_AT {
            found.set_item("count", line.count)?;
        }
        found.set_item(name, figure)?;
    }
    Ok(found.into_any())
}

/// Behind slope, intercept and r2.
const COUNT_AT: usize = 3;
