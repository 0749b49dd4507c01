//! A batch of encoded records.

use crate::decode::Decoder;
use crate::encode;
use crate::gate::for_each;
use bytes::Bytes;
use oka_transport::Received;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Records as they travelled: encoded, in order, decoded only on demand.
///
/// Immutable. `len(batch)` is the number of records.
#[pyclass(frozen, module = "engine._native")]
pub(crate) struct Batch {
    pub(crate) body: Bytes,
    pub(crate) records: usize,
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
        Ok(Self {
            body: body.into(),
            records: records.len(),
            markers: Vec::new(),
        })
    }

    /// A batch of `records` encoded records; decoding it tells whether they are.
    #[staticmethod]
    fn from_bytes(data: &[u8], records: usize) -> Self {
        Self {
            body: Bytes::copy_from_slice(data),
            records,
            markers: Vec::new(),
        }
    }

    /// The records as Python objects, anew with every call. Raises DecodeError.
    #[pyo3(signature = () -> "list[Any]")]
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        Decoder::new(py).list(&self.body, self.records)
    }

    /// Stamps (nanoseconds) of the markers that travelled behind the records.
    #[getter]
    fn markers(&self) -> Vec<u64> {
        self.markers.clone()
    }

    /// Bytes of the encoded records.
    #[getter]
    fn size(&self) -> usize {
        self.body.len()
    }

    fn __len__(&self) -> usize {
        self.records
    }

    fn __repr__(&self) -> String {
        let (records, bytes) = (self.records, self.body.len());
        format!("<Batch of {records} records, {bytes} bytes>")
    }
}

impl From<Received> for Batch {
    fn from(received: Received) -> Self {
        Self {
            body: received.body,
            records: received.records as usize,
            markers: received.markers,
        }
    }
}
