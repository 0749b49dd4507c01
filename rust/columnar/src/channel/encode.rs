//! Encoding record batches as streams of Arrow IPC.

use std::cell::OnceCell;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::Buffer;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::take::take_record_batch;
use thiserror::Error;

use crate::channel::framing::metadata;
use crate::channel::template::Template;
use crate::columns::compact::compact_batch;

/// The writing end of a channel of columns.
///
/// What it appends over time is one Arrow IPC stream, or several behind each other: a schema where
/// batches have another one than before, dictionaries that the reader does not have, batches.
///
/// ```
/// use arrow_array::record_batch;
/// use oka_columnar::{Decoder, Encoder};
///
/// let batch = record_batch!(("word", Utf8, ["to", "be"])).unwrap();
/// let mut body = Vec::new();
/// Encoder::default().append(&batch, &mut body).unwrap();
/// let mut runs = Vec::new();
/// Decoder::default().accept(body.into(), 2, &mut runs).unwrap();
/// assert_eq!(runs[0].to_batch().unwrap(), batch);
/// ```
#[derive(Default)]
pub struct Encoder {
    stream: Option<Stream>,
}

/// Batches of one schema.
struct Stream {
    schema: SchemaRef,
    writer: StreamWriter<Vec<u8>>,
    /// Of the writer's messages, from the first that has rows; `None` where there can be none.
    template: OnceCell<Option<Template>>,
}

impl Encoder {
    /// Appends a batch. After an error `body` is as it was.
    pub fn append(&mut self, batch: &RecordBatch, body: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.append_rows(batch, None, body)
    }

    /// As `append`, of these rows alone, which ascend; of all for `None`.
    pub fn append_rows(
        &mut self,
        batch: &RecordBatch,
        rows: Option<&[u32]>,
        body: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let start = body.len();
        let stream = self.stream_of(batch.schema_ref(), body);
        let appended = stream.and_then(|stream| stream.append(batch, rows, body));
        if appended.is_err() {
            body.truncate(start);
            // What the reader has been told is no longer known.
            self.stream = None;
        }
        Ok(appended?)
    }

    /// The stream of this schema, which begins here unless it is the last one's.
    fn stream_of(
        &mut self,
        schema: &SchemaRef,
        body: &mut Vec<u8>,
    ) -> Result<&mut Stream, ArrowError> {
        let continues =
            |stream: &Stream| Arc::ptr_eq(&stream.schema, schema) || stream.schema == *schema;
        if !self.stream.as_ref().is_some_and(continues) {
            self.stream = None; // where no new one can begin, none goes on
        }
        Ok(match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(Stream::begin(schema, body)?),
        })
    }
}

impl Stream {
    fn begin(schema: &SchemaRef, body: &mut Vec<u8>) -> Result<Self, ArrowError> {
        Ok(Self {
            schema: Arc::clone(schema),
            writer: begin(schema, body)?,
            template: OnceCell::new(),
        })
    }

    fn append(
        &mut self,
        batch: &RecordBatch,
        rows: Option<&[u32]>,
        body: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        let is_empty = rows.map_or(batch.num_rows(), <[u32]>::len) == 0;
        if let (Some(Some(template)), false) = (self.template.get(), is_empty) {
            template.append(batch, rows, body);
            return Ok(());
        }
        let indexes = rows.map(|rows| UInt32Array::from(rows.to_vec()));
        let taken = indexes.map(|rows| take_record_batch(batch, &rows));
        let taken = taken.transpose()?;
        let batch = taken.as_ref().unwrap_or(batch);
        let compacted = compact_batch(batch)?;
        // The writer writes to the end of what it is given; nothing is copied twice.
        let start = body.len();
        std::mem::swap(self.writer.get_mut(), body);
        let written = self.writer.write(compacted.as_ref().unwrap_or(batch));
        std::mem::swap(self.writer.get_mut(), body);
        written?;
        if !is_empty {
            self.template.get_or_init(|| {
                // Copied, so that it is aligned.
                let metadata = Buffer::from(metadata(&body[start..]).ok()?);
                let message = root_as_message(&metadata).ok()?;
                Template::of(&self.schema, message, &metadata)
            });
        }
        Ok(())
    }
}

/// Of some rows of a batch, which ascend between one of the `ends` and the next, an Arrow IPC stream for
/// each of these parts.
pub fn streams(
    batch: &RecordBatch,
    rows: &[u32],
    ends: &[usize],
) -> Result<Vec<Vec<u8>>, EncodeError> {
    let mut begin = Vec::new();
    let mut encoder = Encoder::default();
    encoder.stream_of(batch.schema_ref(), &mut begin)?;
    let is_coded = |field: &&Field| matches!(field.data_type(), DataType::Dictionary(..));
    let has_dictionaries = batch.schema_ref().flattened_fields().iter().any(is_coded);
    let mut start = 0;
    let streams = ends.iter().map(|end| {
        let part = Some(&rows[start..*end]);
        start = *end;
        let mut stream = Vec::new();
        if has_dictionaries {
            Encoder::default().append_rows(batch, part, &mut stream)?;
        } else {
            stream.extend_from_slice(&begin);
            encoder.append_rows(batch, part, &mut stream)?;
        }
        Ok(stream)
    });
    streams.collect()
}

/// A batch that cannot travel.
#[derive(Debug, Error)]
#[error("a batch that Arrow IPC cannot express: {0}")]
pub struct EncodeError(#[from] ArrowError);

fn begin(schema: &Schema, body: &mut Vec<u8>) -> Result<StreamWriter<Vec<u8>>, ArrowError> {
    let mut writer = writer(Vec::new(), schema)?;
    body.append(writer.get_mut());
    Ok(writer)
}

/// What writes a stream of this schema, which has begun.
pub(crate) fn writer<W: Write>(into: W, schema: &Schema) -> Result<StreamWriter<W>, ArrowError> {
    let deepest = schema.fields().iter().map(|field| depth(field.data_type()));
    let deepest = deepest.max().unwrap_or_default();
    if deepest > MAX_DEPTH {
        return Err(ArrowError::SchemaError(format!(
            "a column nests {deepest} levels deep, expected at most {MAX_DEPTH}"
        )));
    }
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    StreamWriter::try_new_with_options(into, schema, options)
}

/// Levels of a type: 1 for one that has no others in it.
fn depth(data_type: &DataType) -> usize {
    use DataType::{
        Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded,
        Struct, Union,
    };
    let inside = match data_type {
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => {
            depth(field.data_type())
        }
        FixedSizeList(field, _) | Map(field, _) => depth(field.data_type()),
        Struct(fields) => fields
            .iter()
            .map(|f| depth(f.data_type()))
            .max()
            .unwrap_or(0),
        Union(fields, _) => {
            let depths = fields.iter().map(|(_, field)| depth(field.data_type()));
            depths.max().unwrap_or(0)
        }
        RunEndEncoded(_, values) => depth(values.data_type()),
        Dictionary(_, values) => depth(values),
        _ => 0,
    };
    inside + 1
}

/// Buffers start at multiples of this many bytes from the start of the body.
pub(crate) const ALIGNMENT: usize = 8;
/// Readers of Arrow IPC, ours and others, refuse schemas that nest deeper.
const MAX_DEPTH: usize = 61;
