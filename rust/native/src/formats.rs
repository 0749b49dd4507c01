//! Formats of messages over the boundary: lists of bytes in, record batches out. The GIL is free meanwhile.

use crate::columns::{export, import_schema};
use crate::error::{alone, value_error};
use oka_codec::DecodeError;
use oka_formats::Decoded;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::sync::{Arc, Mutex};

type Messages = Vec<Option<PyBackedBytes>>;
type Rejected = Vec<(usize, String)>;

/// Makes rows of messages that are a JSON object each, by a schema: anything with `__arrow_c_schema__`.
/// Raises ValueError for types that JSON has no values of.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct JsonDecoder {
    decoder: Mutex<oka_formats::JsonDecoder>,
}

#[pymethods]
impl JsonDecoder {
    #[new]
    #[pyo3(signature = (schema: "Any"))]
    fn new(schema: &Bound<'_, PyAny>) -> PyResult<Self> {
        let decoder = oka_formats::JsonDecoder::new(Arc::new(import_schema(schema)?));
        let decoder = Mutex::new(decoder.map_err(value_error)?);
        Ok(Self { decoder })
    }

    /// A pyarrow.RecordBatch of a row for each message that is not rejected, and the places of the others with
    /// a reason. None is a row of nulls.
    #[expect(clippy::needless_pass_by_value, reason = "they are made for this call")]
    #[pyo3(signature = (messages: "list[bytes | None]") -> "tuple[Any, list[tuple[int, str]]]")]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        messages: Messages,
    ) -> PyResult<(Bound<'py, PyAny>, Rejected)> {
        let mut decoder = alone(&self.decoder, IN_USE)?;
        let decoder = &mut *decoder; // a guard stays with its thread
        let found = py.detach(|| decoder.decode(&slices(&messages)));
        let Decoded { rows, rejected } = found.map_err(value_error)?;
        Ok((export(py, rows)?, rejected))
    }
}

/// Makes rows of messages that are a record of Avro each. Without `fetch`, all were written by this schema. With
/// it, a zero and four bytes of an id are in front of each; `fetch` is called with an id once, and gives the
/// writer's schema. If it raises DecodeError, messages with that id are rejected. Raises ValueError for a schema
/// that is none.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct AvroDecoder {
    decoder: Mutex<oka_formats::AvroDecoder>,
    fetch: Option<Py<PyAny>>,
}

#[pymethods]
impl AvroDecoder {
    #[new]
    #[pyo3(signature = (schema: "str | None", fetch: "Any" = None))]
    fn new(schema: Option<String>, fetch: Option<Py<PyAny>>) -> PyResult<Self> {
        let decoder = match (&fetch, schema) {
            (Some(_), schema) => oka_formats::AvroDecoder::of_ids(schema),
            (None, schema) => oka_formats::AvroDecoder::of_schema(schema.unwrap_or_default()),
        };
        let decoder = Mutex::new(decoder.map_err(value_error)?);
        Ok(Self { decoder, fetch })
    }

    /// Batches of a row for each message that is not rejected, and the places of the others with a reason. There
    /// is one batch, unless messages of several schemas came without a schema to read them by.
    #[expect(clippy::needless_pass_by_value, reason = "they are made for this call")]
    #[pyo3(signature = (messages: "list[bytes | None]") -> "tuple[list[Any], list[tuple[int, str]]]")]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        messages: Messages,
    ) -> PyResult<(Vec<Bound<'py, PyAny>>, Rejected)> {
        let mut decoder = alone(&self.decoder, IN_USE)?;
        let decoder = &mut *decoder; // a guard stays with its thread
        let slices = slices(&messages);
        let mut without = Vec::new();
        for id in decoder.unknown(&slices) {
            let fetch = self.fetch.as_ref().expect("ids are known without it");
            match fetch.call1(py, (id,)) {
                Ok(schema) => decoder.add(id, Ok(schema.extract(py)?)),
                Err(error) if error.is_instance_of::<DecodeError>(py) => {
                    decoder.add(id, Err(error.value(py).to_string()));
                    without.push(id);
                }
                Err(error) => return Err(error),
            }
        }
        let found = py.detach(|| decoder.decode(&slices));
        for id in without {
            decoder.forget(id);
        }
        let Decoded { rows, rejected } = found.map_err(value_error)?;
        let rows: PyResult<_> = rows.into_iter().map(|batch| export(py, batch)).collect();
        Ok((rows?, rejected))
    }
}

fn slices(messages: &Messages) -> Vec<Option<&[u8]>> {
    messages.iter().map(Option::as_deref).collect()
}

const IN_USE: &str = "a decoder belongs to one thread, and another is calling it";
