//! The hash by which records are divided among tasks, of keys that are encoded.

use crate::encoded::value::{Reader, Value, extension};
use crate::keys::key::MAX_DEPTH;
use oka_protocol::partition::{
    combine, hash_big_int, hash_bytes, hash_float, hash_int, hash_none, hash_unsigned, hash_utf8,
};

/// The hash that a gate has of the key; `None` where that takes a look at the object in Python.
///
/// ```
/// use oka_compute::place;
/// use oka_protocol::partition::hash_int;
///
/// assert_eq!(place::hash(&[0x07]), Some(hash_int(7)));
/// ```
pub fn hash(encoded: &[u8]) -> Option<u64> {
    next(&mut Reader::new(encoded), 0)
}

fn next(reader: &mut Reader, depth: usize) -> Option<u64> {
    Some(match reader.read().ok()? {
        Value::Nil => hash_none(),
        Value::Bool(truth) => hash_int(i64::from(truth)),
        Value::Int(number) => hash_int(number),
        Value::Unsigned(number) => hash_unsigned(number),
        Value::Float(number) => hash_float(number),
        Value::Str(utf8) => hash_utf8(utf8),
        Value::Bytes(data) => hash_bytes(data),
        Value::Array(count) if depth < MAX_DEPTH => return tuple(reader, count, depth),
        Value::Extension(extension::BIG_INT, [sign, magnitude @ ..]) => {
            hash_big_int(*sign != 0, magnitude)
        }
        _ => return None,
    })
}

fn tuple(reader: &mut Reader, count: usize, depth: usize) -> Option<u64> {
    let mut are_known = true;
    let hashes = (0..count).map_while(|_| {
        let hash = next(reader, depth + 1);
        are_known &= hash.is_some();
        hash
    });
    let hash = combine(hashes);
    are_known.then_some(hash)
}
