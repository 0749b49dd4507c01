//! Single values in the encoding of records.

use crate::memory::buffer::{readable, view};
use crate::state::found;
use oka_codec::{Decoder, Part, Parts, Pickling, encode};
use pyo3::prelude::*;

/// A value as a record is encoded, in parts one behind the other: byte strings of 64 KiB or more are parts of
/// their own, not copied, if nothing but tuples, lists and dicts is around them. With `pickle`, what cannot be
/// encoded otherwise is pickled. Raises EncodeError.
#[pyfunction]
#[pyo3(signature = (value: "Any", pickle: "bool" = false) -> "list[bytes | memoryview]")]
pub(crate) fn encode_parts<'py>(
    value: &Bound<'py, PyAny>,
    pickle: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _pickling = Pickling::allow(pickle);
    let mut parts = Parts::default();
    let encoded = parts.append(value, 0);
    encoded.map_err(|refused| encode::refusal(0, value, *refused))?;
    let made = parts.finish().into_iter().map(|part| match part {
        Part::Written(bytes) => Ok(view(value.py(), bytes.into())?.into_any()),
        Part::Lent(bytes) => Ok(bytes.into_any()),
    });
    made.collect()
}

/// The value of which `encode_parts` gave this, in a buffer that nobody changes. Raises DecodeError.
#[pyfunction]
#[pyo3(signature = (encoded: "bytes | memoryview") -> "Any")]
pub(crate) fn decode_value<'py>(encoded: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let bytes = readable(encoded)?;
    let values = Decoder::new(encoded.py()).list([(1, &bytes[..])].into_iter())?;
    values.get_item(0)
}

/// What encoded values need of whoever decodes them: the extension codes from that of pickles on, and the names
/// of classes that go by no number. Raises DecodeError.
#[pyfunction]
#[pyo3(signature = (values: "bytes | memoryview") -> "tuple[list[int], list[bytes]]")]
pub(crate) fn needs(values: &Bound<'_, PyAny>) -> PyResult<(Vec<i8>, Vec<Vec<u8>>)> {
    found([&readable(values)?[..]].into_iter())
}
