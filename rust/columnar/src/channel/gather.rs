//! Plain columns' messages, made after one that Arrow made, with the bytes of any rows copied once:
//! from the columns into the frame.

use arrow_array::{Array, OffsetSizeTrait, RecordBatch};
use arrow_buffer::{BooleanBuffer, ToByteSlice};
use arrow_data::ArrayData;

use crate::channel::encode::ALIGNMENT;
use crate::channel::framing::prefix;
use crate::channel::template::{Layout, NUMBER_BYTES, Template};

impl Template {
    /// Appends these rows of a batch of the schema, or all; there is at least one.
    pub(crate) fn append(&self, batch: &RecordBatch, rows: Option<&[u32]>, out: &mut Vec<u8>) {
        let count = rows.map_or(batch.num_rows(), <[u32]>::len);
        out.extend_from_slice(&prefix(self.metadata.len()));
        let start = out.len();
        out.extend_from_slice(&self.metadata);
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
            Some(rows) => gather_values(bytes, ends, rows, total, out),
        });
    }
}

/// Values that begin and end where `ends` says, of `total` bytes in these rows.
///
/// A copy of a fixed length needs no call: a short value takes bytes behind it along, which the next
/// one writes over.
fn gather_values<O: OffsetSizeTrait>(
    bytes: &[u8],
    ends: &[O],
    rows: &[u32],
    total: usize,
    out: &mut Vec<u8>,
) {
    out.reserve(total + SHORT);
    let room = out.spare_capacity_mut();
    let mut written = 0;
    for row in rows {
        let row = *row as usize;
        let (start, end) = (ends[row].as_usize(), ends[row + 1].as_usize());
        let value = &bytes[start..end];
        match bytes[start..].first_chunk::<SHORT>() {
            Some(chunk) if value.len() <= SHORT => {
                room[written..written + SHORT].write_copy_of_slice(chunk);
            }
            _ => {
                room[written..written + value.len()].write_copy_of_slice(value);
            }
        }
        written += value.len();
    }
    let length = out.len() + written;
    // SAFETY: the values lie behind each other in the room from its start on.
    unsafe { out.set_len(length) };
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

/// Values of up to so many bytes are short.
const SHORT: usize = 32;
