//! Messages of Arrow IPC, as they lie behind each other in bytes that may be anything.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use crate::channel::decode::DecodeError;

/// The metadata of the message that `bytes` begin with.
pub(crate) fn metadata(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let (prefix, rest) = bytes
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or(DecodeError::Malformed)?;
    let [marker, length] = prefix.as_chunks::<4>().0 else {
        return Err(DecodeError::Malformed);
    };
    if *marker != CONTINUATION_MARKER {
        return Err(DecodeError::Malformed);
    }
    let length = u32::from_le_bytes(*length) as usize;
    rest.get(..length).ok_or(DecodeError::Malformed)
}

/// What comes before metadata of so many bytes.
pub(crate) fn prefix(length: usize) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0xff; PREFIX_BYTES];
    prefix[4..].copy_from_slice(&(length as u32).to_le_bytes());
    prefix
}

/// Takes a body of so many bytes off `bytes`.
pub(super) fn split_body(bytes: &mut Bytes, length: usize) -> Result<Bytes, DecodeError> {
    if bytes.len() < length {
        return Err(DecodeError::Malformed);
    }
    Ok(bytes.split_to(length))
}

/// Refuses buffers that are not inside the body.
pub(super) fn check_buffers(
    batch: arrow_ipc::RecordBatch<'_>,
    bytes: usize,
) -> Result<(), DecodeError> {
    let inside = |buffer: &arrow_ipc::Buffer| {
        let (offset, length) = (buffer.offset(), buffer.length());
        offset >= 0
            && length >= 0
            && offset
                .checked_add(length)
                .is_some_and(|end| end as u64 <= bytes as u64)
    };
    if batch
        .buffers()
        .is_some_and(|buffers| !buffers.iter().all(inside))
    {
        return Err(DecodeError::Malformed);
    }
    Ok(())
}

/// A panic of the decoder below, over bytes that it did not expect, is an error like others.
pub(super) fn guarded<T>(
    decode: impl FnOnce() -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or(Err(DecodeError::Malformed))
}

/// Continuation marker and length, before every message.
pub(super) const PREFIX_BYTES: usize = 8;
const CONTINUATION_MARKER: [u8; 4] = [0xff; 4];
