//! A batch of encoded records.

use crate::decode::Decoder;
use crate::encode;
use crate::gate::for_each;
use oka_transport::{Encoding, Received};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Records as they travelled: encoded, in order, decoded only on demand.
///
/// `len(batch)` is the number of records. A batch from a network is released by the next `receive`,
/// because its memory belongs to the channel; its records then raise ValueError.
#[pyclass(module = "engine._native")]
pub(crate) struct Batch {
    received: Option<Received>,
    records: usize,
    markers: Vec<u64>,
}

#[pymethods]
impl Batch {
    /// Encodes a list; the batch that a channel would deliver for it. Raises EncodeError.
    #[staticmethod]
    #[pyo3(signature = (records: "list[Any]"))]
    fn from_list(records: &Bound<'_, PyList>) -> PyResult<Self> {
        let mut body = Vec::new();
        for_each(records, |index, record| {
            // SAFETY: there is a `Bound`, so the GIL is held and the record is valid.
            unsafe { encode::append(record.py(), &mut body, record.as_ptr(), 0) }
                .map_err(|refused| encode::refusal(index, record, *refused))
        })?;
        Ok(Received::of_body(Encoding::Msgpack, records.len(), &body).into())
    }

    /// A batch of `records` encoded records; decoding it tells whether they are.
    #[staticmethod]
    fn from_bytes(data: &[u8], records: usize) -> Self {
        Received::of_body(Encoding::Msgpack, records, data).into()
    }

    /// The records as Python objects, anew with every call. Raises DecodeError, ValueError after the
    /// batch was released.
    #[pyo3(signature = () -> "list[Any]")]
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        Decoder::new(py).list(self.received()?.bodies())
    }

    /// Stamps (nanoseconds) of the markers that travelled behind the records.
    #[getter]
    fn markers(&self) -> Vec<u64> {
        self.markers.clone()
    }

    /// Bytes of the encoded records; 0 after the batch was released.
    #[getter]
    fn size(&self) -> usize {
        self.received.as_ref().map_or(0, Received::size)
    }

    fn __len__(&self) -> usize {
        self.records
    }

    fn __repr__(&self) -> String {
        format!("<Batch of {} records, {} bytes>", self.records, self.size())
    }
}

impl Batch {
    /// What was received, unless it was released.
    pub(crate) fn received(&self) -> PyResult<&Received> {
        self.received.as_ref().ok_or_else(|| {
            PyValueError::new_err(
                "the batch was released\n\nhint: decode it before the next one is received",
            )
        })
    }

    /// Gives the memory back to the channel.
    pub(crate) fn release(&mut self) {
        self.received = None;
    }
}

impl From<Received> for Batch {
    fn from(mut received: Received) -> Self {
        Self {
            records: received.records,
            markers: std::mem::take(&mut received.markers),
            received: Some(received),
        }
    }
}
