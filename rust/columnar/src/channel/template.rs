//! Record batch messages of plain columns: in those of a schema only numbers differ, so that what one
//! says need not be built, nor looked for and verified, again.

use std::ops::Range;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::{Message, RecordBatch as BatchHeader};
use arrow_schema::{ArrowError, DataType, Schema};

/// A message of a schema, and where its numbers are.
#[derive(Debug)]
pub(crate) struct Template {
    /// Without prefix and body.
    pub(crate) metadata: Vec<u8>,
    pub(crate) columns: Vec<Layout>,
    /// What is the same in all messages.
    same: Vec<Range<usize>>,
    pub(crate) body_length: usize,
    pub(crate) rows: usize,
    /// Rows and nulls of each column.
    pub(crate) nodes: usize,
    /// Where each buffer begins in the body, and its bytes.
    pub(crate) buffers: usize,
}

/// How a plain column is laid out, behind the bits that say which values are null.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// Values of so many bytes.
    Fixed(usize),
    Bits,
    /// Offsets of 32 bits into bytes.
    Bytes,
    /// Offsets of 64 bits into bytes.
    LargeBytes,
}

impl Layout {
    /// `None` for a column that holds others, a dictionary or views.
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Bits,
            DataType::Utf8 | DataType::Binary => Self::Bytes,
            DataType::LargeUtf8 | DataType::LargeBinary => Self::LargeBytes,
            other => match other.primitive_width()? {
                width @ (1 | 2 | 4 | 8 | 16 | 32) => Self::Fixed(width),
                _ => return None,
            },
        })
    }

    /// Buffers of a column, with that of the nulls.
    fn buffers(self) -> usize {
        match self {
            Self::Fixed(_) | Self::Bits => 2,
            Self::Bytes | Self::LargeBytes => 3,
        }
    }
}

impl Template {
    /// Of such a message of at least one row, and its bytes. `None` where there are columns of other
    /// layouts.
    pub(crate) fn of(schema: &Schema, message: Message<'_>, metadata: &[u8]) -> Option<Self> {
        let layouts = schema.fields().iter().map(|f| Layout::of(f.data_type()));
        let columns = layouts.collect::<Option<Vec<_>>>()?;
        let batch = message.header_as_record_batch()?;
        let (nodes, buffers) = (batch.nodes()?, batch.buffers()?);
        let wanted: usize = columns.iter().map(|column| column.buffers()).sum();
        if (nodes.len(), buffers.len()) != (columns.len(), wanted) || batch.compression().is_some()
        {
            return None;
        }
        let inside = |part: &[u8]| part.as_ptr() as usize - metadata.as_ptr() as usize;
        // A field that has its default is not there.
        let field = |table, place| (place > 0).then(|| table + usize::from(place));
        let (outer, inner) = (message._tab, batch._tab);
        let body_length = field(outer.loc(), outer.vtable().get(Message::VT_BODYLENGTH))?;
        let rows = field(inner.loc(), inner.vtable().get(BatchHeader::VT_LENGTH))?;
        let (nodes, buffers) = (inside(nodes.bytes()), inside(buffers.bytes()));
        let numbers = [
            (body_length, 1),
            (rows, 1),
            (nodes, 2 * columns.len()),
            (buffers, 2 * wanted),
        ];
        Some(Self {
            metadata: metadata.to_vec(),
            columns,
            same: between(numbers, metadata.len()),
            body_length,
            rows,
            nodes,
            buffers,
        })
    }

    /// Whether other metadata differ in numbers alone.
    pub(crate) fn fits(&self, metadata: &[u8]) -> bool {
        let is_same = |part: &Range<usize>| metadata[part.clone()] == self.metadata[part.clone()];
        metadata.len() == self.metadata.len() && self.same.iter().all(is_same)
    }

    /// Bytes of the body that metadata which fit tell of, and rows.
    pub(crate) fn sizes(&self, metadata: &[u8]) -> (usize, usize) {
        let [length, rows] = [self.body_length, self.rows].map(|place| number(metadata, place));
        (length, rows)
    }

    /// Whether metadata that fit tell of so many rows in each column, and of buffers inside a body of
    /// so many bytes.
    pub(crate) fn is_sound(&self, metadata: &[u8], rows: usize, bytes: usize) -> bool {
        let pairs = |place: usize, count: usize| {
            let (numbers, _) = metadata[place..].as_chunks::<{ 2 * NUMBER_BYTES }>();
            numbers[..count]
                .iter()
                .map(|pair| [0, NUMBER_BYTES].map(|at| number(pair, at)))
        };
        let buffers = self.columns.iter().map(|column| column.buffers()).sum();
        pairs(self.nodes, self.columns.len()).all(|[length, nulls]| length == rows && nulls <= rows)
            && pairs(self.buffers, buffers)
                .all(|[start, length]| start.checked_add(length).is_some_and(|end| end <= bytes))
    }

    /// The column at a place as an array of this type over the body, of sound metadata; it is checked
    /// as Arrow's reader does.
    pub(crate) fn array(
        &self,
        column: usize,
        data_type: &DataType,
        metadata: &[u8],
        body: &Buffer,
    ) -> Result<ArrayRef, ArrowError> {
        let node = self.nodes + column * 2 * NUMBER_BYTES;
        let nulls = number(metadata, node + NUMBER_BYTES);
        let before: usize = self.columns[..column].iter().map(|c| c.buffers()).sum();
        let mut buffers = (before..before + self.columns[column].buffers()).map(|index| {
            let place = self.buffers + index * 2 * NUMBER_BYTES;
            let [start, length] = [0, NUMBER_BYTES].map(|at| number(metadata, place + at));
            body.slice_with_length(start, length)
        });
        let valid = buffers.next().filter(|_| nulls > 0);
        let data = ArrayData::builder(data_type.clone())
            .len(number(metadata, node))
            .null_count(nulls)
            .null_bit_buffer(valid)
            .buffers(buffers.collect())
            .align_buffers(true);
        Ok(make_array(data.build()?))
    }
}

/// The parts of so many bytes that are none of these numbers, each so many from a place on.
fn between(mut numbers: [(usize, usize); 4], bytes: usize) -> Vec<Range<usize>> {
    numbers.sort_unstable();
    let mut parts = Vec::with_capacity(numbers.len() + 1);
    let mut end = 0;
    for (place, count) in numbers {
        parts.push(end..place.max(end));
        end = end.max(place + count * NUMBER_BYTES);
    }
    parts.push(end..bytes.max(end));
    parts
}

fn number(bytes: &[u8], place: usize) -> usize {
    let (numbers, _) = bytes[place..].as_chunks::<NUMBER_BYTES>();
    u64::from_le_bytes(numbers[0]) as usize
}

/// Of lengths and offsets.
pub(crate) const NUMBER_BYTES: usize = 8;
