//! A reader of encoded values: msgpack, with the extension types that [`extension`] names.
//!
//! Reading is total: any bytes give values or a [`ReadError`], never a panic, and nothing is
//! allocated. The reader borrows; it never copies.
//!
//! ```
//! use oka_compute::value::{Reader, Value};
//!
//! let mut reader = Reader::new(&[0x92, 0xa1, b'a', 0x07]);
//! assert_eq!(reader.read(), Ok(Value::Array(2)));
//! assert_eq!(reader.read(), Ok(Value::Str(b"a")));
//! assert_eq!(reader.read(), Ok(Value::Int(7)));
//! assert!(reader.is_at_end());
//! ```

use thiserror::Error;

/// One encoded value; the elements of an array or a map follow it in the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    /// An integer over `i64::MAX`.
    Unsigned(u64),
    Float(f64),
    /// UTF-8 as it was encoded; not verified here.
    Str(&'a [u8]),
    Bytes(&'a [u8]),
    /// This many values follow. A tuple in Python.
    Array(usize),
    /// This many pairs of values follow. A dict in Python.
    Map(usize),
    /// Type code (see [`extension`]) and payload.
    Extension(i8, &'a [u8]),
}

/// The bytes are no encoded value.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    #[error("the value at byte {0} goes past the end of the data")]
    Truncated(usize),
    #[error("byte {0} starts no value")]
    InvalidMarker(usize),
}

/// Extension codes that Rust reads and writes itself.
///
/// Codes from 16 to 31 belong to Python types whose equal values have equal payloads, so that they
/// are keys as they stand; from 32 on to types of which that is not so. `engine/record.py` lists
/// those.
pub mod extension {
    /// Payload: an encoded array.
    pub const LIST: i8 = 1;
    /// Payload: an encoded array, in no particular order.
    pub const SET: i8 = 2;
    /// Payload: an encoded array, in no particular order.
    pub const FROZENSET: i8 = 3;
    /// Payload: 0 or 1 for plus or minus, then the magnitude, least significant byte first.
    pub const BIG_INT: i8 = 4;
    /// The codes whose payloads compare as their values do.
    pub const COMPARABLE: std::ops::RangeInclusive<i8> = 16..=31;
}

/// Reads values one after the other from bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Offset of the next value.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    pub fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }

    /// What lies between `start` and the next value.
    #[inline]
    pub fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.position]
    }

    /// Everything from the next value on.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    /// Reads one value. After an array or a map its elements come next.
    #[inline]
    pub fn read(&mut self) -> Result<Value<'a>, ReadError> {
        let start = self.position;
        let Some(&marker) = self.bytes.get(start) else {
            return Err(ReadError::Truncated(start));
        };
        self.position += 1;
        Ok(match marker {
            0x00..=0x7f => Value::Int(i64::from(marker)),
            0x80..=0x8f => Value::Map(usize::from(marker & 0x0f)),
            0x90..=0x9f => Value::Array(usize::from(marker & 0x0f)),
            0xa0..=0xbf => Value::Str(self.take(usize::from(marker & 0x1f), start)?),
            0xc0 => Value::Nil,
            0xc1 => return Err(ReadError::InvalidMarker(start)),
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let length = self.length(marker - 0xc4, start)?;
                Value::Bytes(self.take(length, start)?)
            }
            0xc7..=0xc9 => {
                let length = self.length(marker - 0xc7, start)?;
                self.extension(length, start)?
            }
            0xca => Value::Float(f64::from(f32::from_be_bytes(self.array(start)?))),
            0xcb => Value::Float(f64::from_be_bytes(self.array(start)?)),
            0xcc => Value::Int(i64::from(u8::from_be_bytes(self.array(start)?))),
            0xcd => Value::Int(i64::from(u16::from_be_bytes(self.array(start)?))),
            0xce => Value::Int(i64::from(u32::from_be_bytes(self.array(start)?))),
            0xcf => {
                let number = u64::from_be_bytes(self.array(start)?);
                i64::try_from(number).map_or(Value::Unsigned(number), Value::Int)
            }
            0xd0 => Value::Int(i64::from(i8::from_be_bytes(self.array(start)?))),
            0xd1 => Value::Int(i64::from(i16::from_be_bytes(self.array(start)?))),
            0xd2 => Value::Int(i64::from(i32::from_be_bytes(self.array(start)?))),
            0xd3 => Value::Int(i64::from_be_bytes(self.array(start)?)),
            0xd4..=0xd8 => self.extension(1 << (marker - 0xd4), start)?,
            0xd9..=0xdb => {
                let length = self.length(marker - 0xd9, start)?;
                Value::Str(self.take(length, start)?)
            }
            0xdc => Value::Array(self.length(1, start)?),
            0xdd => Value::Array(self.length(2, start)?),
            0xde => Value::Map(self.length(1, start)?),
            0xdf => Value::Map(self.length(2, start)?),
            0xe0..=0xff => Value::Int(i64::from(marker as i8)),
        })
    }

    /// Passes over one whole value, with everything inside it.
    #[inline]
    pub fn skip(&mut self) -> Result<(), ReadError> {
        match self.read()? {
            Value::Array(count) => self.skip_many(count),
            Value::Map(count) => self.skip_many(count.saturating_mul(2)),
            _ => Ok(()),
        }
    }

    /// Passes over `count` whole values. Iterative: nesting costs no stack.
    pub fn skip_many(&mut self, count: usize) -> Result<(), ReadError> {
        let mut remaining = count;
        while remaining > 0 {
            remaining -= 1;
            let inside = match self.read()? {
                Value::Array(count) => count,
                Value::Map(count) => count.saturating_mul(2),
                _ => 0,
            };
            remaining = remaining.saturating_add(inside);
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, length: usize, start: usize) -> Result<&'a [u8], ReadError> {
        let taken = self
            .rest()
            .get(..length)
            .ok_or(ReadError::Truncated(start))?;
        self.position += length;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, start: usize) -> Result<[u8; N], ReadError> {
        let (taken, _) = self
            .rest()
            .split_first_chunk()
            .ok_or(ReadError::Truncated(start))?;
        self.position += N;
        Ok(*taken)
    }

    /// A length of 1, 2 or 4 bytes.
    #[inline]
    fn length(&mut self, width: u8, start: usize) -> Result<usize, ReadError> {
        Ok(match width {
            0 => usize::from(u8::from_be_bytes(self.array(start)?)),
            1 => usize::from(u16::from_be_bytes(self.array(start)?)),
            _ => u32::from_be_bytes(self.array(start)?) as usize,
        })
    }

    fn extension(&mut self, length: usize, start: usize) -> Result<Value<'a>, ReadError> {
        let [code] = self.array(start)?;
        Ok(Value::Extension(code as i8, self.take(length, start)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_declared_length_is_not_believed() {
        for bytes in [
            &[0xdb, 0xff, 0xff, 0xff, 0xff, b'a'][..],
            &[0xc6, 0xff, 0xff, 0xff, 0xff],
            &[0xc9, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xdf, 0xff, 0xff, 0xff, 0xff, 1, 1],
            &[0xcb, 0],
            &[0xa2, b'a'],
            &[],
        ] {
            let result = Reader::new(bytes).skip();
            assert!(matches!(result, Err(ReadError::Truncated(_))), "{bytes:?}");
        }
    }

    #[test]
    fn nesting_costs_no_stack() {
        let mut bytes = vec![0x91; 1_000_000];
        bytes.push(0xc0);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.skip(), Ok(()));
        assert!(reader.is_at_end());
    }

    proptest! {
        #[test]
        fn any_bytes_give_values_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            while !reader.is_at_end() {
                let before = reader.position();
                if reader.read().is_err() {
                    break;
                }
                prop_assert!(reader.position() > before);
            }
            let _ = Reader::new(&bytes).skip();
        }
    }
}
