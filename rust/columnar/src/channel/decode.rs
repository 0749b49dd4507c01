//! Decoding record batches from streams of Arrow IPC.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray, LargeBinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::MessageHeader;
use arrow_ipc::convert::{MessageBuffer, try_fb_to_schema};
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use bytes::{Buf, Bytes};
use thiserror::Error;

use crate::channel::encode::ALIGNMENT;
use crate::channel::framing::{PREFIX_BYTES, check_buffers, guarded, metadata, split_body};
use crate::channel::pieces::bytes_of;
use crate::channel::template::Template;

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
            let length = metadata(&rest)?.len();
            rest.advance(PREFIX_BYTES);
            let metadata = rest.split_to(length);
            let known = self.stream.as_ref().and_then(|stream| {
                let template = stream.template().filter(|t| t.fits(&metadata))?;
                Some((stream, template))
            });
            let part = match known {
                Some((stream, template)) => {
                    Some(Part::of_numbers(stream, template, metadata, &mut rest)?)
                }
                None => self.read_message(&metadata, &mut rest)?,
            };
            let Some(part) = part else { continue };
            found = found.saturating_add(part.rows);
            match runs.last_mut() {
                Some(run) if run.goes_on_with(&part) => run.parts.push(part),
                _ => runs.push(Columns { parts: vec![part] }),
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

    /// Takes in a message of any kind; a batch comes back.
    fn read_message(
        &mut self,
        metadata: &[u8],
        rest: &mut Bytes,
    ) -> Result<Option<Part>, DecodeError> {
        // Copied, so that it is aligned.
        let metadata = Buffer::from(metadata);
        let message = MessageBuffer::try_new(metadata.clone())?;
        let header = message.as_ref();
        let length = usize::try_from(header.bodyLength()).map_err(|_| DecodeError::Malformed)?;
        let body = split_body(rest, length)?;
        let stream = self.stream.as_ref().ok_or(DecodeError::NoSchema);
        match header.header_type() {
            MessageHeader::Schema => {
                let schema = header.header_as_schema().ok_or(DecodeError::Malformed)?;
                self.stream = Some(Arc::new(Stream::new(try_fb_to_schema(schema)?)));
            }
            MessageHeader::DictionaryBatch => {
                let stream = stream?;
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
                    has_small_codes: stream.has_small_codes,
                    has_unions: stream.has_unions,
                    template: OnceLock::new(),
                }));
            }
            MessageHeader::RecordBatch => {
                let stream = stream?;
                let batch = header
                    .header_as_record_batch()
                    .ok_or(DecodeError::Malformed)?;
                check_buffers(batch, body.len())?;
                let rows = usize::try_from(batch.length()).map_err(|_| DecodeError::Malformed)?;
                if rows > 0 {
                    let template = || Template::of(&stream.schema, header, &metadata);
                    stream.template.get_or_init(template);
                }
                return Ok(Some(Part {
                    stream: Arc::clone(stream),
                    body,
                    rows,
                    header: Header::Any(message),
                }));
            }
            _ => return Err(DecodeError::Malformed),
        }
        Ok(None)
    }
}

/// Rows of one schema from one or more frames, still encoded; at least one batch.
#[derive(Debug, Clone)]
pub struct Columns {
    parts: Vec<Part>,
}

impl Columns {
    /// The rows of a batch that no channel delivered.
    pub fn of(batch: RecordBatch) -> Self {
        let schema = batch.schema_ref().as_ref().clone();
        let rows = batch.num_rows();
        let part = Part {
            stream: Arc::new(Stream::new(schema)),
            header: Header::Here(batch),
            body: Bytes::new(),
            rows,
        };
        Self { parts: vec![part] }
    }

    /// The schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.parts[0].stream.schema
    }

    /// Whether one batch can hold these rows and those.
    fn goes_on_with(&self, part: &Part) -> bool {
        let (first, next) = (&self.parts[0].stream, &part.stream);
        Arc::ptr_eq(first, next) || (first.schema == next.schema && !next.has_small_codes)
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Bytes of the rows.
    pub fn size(&self) -> usize {
        let size = |part: &Part| match &part.header {
            Header::Here(batch) => bytes_of(batch),
            _ => part.body.len(),
        };
        self.parts.iter().map(size).sum()
    }

    /// All rows as one batch, in no memory of a channel, in one piece, and checked.
    pub fn to_batch(&self) -> Result<RecordBatch, DecodeError> {
        let schema = self.schema();
        let all: Vec<_> = (0..schema.fields().len()).collect();
        let batches = self
            .parts
            .iter()
            .map(|part| part.decode(&Buffer::from(&part.body[..]), [schema, schema], &all))
            .collect::<Result<Vec<_>, _>>()?;
        match &batches[..] {
            [batch] => Ok(batch.clone()),
            _ => guarded(|| Ok(concat_batches(schema, &batches)?)),
        }
    }

    /// These columns of each batch, read in place, in the order of `columns`: texts come as the
    /// bytes that they are, whether or not they are UTF-8.
    pub fn in_place<'a>(
        &'a self,
        columns: &'a [usize],
    ) -> Result<impl Iterator<Item = Result<RecordBatch, DecodeError>> + 'a, DecodeError> {
        let all = &self.parts[0].stream.unchecked;
        let shown = Arc::new(all.project(columns)?);
        Ok(self
            .parts
            .iter()
            .map(move |part| part.decode(&part.aligned(), [all, &shown], columns)))
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
    /// Whether it has dictionaries of so few values that those of two would not fit into one.
    has_small_codes: bool,
    /// Whether it has unions, which Arrow's reader does not align.
    has_unions: bool,
    /// Of its batches, from the first that has rows; `None` where there can be none.
    template: OnceLock<Option<Template>>,
}

impl Stream {
    fn template(&self) -> Option<&Template> {
        self.template.get()?.as_ref()
    }

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
        let is_small = |field: &&Field| match field.data_type() {
            DataType::Dictionary(codes, _) => codes.primitive_width().is_some_and(|it| it < 4),
            _ => false,
        };
        let is_union = |field: &&Field| matches!(field.data_type(), DataType::Union(..));
        Self {
            has_small_codes: schema.flattened_fields().iter().any(is_small),
            has_unions: schema.flattened_fields().iter().any(is_union),
            schema: Arc::new(schema),
            unchecked: Arc::new(Schema::new(fields)),
            dictionaries: HashMap::new(),
            template: OnceLock::new(),
        }
    }
}

/// One batch, whose buffers are inside its body.
#[derive(Debug, Clone)]
struct Part {
    stream: Arc<Stream>,
    header: Header,
    body: Bytes,
    rows: usize,
}

/// What comes before the body.
#[derive(Debug, Clone)]
enum Header {
    /// Metadata of which the stream's template knows where the numbers are.
    Numbers(Bytes),
    Any(MessageBuffer),
    /// Nothing: the rows are not encoded.
    Here(RecordBatch),
}

impl Part {
    /// From metadata that fit the stream's template.
    fn of_numbers(
        stream: &Arc<Stream>,
        template: &Template,
        metadata: Bytes,
        rest: &mut Bytes,
    ) -> Result<Self, DecodeError> {
        let (length, rows) = template.sizes(&metadata);
        let body = split_body(rest, length)?;
        if !template.is_sound(&metadata, rows, length) {
            return Err(DecodeError::Malformed);
        }
        Ok(Self {
            stream: Arc::clone(stream),
            header: Header::Numbers(metadata),
            body,
            rows,
        })
    }

    /// The body, or a copy where Arrow's reader would have columns begin where they do not.
    fn aligned(&self) -> Buffer {
        let is_aligned = self.body.as_ptr().addr().is_multiple_of(ALIGNMENT);
        if is_aligned || !self.stream.has_unions {
            return Buffer::from(self.body.clone());
        }
        Buffer::from(&self.body[..])
    }

    /// These columns of the batch over this copy or view of the body, of the schema of all and of
    /// those that are wanted.
    fn decode(
        &self,
        body: &Buffer,
        [all, wanted]: [&SchemaRef; 2],
        columns: &[usize],
    ) -> Result<RecordBatch, DecodeError> {
        guarded(|| match (&self.header, self.stream.template()) {
            (Header::Numbers(metadata), Some(template)) => {
                let arrays = columns.iter().map(|column| {
                    let data_type = all.field(*column).data_type();
                    template.array(*column, data_type, metadata, body)
                });
                let arrays = arrays.collect::<Result<_, _>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
                let wanted = Arc::clone(wanted);
                Ok(RecordBatch::try_new_with_options(wanted, arrays, &options)?)
            }
            (Header::Any(message), _) => {
                let header = message.as_ref();
                let batch = header
                    .header_as_record_batch()
                    .ok_or(DecodeError::Malformed)?;
                let (all, dictionaries) = (Arc::clone(all), &self.stream.dictionaries);
                let version = header.version();
                let decoder =
                    RecordBatchDecoder::try_new(body, batch, all, dictionaries, &version)?;
                let projection = Some(columns);
                Ok(decoder.with_projection(projection).read_record_batch()?)
            }
            (Header::Here(batch), _) => {
                let fields = wanted.fields().iter();
                let arrays = columns
                    .iter()
                    .zip(fields)
                    .map(|(column, field)| as_bytes(batch.column(*column), field.data_type()));
                let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
                let wanted = Arc::clone(wanted);
                let arrays = arrays.collect();
                Ok(RecordBatch::try_new_with_options(wanted, arrays, &options)?)
            }
            (Header::Numbers(_), None) => Err(DecodeError::Malformed),
        })
    }
}

/// The column, of texts as the bytes that they are where that is wanted.
fn as_bytes(column: &ArrayRef, wanted: &DataType) -> ArrayRef {
    match (column.data_type(), wanted) {
        (DataType::Utf8, DataType::Binary) => {
            Arc::new(BinaryArray::from(column.as_string::<i32>().clone()))
        }
        (DataType::LargeUtf8, DataType::LargeBinary) => {
            Arc::new(LargeBinaryArray::from(column.as_string::<i64>().clone()))
        }
        (DataType::Utf8View, DataType::BinaryView) => {
            Arc::new(column.as_string_view().clone().to_binary_view())
        }
        _ => Arc::clone(column),
    }
}
