//! An Arrow IPC stream in parts, which shares the memory of its columns.

use std::io::{self, Write};
use std::mem;

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use bytes::Bytes;

use crate::EncodeError;
use crate::channel::encode::writer;

/// What [`crate::Encoder`] appends of a first batch, in parts one behind the other: whole columns need no
/// second memory.
pub(crate) fn parts(batch: &RecordBatch) -> Result<Vec<Bytes>, EncodeError> {
    let columns = batch.columns().iter();
    let shared = columns.flat_map(|column| column.to_data().buffers().to_vec());
    let parts = Parts {
        shared: shared.collect(),
        ..Parts::default()
    };
    let mut writer = writer(parts, batch.schema_ref())?;
    writer.write(batch)?;
    Ok(mem::take(writer.get_mut()).end())
}

/// Takes what is written: bytes of these buffers as they are, a copy of all others.
#[derive(Default)]
struct Parts {
    shared: Vec<Buffer>,
    ended: Vec<Bytes>,
    copied: Vec<u8>,
}

impl Parts {
    fn end(mut self) -> Vec<Bytes> {
        self.end_copied();
        self.ended
    }

    fn end_copied(&mut self) {
        if !self.copied.is_empty() {
            self.ended.push(mem::take(&mut self.copied).into());
        }
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let found = self.shared.iter().find_map(|buffer| part(buffer, bytes));
        match found.filter(|_| bytes.len() >= FEW) {
            Some(part) => {
                self.end_copied();
                self.ended.push(Bytes::from_owner(part));
            }
            None => self.copied.extend_from_slice(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// These bytes as a part of a buffer, if they are.
fn part(buffer: &Buffer, bytes: &[u8]) -> Option<Buffer> {
    let start = bytes.as_ptr().addr().checked_sub(buffer.as_ptr().addr())?;
    let is_inside = start + bytes.len() <= buffer.len();
    is_inside.then(|| buffer.slice_with_length(start, bytes.len()))
}

/// So few bytes are as cheap to copy.
const FEW: usize = 4096;
