use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::MessageHeader;
use arrow_ipc::convert::{MessageBuffer, try_fb_to_schema};
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use bytes::{Buf, Bytes};
use thiserror::Error;

/// The reading end of a channel of columns: it keeps the schema and the dictionaries.
///
/// Total: whatever bytes come, there are columns or an error, and no count in them is believed
/// further than there are bytes to back it. Every frame must pass through it, in order.
#[derive(Debug, Default)]
pub struct Decoder {
    stream: Option<Arc<Stream>>,
}

impl Decoder {
    /// Takes in a frame's body of so many rows: what later frames need at once (and copied, so that
    /// the body may go), its batches when they are asked for.
    ///
    /// They are added to the last of `runs`, or begin the next where the schema is another.
    pub fn accept(
        &mut self,
        body: Bytes,
        rows: usize,
        runs: &mut Vec<Columns>,
    ) -> Result<(), DecodeError> {
        guarded(|| self.read(body, rows, runs))
    }

    fn read(
        &mut self,
        mut rest: Bytes,
        rows: usize,
        runs: &mut Vec<Columns>,
    ) -> Result<(), DecodeError> {
        let mut found = 0_usize;
        while !rest.is_empty() {
            let (message, body) = split_message(&mut rest)?;
            let header = message.as_ref();
            match header.header_type() {
                MessageHeader::Schema => {
                    let schema = header.header_as_schema().ok_or(DecodeError::Malformed)?;
                    self.stream = Some(Arc::new(Stream::new(try_fb_to_schema(schema)?)));
                }
                MessageHeader::DictionaryBatch => {
                    let stream = self.stream.as_ref().ok_or(DecodeError::NoSchema)?;
                    let dictionary = header
                        .header_as_dictionary_batch()
                        .ok_or(DecodeError::Malformed)?;
                    let data = dictionary.data().ok_or(DecodeError::Malformed)?;
                    let body = Buffer::from(&body[..]);
                    check_buffers(data, body.len())?;
                    let mut dictionaries = stream.dictionaries.clone();
                    read_dictionary(
                        &body,
                        dictionary,
                        &stream.schema,
                        &mut dictionaries,
                        &header.version(),
                    )?;
                    self.stream = Some(Arc::new(Stream {
                        schema: Arc::clone(&stream.schema),
                        unchecked: Arc::clone(&stream.unchecked),
                        dictionaries,
                    }));
                }
                MessageHeader::RecordBatch => {
                    let stream = self.stream.as_ref().ok_or(DecodeError::NoSchema)?;
                    let batch = header
                        .header_as_record_batch()
                        .ok_or(DecodeError::Malformed)?;
                    check_buffers(batch, body.len())?;
                    let length = usize::try_from(batch.length());
                    let length = length.map_err(|_| DecodeError::Malformed)?;
                    found = found.saturating_add(length);
                    let part = Part {
                        stream: Arc::clone(stream),
                        message,
                        body,
                        rows: length,
                    };
                    match runs.last_mut() {
                        Some(run) if run.schema() == &stream.schema => run.parts.push(part),
                        _ => runs.push(Columns { parts: vec![part] }),
                    }
                }
                _ => return Err(DecodeError::Malformed),
            }
        }
        if found != rows {
            return Err(DecodeError::Rows {
                expected: rows,
                found,
            });
        }
        Ok(())
    }
}

/// Rows of one schema from one or more frames, still encoded; at least one batch.
#[derive(Debug, Clone)]
pub struct Columns {
    parts: Vec<Part>,
}

impl Columns {
    /// The schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.parts[0].stream.schema
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Bytes of the encoded rows.
    pub fn size(&self) -> usize {
        self.parts.iter().map(|part| part.body.len()).sum()
    }

    /// All rows as one batch, whose memory is its own, in one piece, and checked.
    pub fn to_batch(&self) -> Result<RecordBatch, DecodeError> {
        let batches = self
            .parts
            .iter()
            .map(|part| part.decode(&Buffer::from(&part.body[..]), None))
            .collect::<Result<Vec<_>, _>>()?;
        match &batches[..] {
            [batch] => Ok(batch.clone()),
            _ => guarded(|| Ok(concat_batches(self.schema(), &batches)?)),
        }
    }

    /// These columns of each batch, read in place, in the order of `columns`: texts come as the
    /// bytes that they are, whether or not they are UTF-8.
    pub fn in_place<'a>(
        &'a self,
        columns: &'a [usize],
    ) -> impl Iterator<Item = Result<RecordBatch, DecodeError>> + 'a {
        self.parts
            .iter()
            .map(|part| part.decode(&Buffer::from(part.body.clone()), Some(columns)))
    }
}

/// Bytes are no columns.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The framing of the messages is wrong.
    #[error("the bytes are no messages of an Arrow IPC stream")]
    Malformed,
    /// Rows or dictionaries that no schema has gone before.
    #[error("columns without a schema")]
    NoSchema,
    /// The frame said something else.
    #[error("{found} rows in a frame of {expected}")]
    Rows {
        /// What the frame's header said.
        expected: usize,
        /// What the batches say.
        found: usize,
    },
    /// A message's content is wrong.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// What a channel has said so far that later frames need.
#[derive(Debug)]
struct Stream {
    schema: SchemaRef,
    /// The schema with bytes in place of texts.
    unchecked: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Stream {
    fn new(schema: Schema) -> Self {
        let as_bytes = |field: &Field| match field.data_type() {
            DataType::Utf8 => field.clone().with_data_type(DataType::Binary),
            DataType::LargeUtf8 => field.clone().with_data_type(DataType::LargeBinary),
            DataType::Utf8View => field.clone().with_data_type(DataType::BinaryView),
            _ => field.clone(),
        };
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| as_bytes(field))
            .collect();
        Self {
            schema: Arc::new(schema),
            unchecked: Arc::new(Schema::new(fields)),
            dictionaries: HashMap::new(),
        }
    }
}

/// One batch.
#[derive(Debug, Clone)]
struct Part {
    stream: Arc<Stream>,
    message: MessageBuffer,
    body: Bytes,
    rows: usize,
}

impl Part {
    /// The batch over this copy or view of the body; with `columns`, those alone and unchecked.
    fn decode(&self, body: &Buffer, columns: Option<&[usize]>) -> Result<RecordBatch, DecodeError> {
        let Stream {
            schema,
            unchecked,
            dictionaries,
        } = &*self.stream;
        let schema = if columns.is_some() { unchecked } else { schema };
        let header = self.message.as_ref();
        let batch = header
            .header_as_record_batch()
            .ok_or(DecodeError::Malformed)?;
        guarded(|| {
            let version = header.version();
            let decoder = RecordBatchDecoder::try_new(
                body,
                batch,
                Arc::clone(schema),
                dictionaries,
                &version,
            )?;
            Ok(decoder.with_projection(columns).read_record_batch()?)
        })
    }
}

/// Takes the first message off `bytes`.
fn split_message(bytes: &mut Bytes) -> Result<(MessageBuffer, Bytes), DecodeError> {
    if bytes.len() < PREFIX_BYTES || bytes[..4] != CONTINUATION_MARKER {
        return Err(DecodeError::Malformed);
    }
    bytes.advance(4);
    let length = bytes.get_u32_le() as usize;
    if bytes.len() < length {
        return Err(DecodeError::Malformed);
    }
    // Copied, so that it is aligned.
    let message = MessageBuffer::try_new(Buffer::from(&bytes.split_to(length)[..]))?;
    let length = message.as_ref().bodyLength();
    let length = usize::try_from(length).map_err(|_| DecodeError::Malformed)?;
    if bytes.len() < length {
        return Err(DecodeError::Malformed);
    }
    Ok((message, bytes.split_to(length)))
}

/// Refuses buffers that are not inside the body.
fn check_buffers(batch: arrow_ipc::RecordBatch<'_>, bytes: usize) -> Result<(), DecodeError> {
    let inside = |buffer: &arrow_ipc::Buffer| {
        let (offset, length) = (buffer.offset(), buffer.length());
        offset >= 0
            && length >= 0
            && offset
                .checked_add(length)
                .is_some_and(|end| end as u64 <= bytes as u64)
    };
    if batch
        .buffers()
        .is_some_and(|buffers| !buffers.iter().all(inside))
    {
        return Err(DecodeError::Malformed);
    }
    Ok(())
}

/// A panic of the decoder below, over bytes that it did not expect, is an error like others.
fn guarded<T>(decode: impl FnOnce() -> Result<T, DecodeError>) -> Result<T, DecodeError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or(Err(DecodeError::Malformed))
}

/// Continuation marker and length, before every message.
pub(crate) const PREFIX_BYTES: usize = 8;
const CONTINUATION_MARKER: [u8; 4] = [0xff; 4];
