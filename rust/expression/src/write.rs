//! Values as they are encoded: byte for byte what a gate appends for Python's objects.

use crate::unusual::Unusual;
use crate::value::Value;
use crate::view::is_deeper;
use oka_compute::encode;
use oka_compute::value::extension;

/// Appends a value that so many containers are around.
#[inline]
pub(crate) fn write(out: &mut Vec<u8>, value: Value<'_>, depth: usize) -> Result<(), Unusual> {
    match value {
        Value::Text(text) => {
            check_length(text.len())?;
            encode::text(out, text);
        }
        Value::Int(number) => encode::int(out, number),
        Value::Tuple(items) => {
            check_container(items.len(), depth)?;
            encode::array(out, items.len());
            for item in items {
                write(out, *item, depth + 1)?;
            }
        }
        Value::Float(number) => encode::float(out, number),
        Value::View(view) => {
            // As a record of its own it was deep enough before.
            if depth > 0 && is_deeper(view.bytes(), MOST_DEPTH.saturating_sub(depth))? {
                return Err(Unusual::TooDeep);
            }
            out.extend_from_slice(view.bytes());
        }
        _ => write_other(out, value, depth)?,
    }
    Ok(())
}

#[inline(never)]
fn write_other(out: &mut Vec<u8>, value: Value<'_>, depth: usize) -> Result<(), Unusual> {
    match value {
        Value::None => encode::nil(out),
        Value::Bool(truth) => encode::boolean(out, truth),
        Value::Bytes(bytes) => {
            check_length(bytes.len())?;
            encode::bytes(out, bytes);
        }
        Value::Dict(entries) => {
            check_container(entries.len(), depth)?;
            encode::map(out, entries.len());
            for (key, value) in entries {
                write(out, *key, depth + 1)?;
                write(out, *value, depth + 1)?;
            }
        }
        Value::List(items) => {
            check_container(items.len(), depth)?;
            let start = encode::open_extension(out, extension::LIST);
            encode::array(out, items.len());
            for item in items {
                write(out, *item, depth + 1)?;
            }
            if !encode::close_extension(out, start) {
                return Err(Unusual::TooLarge);
            }
        }
        Value::Opaque(bytes) => {
            if depth > 0 && is_deeper(bytes, MOST_DEPTH.saturating_sub(depth))? {
                return Err(Unusual::TooDeep);
            }
            out.extend_from_slice(bytes);
        }
        Value::Foreign(foreign) => foreign.write(out, depth)?,
        Value::Set(_) => return Err(Unusual::NotSent),
        Value::Text(_) | Value::Int(_) | Value::Tuple(_) | Value::Float(_) | Value::View(_) => {
            write(out, value, depth)?;
        }
    }
    Ok(())
}

fn check_container(count: usize, depth: usize) -> Result<(), Unusual> {
    check_length(count)?;
    if depth >= MOST_DEPTH {
        return Err(Unusual::TooDeep);
    }
    Ok(())
}

#[inline]
fn check_length(length: usize) -> Result<(), Unusual> {
    if u32::try_from(length).is_err() {
        return Err(Unusual::TooLarge);
    }
    Ok(())
}

/// How deep a record may nest.
const MOST_DEPTH: usize = 200;
