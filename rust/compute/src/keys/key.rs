//! Keys as bytes: two keys have the same canonical bytes exactly when they are equal in Python.
//!
//! So `True`, `1` and `1.0` are one key, `0.0` and `-0.0` are, `1e20` and `10**20` are, tuples
//! compare item by item, and all NaN are one key (an engine that decodes every NaN to one object
//! has that in Python, too). `"a"` and `b"a"` are two. Of objects that are not read here, such as a
//! Decimal or a datetime, Python tells what they equal ([`crate::encoded::objects`]).

use crate::encoded::encode;
use crate::encoded::objects;
use crate::encoded::value::{ReadError, Reader, Value, extension};
use oka_protocol::number::Float;
use thiserror::Error;

/// The value cannot be a key.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    #[error("a {0} cannot be a key: it is not hashable")]
    Unhashable(&'static str),
    #[error(
        "only None, bool, int, float, str, bytes, date, enums, and tuples, named tuples, frozensets \
         and frozen dataclasses of them are keys here"
    )]
    Unsupported,
    #[error("a key nested deeper than {MAX_DEPTH} tuples")]
    TooDeep,
    /// As Python says it.
    #[error("{0}")]
    Told(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The canonical bytes of an encoded value: the value itself where it is canonical already, which
/// costs next to nothing for strings, otherwise what is written to `scratch`.
#[inline]
pub fn canonical<'a>(encoded: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], KeyError> {
    match encoded {
        [0x00..=0x7f | 0x90 | 0xa0..=0xc0 | 0xe0..=0xff, ..] => Ok(encoded),
        [0xd9, length, ..] if *length >= 0x20 => Ok(encoded),
        _ => canonical_by_call(encoded, scratch),
    }
}

/// As `canonical`, where the value is no short text or small integer, which are most keys.
#[inline(never)]
fn canonical_by_call<'a>(
    encoded: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], KeyError> {
    if is_shortest(encoded) {
        return Ok(encoded);
    }
    scratch.clear();
    append_canonical(scratch, &mut Reader::new(encoded), 0)?;
    Ok(scratch)
}

/// How deep the tuples of a key may nest.
pub const MAX_DEPTH: usize = 64;

/// True for long text, and for large integers that are not negative, in the shortest form, whatever
/// follows them.
fn is_shortest(encoded: &[u8]) -> bool {
    match encoded {
        [0xcc, number, ..] => *number >= 0x80,
        [0xcd | 0xda, high, _, ..] => *high != 0,
        [0xce, a, b, _, _, ..] => [*a, *b] != [0; 2],
        [0xcf, a, b, c, d, _, _, _, _, ..] => [*a, *b, *c, *d] != [0; 4],
        _ => false,
    }
}

fn append_canonical(out: &mut Vec<u8>, reader: &mut Reader, depth: usize) -> Result<(), KeyError> {
    let start = reader.position();
    match reader.read()? {
        Value::Nil => encode::nil(out),
        Value::Bool(truth) => encode::int(out, i64::from(truth)),
        Value::Int(number) => encode::int(out, number),
        Value::Unsigned(number) => encode::unsigned(out, number),
        Value::Float(number) => append_float(out, number),
        Value::Str(utf8) => encode::text(out, utf8),
        Value::Bytes(data) => encode::bytes(out, data),
        Value::Array(_) if depth == MAX_DEPTH => return Err(KeyError::TooDeep),
        Value::Array(count) => {
            encode::array(out, count);
            for _ in 0..count {
                append_canonical(out, reader, depth + 1)?;
            }
        }
        Value::Map(_) => return Err(KeyError::Unhashable("dict")),
        Value::Extension(extension::LIST, _) => return Err(KeyError::Unhashable("list")),
        Value::Extension(extension::SET, _) => return Err(KeyError::Unhashable("set")),
        Value::Extension(extension::BIG_INT, [sign, magnitude @ ..]) => {
            encode::integer(out, *sign != 0, magnitude);
        }
        Value::Extension(code, payload) if extension::COMPARABLE.contains(&code) => {
            encode::extension(out, code, payload);
        }
        Value::Extension(
            code @ (extension::NAMED_TUPLE | extension::VALUE_ENUM | extension::EQUAL_BY_PARTS),
            payload,
        ) => append_object(out, code, payload, depth)?,
        Value::Extension(extension::FROZENSET, payload) => append_set(out, payload, depth)?,
        Value::Extension(..) => append_told(out, reader.since(start), depth)?,
    }
    Ok(())
}

/// Appends the elements of a set in the order of their bytes, each once.
fn append_set(out: &mut Vec<u8>, payload: &[u8], depth: usize) -> Result<(), KeyError> {
    let mut reader = Reader::new(payload);
    let Value::Array(count) = reader.read()? else {
        return Err(KeyError::Unsupported);
    };
    if depth == MAX_DEPTH {
        return Err(KeyError::TooDeep);
    }
    let mut elements = Vec::new();
    for _ in 0..count {
        let mut element = Vec::new();
        append_canonical(&mut element, &mut reader, depth + 1)?;
        elements.push(element);
    }
    if !reader.is_at_end() {
        return Err(KeyError::Unsupported);
    }
    elements.sort_unstable();
    elements.dedup();
    let mut parts = Vec::with_capacity(payload.len());
    encode::array(&mut parts, elements.len());
    parts.extend_from_slice(&elements.concat());
    encode::extension(out, extension::FROZENSET, &parts);
    Ok(())
}

/// Appends what an object equals, as Python tells it: a plain value, or else a tuple of its own.
#[cold]
fn append_told(out: &mut Vec<u8>, encoded: &[u8], depth: usize) -> Result<(), KeyError> {
    if depth == MAX_DEPTH {
        return Err(KeyError::TooDeep);
    }
    let plain = objects::plain_key(encoded)?;
    let mut reader = Reader::new(&plain);
    if !matches!(Reader::new(&plain).read()?, Value::Array(_)) {
        return append_canonical(out, &mut reader, depth + 1);
    }
    let mut parts = Vec::with_capacity(plain.len());
    append_canonical(&mut parts, &mut reader, depth + 1)?;
    encode::extension(out, extension::CANONICAL, &parts);
    Ok(())
}

/// Appends what an object equals: a tuple, a plain value, or objects of its class alone.
fn append_object(
    out: &mut Vec<u8>,
    code: i8,
    payload: &[u8],
    depth: usize,
) -> Result<(), KeyError> {
    let mut reader = Reader::new(payload);
    let Value::Array(count @ 1..) = reader.read()? else {
        return Err(KeyError::Unsupported);
    };
    if depth == MAX_DEPTH {
        return Err(KeyError::TooDeep);
    }
    match code {
        extension::NAMED_TUPLE => {
            reader.skip()?;
            encode::array(out, count - 1);
            append_all(out, &mut reader, count - 1, depth)
        }
        extension::VALUE_ENUM => {
            reader.skip_many(count - 1)?;
            append_all(out, &mut reader, 1, depth)
        }
        _ => {
            let mut parts = Vec::with_capacity(payload.len());
            encode::array(&mut parts, count);
            append_all(&mut parts, &mut reader, count, depth)?;
            encode::extension(out, code, &parts);
            Ok(())
        }
    }
}

/// Appends the next `count` values, which must be all there are.
fn append_all(
    out: &mut Vec<u8>,
    reader: &mut Reader,
    count: usize,
    depth: usize,
) -> Result<(), KeyError> {
    for _ in 0..count {
        append_canonical(out, reader, depth + 1)?;
    }
    if reader.is_at_end() {
        Ok(())
    } else {
        Err(KeyError::Unsupported)
    }
}

fn append_float(out: &mut Vec<u8>, number: f64) {
    match Float::of(number) {
        Float::Nan => encode::float(out, f64::NAN),
        Float::Fraction => encode::float(out, number),
        Float::Integer(number) => encode::int(out, number),
        Float::BigInteger {
            negative,
            magnitude,
        } => encode::integer(out, negative, &magnitude),
    }
}

#[cfg(test)]
mod tests;
