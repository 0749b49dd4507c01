//! What Python tells of values that aggregates on encoded records do not read themselves.

use crate::decode::Decoder;
use crate::encode;
use crate::extension::Extensions;
use oka_compute::objects::Objects;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// Decodes values, asks Python, and encodes what it says. It takes the GIL for each.
pub(crate) struct PythonObjects;

impl Objects for PythonObjects {
    fn plain_key(&self, key: &[u8]) -> Result<Vec<u8>, String> {
        told(|py| {
            let key = Decoder::new(py).first(key)?;
            encoded(&Extensions::of(py)?.canonical_key(&key)?)
        })
    }

    fn number(&self, value: &[u8]) -> Result<Option<Vec<u8>>, String> {
        told(|py| {
            let value = Decoder::new(py).first(value)?;
            let number = Extensions::of(py)?.number(&value)?;
            (!number.is_none()).then(|| encoded(&number)).transpose()
        })
    }

    fn plus(&self, left: &[u8], right: &[u8]) -> Result<Vec<u8>, String> {
        told(|py| {
            let [left, right] = both(py, left, right)?;
            encoded(&left.add(right)?)
        })
        .map_err(of_one_kind)
    }

    fn is_less(&self, left: &[u8], right: &[u8]) -> Result<bool, String> {
        told(|py| {
            let [left, right] = both(py, left, right)?;
            left.lt(right)
        })
        .map_err(of_one_kind)
    }

    fn float(&self, value: &[u8]) -> Result<f64, String> {
        told(|py| {
            let value = Decoder::new(py).first(value)?;
            py.get_type::<pyo3::types::PyFloat>()
                .call1((value,))?
                .extract()
        })
    }
}

fn both<'py>(py: Python<'py>, left: &[u8], right: &[u8]) -> PyResult<[Bound<'py, PyAny>; 2]> {
    let mut decoder = Decoder::new(py);
    Ok([decoder.first(left)?, decoder.first(right)?])
}

fn encoded(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    // SAFETY: there is a `Bound`, so the GIL is held and the value is valid.
    unsafe { encode::append(value.py(), &mut out, value.as_ptr(), 0) }
        .map_err(|refused| encode::refusal(0, value, *refused))?;
    Ok(out)
}

#[cold]
fn of_one_kind(words: String) -> String {
    if words.contains("\n\nhint: ") {
        words
    } else {
        format!("{words}\n\nhint: make values of one kind by map first")
    }
}

/// What Python raises, in its words; of a TypeError these alone.
fn told<T>(ask: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, String> {
    Python::attach(|py| {
        ask(py).map_err(|error| {
            let words = error.value(py).to_string();
            if error.is_instance_of::<PyTypeError>(py) {
                words
            } else {
                error.to_string()
            }
        })
    })
}
