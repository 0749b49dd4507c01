//! Writes values in the encoding that [`crate::encoded::value`] reads.
//!
//! Every value takes the shortest form that msgpack has for it, so that equal values of one type
//! are equal bytes.

use crate::encoded::value::extension as code;
use oka_protocol::number::significant;

/// Appends an integer.
#[inline]
pub fn int(out: &mut Vec<u8>, number: i64) {
    match number {
        -0x20..=0x7f => out.push(number as u8),
        0x80.. => unsigned(out, number as u64),
        _ => negative(out, number),
    }
}

/// Appends an integer that is not negative.
#[inline]
pub fn unsigned(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x7f => out.push(number as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => marked(out, 0xcd, (number as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => marked(out, 0xce, (number as u32).to_be_bytes()),
        _ => marked(out, 0xcf, number.to_be_bytes()),
    }
}

/// Appends an integer of any size, as sign and magnitude (little endian).
pub fn integer(out: &mut Vec<u8>, negative: bool, magnitude: &[u8]) {
    let magnitude = significant(magnitude);
    let length = magnitude.len();
    if length <= 8 {
        let mut number = [0; 8];
        number[..length].copy_from_slice(magnitude);
        let number = u64::from_le_bytes(number);
        if !negative {
            return unsigned(out, number);
        }
        if let Ok(number) = i64::try_from(-i128::from(number)) {
            return int(out, number);
        }
    }
    let mut payload = Vec::with_capacity(length + 1);
    payload.push(u8::from(negative));
    payload.extend_from_slice(magnitude);
    extension(out, code::BIG_INT, &payload);
}

#[inline]
pub fn float(out: &mut Vec<u8>, number: f64) {
    marked(out, 0xcb, number.to_be_bytes());
}

#[inline]
pub fn nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

#[inline]
pub fn boolean(out: &mut Vec<u8>, truth: bool) {
    out.push(0xc2 + u8::from(truth));
}

/// Appends a text, given as UTF-8. The caller has checked that it is shorter than 4 GiB.
#[inline]
pub fn text(out: &mut Vec<u8>, utf8: &[u8]) {
    match utf8.len() {
        length @ 0..=0x1f => out.push(0xa0 | length as u8),
        length @ 0x20..=0xff => out.extend_from_slice(&[0xd9, length as u8]),
        length @ 0x100..=0xffff => marked(out, 0xda, (length as u16).to_be_bytes()),
        length => marked(out, 0xdb, (length as u32).to_be_bytes()),
    }
    out.extend_from_slice(utf8);
}

/// Appends a byte string shorter than 4 GiB.
#[inline]
pub fn bytes(out: &mut Vec<u8>, data: &[u8]) {
    bytes_head(out, data.len());
    out.extend_from_slice(data);
}

/// Appends the head of a byte string; the caller appends its `length` bytes, fewer than 4 GiB.
#[inline]
pub fn bytes_head(out: &mut Vec<u8>, length: usize) {
    match length {
        0..=0xff => out.extend_from_slice(&[0xc4, length as u8]),
        0x100..=0xffff => marked(out, 0xc5, (length as u16).to_be_bytes()),
        _ => marked(out, 0xc6, (length as u32).to_be_bytes()),
    }
}

/// Appends the head of an array; the caller appends its `count` elements.
#[inline]
pub fn array(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=0xf => out.push(0x90 | count as u8),
        0x10..=0xffff => marked(out, 0xdc, (count as u16).to_be_bytes()),
        _ => marked(out, 0xdd, (count as u32).to_be_bytes()),
    }
}

/// Appends the head of a map; the caller appends its `count` pairs.
#[inline]
pub fn map(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=0xf => out.push(0x80 | count as u8),
        0x10..=0xffff => marked(out, 0xde, (count as u16).to_be_bytes()),
        _ => marked(out, 0xdf, (count as u32).to_be_bytes()),
    }
}

/// Appends an extension whose payload is known and shorter than 4 GiB.
pub fn extension(out: &mut Vec<u8>, code: i8, payload: &[u8]) {
    match payload.len() {
        length @ (1 | 2 | 4 | 8 | 16) => out.push(0xd4 + length.trailing_zeros() as u8),
        length @ 0..=0xff => out.extend_from_slice(&[0xc7, length as u8]),
        length @ 0x100..=0xffff => marked(out, 0xc8, (length as u16).to_be_bytes()),
        length => marked(out, 0xc9, (length as u32).to_be_bytes()),
    }
    out.push(code as u8);
    out.extend_from_slice(payload);
}

/// Starts an extension whose payload the caller appends; [`close_extension`] with the offset that
/// this returns fills in the length.
#[inline]
pub fn open_extension(out: &mut Vec<u8>, code: i8) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0xc9, 0, 0, 0, 0, code as u8]);
    start
}

/// What [`open_extension`] appends.
pub const OPENED_BYTES: usize = 6;

/// Fills in the length of an extension. False, and nothing is written, when it is 4 GiB or more.
#[must_use]
#[inline]
pub fn close_extension(out: &mut [u8], start: usize) -> bool {
    let payload = out.len() - start - OPENED_BYTES;
    set_length(out, start, payload)
}

/// As [`close_extension`], of an extension whose payload has this length, wherever it is.
#[must_use]
#[inline]
pub fn set_length(out: &mut [u8], start: usize, payload: usize) -> bool {
    let Ok(length) = u32::try_from(payload) else {
        return false;
    };
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
    true
}

#[cold]
fn negative(out: &mut Vec<u8>, number: i64) {
    if let Ok(number) = i8::try_from(number) {
        marked(out, 0xd0, number.to_be_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        marked(out, 0xd1, number.to_be_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        marked(out, 0xd2, number.to_be_bytes());
    } else {
        marked(out, 0xd3, number.to_be_bytes());
    }
}

#[inline]
fn marked<const N: usize>(out: &mut Vec<u8>, marker: u8, number: [u8; N]) {
    // All at once: there is one look at the capacity.
    let mut bytes = [marker; 9];
    bytes[1..=N].copy_from_slice(&number);
    out.extend_from_slice(&bytes[..=N]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded::value::{Reader, Value};
    use proptest::prelude::*;

    fn read(out: &[u8]) -> Value<'_> {
        let mut reader = Reader::new(out);
        let value = reader.read().expect("what was written can be read");
        assert!(reader.is_at_end() || matches!(value, Value::Array(_) | Value::Map(_)));
        value
    }

    #[test]
    fn lengths_at_the_borders_of_their_forms() {
        for length in [0, 1, 2, 15, 16, 31, 32, 255, 256, 65_535, 65_536] {
            let data = vec![b'x'; length];
            let mut out = Vec::new();
            text(&mut out, &data);
            assert_eq!(read(&out), Value::Str(&data));
            out.clear();
            bytes(&mut out, &data);
            assert_eq!(read(&out), Value::Bytes(&data));
            out.clear();
            extension(&mut out, -7, &data);
            assert_eq!(read(&out), Value::Extension(-7, &data));
            out.clear();
            let start = open_extension(&mut out, 9);
            out.extend_from_slice(&data);
            assert!(close_extension(&mut out, start));
            assert_eq!(read(&out), Value::Extension(9, &data));
            out.clear();
            array(&mut out, length);
            assert_eq!(read(&out), Value::Array(length));
            out.clear();
            map(&mut out, length);
            assert_eq!(read(&out), Value::Map(length));
        }
    }

    #[test]
    fn integers_at_the_borders_of_their_forms() {
        for bits in 0..64 {
            for number in [
                1_i64 << bits,
                (1_i64 << bits).wrapping_sub(1),
                i64::MIN >> bits,
            ] {
                for number in [number, number.wrapping_neg(), number.wrapping_sub(1)] {
                    let mut out = Vec::new();
                    int(&mut out, number);
                    assert_eq!(read(&out), Value::Int(number));
                }
            }
        }
        let mut out = Vec::new();
        unsigned(&mut out, u64::MAX);
        assert_eq!(read(&out), Value::Unsigned(u64::MAX));
    }

    proptest! {
        #[test]
        fn floats_keep_their_bits(bits: u64) {
            let mut out = Vec::new();
            float(&mut out, f64::from_bits(bits));
            let Value::Float(number) = read(&out) else { panic!("a float was written") };
            prop_assert_eq!(number.to_bits(), bits);
        }
    }
}
