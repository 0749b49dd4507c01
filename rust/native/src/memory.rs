//! Bytes that Python and Rust share without a copy, and their checksums.

pub(crate) mod buffer;
pub(crate) mod checksum;
pub(crate) mod mapped;
