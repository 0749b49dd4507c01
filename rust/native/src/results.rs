//! What was computed, as Python objects.

use crate::columns;
use crate::decode::Decoder;
use crate::error::Raised;
use oka_compute::{Accumulated, Update, integer_mean};
use oka_window::Window;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

/// Results of windows as Python objects.
pub(crate) struct Rows<'a, 'py> {
    py: Python<'py>,
    names: Option<&'a [Py<PyString>]>,
    /// Gives microseconds in the form of the records' times, once there was one.
    like: Option<&'a Py<PyAny>>,
    /// A window, and its start and end in the form of the records' times.
    bounds: Option<(Window, Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    made: Vec<Bound<'py, PyTuple>>,
}

impl<'a, 'py> Rows<'a, 'py> {
    pub(crate) fn new(
        py: Python<'py>,
        names: Option<&'a [Py<PyString>]>,
        like: Option<&'a Py<PyAny>>,
    ) -> Self {
        Self {
            py,
            names,
            like,
            bounds: None,
            made: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, window: Window, update: &Update) -> Result<(), Raised> {
        let py = self.py;
        if !matches!(&self.bounds, Some((known, ..)) if *known == window) {
            let like = |us: i64| match self.like {
                Some(like) => like.bind(py).call1((us,)),
                None => Ok(us.into_pyobject(py)?.into_any()),
            };
            self.bounds = Some((window, like(window.start)?, like(window.end)?));
        }
        let Some((_, start, end)) = &self.bounds else {
            return Ok(());
        };
        let key = Decoder::new(py).first(update.key)?;
        let row = (key, value(py, update, self.names)?, start, end);
        self.made.push(row.into_pyobject(py)?);
        Ok(())
    }

    pub(crate) fn list(self) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(self.py, self.made)?.into_any())
    }
}

/// The value of a key, or a dict of several.
pub(crate) fn value<'py>(
    py: Python<'py>,
    update: &Update,
    names: Option<&[Py<PyString>]>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(names) = names else {
        return object(py, update.value);
    };
    let values = PyDict::new(py);
    for (name, value) in names.iter().zip(update.values()) {
        values.set_item(name, object(py, value)?)?;
    }
    Ok(values.into_any())
}

pub(crate) fn exported(
    py: Python<'_>,
    batch: Option<arrow_array::RecordBatch>,
) -> PyResult<Bound<'_, PyAny>> {
    match batch {
        Some(batch) => columns::export(py, batch),
        None => Ok(PyList::empty(py).into_any()),
    }
}

fn object<'py>(py: Python<'py>, value: &Accumulated) -> PyResult<Bound<'py, PyAny>> {
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
        Accumulated::Encoded(encoded) => Decoder::new(py).first(encoded),
        Accumulated::IntegerMean { count, sum } => {
            Ok(integer_mean(*sum, *count).into_pyobject(py)?.into_any())
        }
        Accumulated::FloatMean { count, sum } => {
            Ok((sum / *count as f64).into_pyobject(py)?.into_any())
        }
    }
}
