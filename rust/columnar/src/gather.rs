//! Record batch messages of plain columns, made after one that Arrow made, with the bytes of any
//! rows copied once: from the columns into the frame.

use arrow_array::{Array, OffsetSizeTrait, RecordBatch};
use arrow_buffer::{BooleanBuffer, ToByteSlice};
use arrow_data::ArrayData;
use arrow_ipc::{Message, RecordBatch as BatchHeader, root_as_message};
use arrow_schema::{DataType, Schema};

use crate::decode::PREFIX_BYTES;

/// A message of a schema, in which only numbers differ from those of the next.
#[derive(Debug)]
pub(crate) struct Template {
    /// Prefix and metadata, without the body.
    message: Vec<u8>,
    columns: Vec<Layout>,
    // Where the numbers are.
    body_length: usize,
    rows: usize,
    nodes: usize,
    buffers: usize,
}

/// How a plain column is laid out, behind the bits that say which values are null.
#[derive(Clone, Copy, Debug)]
enum Layout {
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
    /// From bytes that end with such a message of at least one row, which begins at `start`.
    /// `None` where there are columns of other layouts.
    pub(crate) fn of(schema: &Schema, bytes: &[u8]) -> Option<Self> {
        let layouts = schema.fields().iter().map(|f| Layout::of(f.data_type()));
        let columns = layouts.collect::<Option<Vec<_>>>()?;
        let metadata = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
        let metadata = bytes.get(PREFIX_BYTES..PREFIX_BYTES + metadata)?;
        let message = root_as_message(metadata).ok()?;
        let batch = message.header_as_record_batch()?;
        let (nodes, buffers) = (batch.nodes()?, batch.buffers()?);
        let wanted: usize = columns.iter().map(|column| column.buffers()).sum();
        if (nodes.len(), buffers.len()) != (columns.len(), wanted) || batch.compression().is_some()
        {
            return None;
        }
        let inside = |part: &[u8]| part.as_ptr() as usize - metadata.as_ptr() as usize;
        // A field that has its default is not there.
        let field = |table, place| (place > 0).then(|| PREFIX_BYTES + table + usize::from(place));
        let (outer, inner) = (message._tab, batch._tab);
        Some(Self {
            message: bytes[..PREFIX_BYTES + metadata.len()].to_vec(),
            columns,
            body_length: field(outer.loc(), outer.vtable().get(Message::VT_BODYLENGTH))?,
            rows: field(inner.loc(), inner.vtable().get(BatchHeader::VT_LENGTH))?,
            nodes: PREFIX_BYTES + inside(nodes.bytes()),
            buffers: PREFIX_BYTES + inside(buffers.bytes()),
        })
    }

    /// Appends these rows of a batch of the schema, or all; there is at least one.
    pub(crate) fn append(&self, batch: &RecordBatch, rows: Option<&[u32]>, out: &mut Vec<u8>) {
        let count = rows.map_or(batch.num_rows(), <[u32]>::len);
        let start = out.len();
        out.extend_from_slice(&self.message);
        let mut body = Body {
            begins: out.len(),
            node: start + self.nodes,
            buffer: start + self.buffers,
            out,
        };
        for (column, layout) in batch.columns().iter().zip(&self.columns) {
            body.nulls(column, rows, count);
            body.values(&column.to_data(), *layout, rows);
        }
        let bytes = body.out.len() - body.begins;
        set(out, start + self.rows, count);
        set(out, start + self.body_length, bytes);
    }
}

/// The body of a message as it grows, and the places of the numbers that come next.
struct Body<'a> {
    out: &'a mut Vec<u8>,
    begins: usize,
    node: usize,
    buffer: usize,
}

impl Body<'_> {
    /// One buffer, which `write` appends.
    fn buffer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        write(self.out);
        let end = self.out.len();
        let padded = (end - self.begins).next_multiple_of(ALIGNMENT);
        self.out.resize(self.begins + padded, 0);
        set(self.out, self.buffer, start - self.begins);
        set(self.out, self.buffer + NUMBER_BYTES, end - start);
        self.buffer += 2 * NUMBER_BYTES;
    }

    fn nulls(&mut self, column: &dyn Array, rows: Option<&[u32]>, count: usize) {
        let valid = column.nulls().filter(|nulls| nulls.null_count() > 0);
        let valid = valid.map(|nulls| bits(nulls.inner(), rows));
        let valid_rows = valid.as_ref().map_or(count, BooleanBuffer::count_set_bits);
        set(self.out, self.node, count);
        set(self.out, self.node + NUMBER_BYTES, count - valid_rows);
        self.node += 2 * NUMBER_BYTES;
        self.buffer(|out| {
            if let Some(valid) = valid {
                out.extend_from_slice(&valid.sliced());
            }
        });
    }

    fn values(&mut self, data: &ArrayData, layout: Layout, rows: Option<&[u32]>) {
        let (first, all) = (data.offset(), &data.buffers()[0]);
        match layout {
            Layout::Fixed(width) => {
                let values = &all[first * width..(first + data.len()) * width];
                self.buffer(|out| match (rows, width) {
                    (None, _) => out.extend_from_slice(values),
                    (Some(rows), 1) => gather::<1>(values, rows, out),
                    (Some(rows), 2) => gather::<2>(values, rows, out),
                    (Some(rows), 4) => gather::<4>(values, rows, out),
                    (Some(rows), 8) => gather::<8>(values, rows, out),
                    (Some(rows), 16) => gather::<16>(values, rows, out),
                    (Some(rows), _) => gather::<32>(values, rows, out),
                });
            }
            Layout::Bits => {
                let values = BooleanBuffer::new(all.clone(), first, data.len());
                self.buffer(|out| out.extend_from_slice(&bits(&values, rows).sliced()));
            }
            Layout::Bytes => self.bytes::<i32>(data, rows),
            Layout::LargeBytes => self.bytes::<i64>(data, rows),
        }
    }

    fn bytes<O: OffsetSizeTrait>(&mut self, data: &ArrayData, rows: Option<&[u32]>) {
        let ends = &data.buffers()[0].typed_data::<O>()[data.offset()..=data.offset() + data.len()];
        let bytes = data.buffers()[1].as_slice();
        let first = ends[0];
        let mut total = 0;
        match rows {
            None if first == O::default() => self.buffer(|out| {
                out.extend_from_slice(ends.to_byte_slice());
            }),
            None => self.buffer(|out| {
                for end in ends {
                    out.extend_from_slice((*end - first).to_byte_slice());
                }
            }),
            Some(rows) => self.buffer(|out| {
                let start = out.len();
                out.resize(start + (rows.len() + 1) * size_of::<O>(), 0);
                let slots = out[start..].chunks_exact_mut(size_of::<O>()).skip(1);
                for (slot, row) in slots.zip(rows) {
                    let row = *row as usize;
                    total += (ends[row + 1] - ends[row]).as_usize();
                    slot.copy_from_slice(O::usize_as(total).to_byte_slice());
                }
            }),
        }
        self.buffer(|out| match rows {
            None => out.extend_from_slice(&bytes[first.as_usize()..ends[data.len()].as_usize()]),
            Some(rows) => {
                out.reserve(total);
                for row in rows {
                    let row = *row as usize;
                    out.extend_from_slice(&bytes[ends[row].as_usize()..ends[row + 1].as_usize()]);
                }
            }
        });
    }
}

/// Values of so many bytes.
fn gather<const WIDTH: usize>(values: &[u8], rows: &[u32], out: &mut Vec<u8>) {
    let (values, _) = values.as_chunks::<WIDTH>();
    let start = out.len();
    out.resize(start + rows.len() * WIDTH, 0);
    let (slots, _) = out[start..].as_chunks_mut::<WIDTH>();
    for (slot, row) in slots.iter_mut().zip(rows) {
        *slot = values[*row as usize];
    }
}

fn bits(bits: &BooleanBuffer, rows: Option<&[u32]>) -> BooleanBuffer {
    match rows {
        None => bits.clone(),
        Some(rows) => {
            BooleanBuffer::collect_bool(rows.len(), |index| bits.value(rows[index] as usize))
        }
    }
}

fn set(out: &mut [u8], place: usize, number: usize) {
    out[place..place + NUMBER_BYTES].copy_from_slice(&(number as u64).to_le_bytes());
}

/// Of lengths and offsets.
const NUMBER_BYTES: usize = 8;
/// Buffers start at multiples of this many bytes from the start of the body.
pub(crate) const ALIGNMENT: usize = 8;
