use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use thiserror::Error;

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
    stream: Option<(SchemaRef, StreamWriter<Vec<u8>>)>,
}

impl Encoder {
    /// Appends a batch. After an error `body` is as it was.
    pub fn append(&mut self, batch: &RecordBatch, body: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = body.len();
        let appended = self.write(batch, body);
        if appended.is_err() {
            body.truncate(start);
            // What the reader has been told is no longer known.
            self.stream = None;
        }
        Ok(appended?)
    }

    fn continues(&self, schema: &SchemaRef) -> bool {
        self.stream
            .as_ref()
            .is_some_and(|(current, _)| Arc::ptr_eq(current, schema) || current == schema)
    }

    fn write(&mut self, batch: &RecordBatch, body: &mut Vec<u8>) -> Result<(), ArrowError> {
        let schema = batch.schema_ref();
        if !self.continues(schema) {
            self.stream = None;
        }
        let writer = if let Some((_, writer)) = &mut self.stream {
            writer
        } else {
            let writer = begin(schema, body)?;
            &mut self.stream.insert((Arc::clone(schema), writer)).1
        };
        // The writer writes to the end of what it is given; nothing is copied twice.
        std::mem::swap(writer.get_mut(), body);
        let written = match compact(batch) {
            Ok(Some(compacted)) => writer.write(&compacted),
            Ok(None) => writer.write(batch),
            Err(error) => Err(error),
        };
        std::mem::swap(writer.get_mut(), body);
        written
    }
}

/// A batch that cannot travel.
#[derive(Debug, Error)]
#[error("a batch that Arrow IPC cannot express: {0}")]
pub struct EncodeError(#[from] ArrowError);

fn begin(schema: &Schema, body: &mut Vec<u8>) -> Result<StreamWriter<Vec<u8>>, ArrowError> {
    let deepest = schema.fields().iter().map(|field| depth(field.data_type()));
    let deepest = deepest.max().unwrap_or_default();
    if deepest > MAX_DEPTH {
        return Err(ArrowError::SchemaError(format!(
            "a column nests {deepest} levels deep, expected at most {MAX_DEPTH}"
        )));
    }
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), schema, options)?;
    body.append(writer.get_mut());
    Ok(writer)
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

/// The batch with views of just the bytes that it shows; `None` if it has no views.
///
/// Views share the bytes of the batch that they were cut from, all of which would travel.
fn compact(batch: &RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
    let is_view = |kind: &DataType| matches!(kind, DataType::Utf8View | DataType::BinaryView);
    if !batch.columns().iter().any(|c| is_view(c.data_type())) {
        return Ok(None);
    }
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options).map(Some)
}

/// Readers of Arrow IPC, ours and others, refuse schemas that nest deeper.
const MAX_DEPTH: usize = 61;
/// Buffers start at multiples of this many bytes from the start of the body.
const ALIGNMENT: usize = 8;
