//! A batch of encoded records.

use crate::columns;
use crate::network::gate::for_each;
use arrow_schema::SchemaRef;
use oka_codec::encode::{self, Refusal};
use oka_codec::{DecodeError, Decoder, Pickling, unreadable};
use oka_columnar::{Columns, Selector, goes_as_records};
use oka_compute::value::Reader;
use oka_protocol::HEADER_BYTES;
use oka_transport::{Encoding, ReceivedFrames};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// Records as they travelled: encoded, in order, decoded only on demand. They are Python objects, or
/// the rows of columns.
///
/// `len(batch)` is the number of records. A batch from a network is released by the next `receive`,
/// because its memory belongs to the channel; its records then raise ValueError.
#[pyclass(module = "engine._native")]
pub(crate) struct Batch {
    /// `None` after the batch was released.
    content: Option<Content>,
    channel: u32,
    input: usize,
    records: usize,
    markers: Vec<u64>,
}

/// What an operator has got before.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Records,
    Columns,
}

impl Form {
    /// Of an operator that has columns, or else records; or nothing yet.
    pub(crate) fn before(columns: bool, records: bool) -> Option<Self> {
        match (columns, records) {
            (true, _) => Some(Self::Columns),
            (false, true) => Some(Self::Records),
            (false, false) => None,
        }
    }
}

/// What a batch holds.
pub(crate) enum Content {
    /// Msgpack values.
    Records(ReceivedFrames),
    /// Rows of one schema.
    Columns(Columns),
}

#[pymethods]
impl Batch {
    /// Encodes a list; the batch that a channel would deliver for it. With `pickle`, what cannot
    /// travel otherwise is pickled. Raises EncodeError.
    #[staticmethod]
    #[pyo3(signature = (records: "list[Any]", pickle: "bool" = false))]
    pub(crate) fn from_list(records: &Bound<'_, PyList>, pickle: bool) -> PyResult<Self> {
        let _pickling = Pickling::allow(pickle);
        let mut frames = Vec::new();
        let (mut frame, mut count) = (vec![0; HEADER_BYTES], 0);
        for_each(records, |index, record| {
            // SAFETY: there is a `Bound`, so the GIL is held and the record is valid.
            unsafe { encode::append(record.py(), &mut frame, record.as_ptr(), 0) }
                .map_err(|refused| encode::refusal(index, record, *refused))?;
            if u32::try_from(frame.len()).is_err() {
                return Err(encode::refusal(index, record, Refusal::TooLarge));
            }
            count += 1;
            if frame.len() >= FRAME_BYTES {
                frames.push((count, std::mem::replace(&mut frame, vec![0; HEADER_BYTES])));
                count = 0;
            }
            Ok(())
        })?;
        frames.push((count, frame));
        Ok(Self::of_frames(frames))
    }

    /// A batch of the rows of a pyarrow.RecordBatch, which are not copied.
    #[staticmethod]
    #[pyo3(signature = (columns: "Any") -> "Batch")]
    fn from_columns(columns: &Bound<'_, PyAny>) -> PyResult<Self> {
        let columns = Columns::of(columns::import(columns)?);
        Ok(Self::of_columns(0, 0, columns, Vec::new()))
    }

    /// The batch that a channel would deliver for the dicts of a pyarrow.RecordBatch's rows, whose columns have
    /// different names. Raises EncodeError.
    #[staticmethod]
    #[pyo3(signature = (columns: "Any") -> "Batch")]
    fn of_rows(columns: &Bound<'_, PyAny>) -> PyResult<Self> {
        let batch = columns::import(columns)?;
        match columns::encoded::encoded_rows(&batch) {
            Some(rows) if u32::try_from(rows.len()).is_ok() => {
                Ok(ReceivedFrames::of_body(Encoding::Msgpack, batch.num_rows(), &rows).into())
            }
            _ => Self::from_list(&columns::to_rows(columns)?, false),
        }
    }

    /// A batch of `records` encoded records; decoding it tells whether they are.
    #[staticmethod]
    fn from_bytes(data: &[u8], records: usize) -> Self {
        ReceivedFrames::of_body(Encoding::Msgpack, records, data).into()
    }

    /// A batch of encoded records, given as numbers of records and their bytes.
    #[staticmethod]
    #[pyo3(signature = (frames: "list[tuple[int, bytes]]"))]
    pub(crate) fn from_frames(frames: Vec<(usize, Vec<u8>)>) -> Self {
        Self::joined(
            frames
                .into_iter()
                .map(|(count, body)| ReceivedFrames::of_body(Encoding::Msgpack, count, &body)),
        )
    }

    /// Pickles records as they are encoded. Raises ValueError for columns and released batches.
    #[pyo3(signature = () -> "tuple[Any, ...]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let frames: Vec<_> = self
            .records()?
            .bodies()
            .map(|(count, body)| (count, PyBytes::new(py, body)))
            .collect();
        let make = py.get_type::<Self>().getattr("from_frames")?;
        Ok((make, (frames,)).into_pyobject(py)?.into_any())
    }

    /// What was emitted, anew with every call: a list of records, or a pyarrow.RecordBatch with
    /// memory of its own. Raises DecodeError, ValueError after the batch was released.
    #[pyo3(signature = () -> "Any")]
    pub(crate) fn decode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.content()? {
            Content::Records(received) => Ok(Decoder::new(py).list(received.bodies())?.into_any()),
            Content::Columns(columns) => {
                let decoded = columns.to_batch().map_err(|error| not_columns(&error))?;
                columns::export(py, decoded)
            }
        }
    }

    /// The records as Python objects, anew with every call; of columns, a dict for each row. Raises
    /// DecodeError, ValueError after the batch was released, or for a row that cannot be a dict.
    #[pyo3(signature = () -> "list[Any]")]
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.content()? {
            Content::Records(received) => Decoder::new(py).list(received.bodies()),
            Content::Columns(_) => columns::to_rows(&self.decode(py)?),
        }
    }

    /// The record in the place `first` and each `step`-th behind it, as `to_list` gives them. Raises DecodeError, ValueError
    /// for columns and released batches.
    #[pyo3(signature = (first: "int", step: "int") -> "list[Any]")]
    fn each<'py>(
        &self,
        py: Python<'py>,
        first: usize,
        step: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let (mut decoder, found) = (Decoder::new(py), PyList::empty(py));
        let (mut at, mut next) = (0, first);
        for (count, body) in self.records()?.bodies() {
            let mut reader = Reader::new(body);
            for _ in 0..count {
                let record = reader.encoded().map_err(unreadable)?;
                if at == next {
                    found.append(decoder.first(record)?)?;
                    next = at.saturating_add(step);
                }
                at += 1;
            }
        }
        Ok(found)
    }

    /// Each record as a batch of its own, by which those are found that cannot be decoded. Raises
    /// DecodeError where it cannot be told where they end, ValueError for columns and released
    /// batches.
    #[pyo3(signature = () -> "list[Batch]")]
    fn apart(&self) -> PyResult<Vec<Self>> {
        let mut found = Vec::with_capacity(self.records);
        for (count, body) in self.records()?.bodies() {
            let mut reader = Reader::new(body);
            for _ in 0..count {
                let record = reader.encoded().map_err(unreadable)?;
                let record = ReceivedFrames::of_body(Encoding::Msgpack, 1, record);
                found.push(Self {
                    channel: self.channel,
                    input: self.input,
                    ..record.into()
                });
            }
        }
        Ok(found)
    }

    /// Id of the channel that it came from; where small batches of several came together, of the
    /// first of them. 0 for a batch that no channel delivered.
    #[getter]
    fn channel(&self) -> u32 {
        self.channel
    }

    /// Number of the input, in the order of `connect`, that all its records came from.
    #[getter]
    fn input(&self) -> usize {
        self.input
    }

    #[setter]
    fn set_input(&mut self, input: usize) {
        self.input = input;
    }

    /// Stamps (nanoseconds) of the markers that travelled behind the records.
    #[getter]
    fn markers(&self) -> Vec<u64> {
        self.markers.clone()
    }

    /// Bytes of the encoded records; 0 after the batch was released.
    #[getter]
    fn size(&self) -> usize {
        match &self.content {
            Some(Content::Records(received)) => received.size(),
            Some(Content::Columns(columns)) => columns.size(),
            None => 0,
        }
    }

    /// Whether its records are rows of columns; False after the batch was released.
    #[getter]
    fn has_columns(&self) -> bool {
        matches!(self.content, Some(Content::Columns(_)))
    }

    fn __len__(&self) -> usize {
        self.records
    }

    fn __repr__(&self) -> String {
        format!("<Batch of {} records, {} bytes>", self.records, self.size())
    }
}

impl Batch {
    /// A batch of encoded records, given as numbers of records and their bytes, each behind room for a header.
    pub(crate) fn of_frames(frames: Vec<(usize, Vec<u8>)>) -> Self {
        Self::joined(
            frames
                .into_iter()
                .map(|(count, frame)| ReceivedFrames::of_frame(Encoding::Msgpack, count, frame)),
        )
    }

    fn joined(mut received: impl Iterator<Item = ReceivedFrames>) -> Self {
        let first = received.next();
        let mut whole = first.unwrap_or_else(|| ReceivedFrames::of_body(Encoding::Msgpack, 0, &[]));
        received.for_each(|next| whole.absorb(next));
        whole.into()
    }

    /// Rows of a channel, with the markers behind them.
    pub(crate) fn of_columns(
        channel: u32,
        input: usize,
        columns: Columns,
        markers: Vec<u64>,
    ) -> Self {
        Self {
            channel,
            input,
            records: columns.rows(),
            markers,
            content: Some(Content::Columns(columns)),
        }
    }

    /// The same records in the form that an operator has: as columns, or as encoded records; None
    /// where they have it. It has no form while it has nothing. Raises TypeError for records that
    /// cannot be columns, and where keys that are equal may be in another task in the other form.
    pub(crate) fn in_form(
        &self,
        py: Python<'_>,
        form: Option<Form>,
        key: impl FnOnce() -> PyResult<Vec<Selector>>,
    ) -> PyResult<Option<Self>> {
        let (made, schema) = match (self.content()?, form) {
            (Content::Columns(columns), Some(Form::Records)) => {
                let records = Self::from_list(&self.to_list(py)?, false)?;
                (records, SchemaRef::clone(columns.schema()))
            }
            (Content::Records(_), Some(Form::Columns)) if self.records > 0 => {
                let batch = columns::of_records(&self.to_list(py)?)?;
                let schema = batch.schema();
                (
                    Self::of_columns(0, 0, Columns::of(batch), Vec::new()),
                    schema,
                )
            }
            _ => return Ok(None),
        };
        if goes_as_records(&key()?, &schema) {
            Ok(Some(made))
        } else {
            Err(divided())
        }
    }

    /// What was received, unless it was released.
    pub(crate) fn content(&self) -> PyResult<&Content> {
        self.content.as_ref().ok_or_else(|| {
            PyValueError::new_err(
                "the batch was released\n\nhint: decode it before the next one is received",
            )
        })
    }

    /// As `content`, of records alone.
    fn records(&self) -> PyResult<&ReceivedFrames> {
        match self.content()? {
            Content::Records(received) => Ok(received),
            Content::Columns(_) => Err(PyValueError::new_err(
                "a batch of columns, expected records",
            )),
        }
    }

    /// Gives the memory back to the channel.
    pub(crate) fn release(&mut self) {
        self.content = None;
    }
}

impl From<ReceivedFrames> for Batch {
    fn from(mut received: ReceivedFrames) -> Self {
        Self {
            channel: received.channel,
            input: received.input,
            records: received.records,
            markers: std::mem::take(&mut received.markers),
            content: Some(Content::Records(received)),
        }
    }
}

/// The exception for bytes that are no columns.
pub(crate) fn not_columns(error: &oka_columnar::DecodeError) -> PyErr {
    DecodeError::new_err(format!(
        "these are no encoded columns: {error}\n\nhint: do all tasks run the same version of oka?"
    ))
}

/// The exception where the task of a key depends on the form.
#[cold]
fn divided() -> PyErr {
    PyTypeError::new_err(
        "columns and records come to one operator, and their keys are times, decimals or of \
         another type by which columns and records are divided differently\n\nhint: call \
         .to_records() on the columns before union",
    )
}

/// Records in one frame of a list's batch take at least so much, but for the last.
const FRAME_BYTES: usize = 1 << 26;
